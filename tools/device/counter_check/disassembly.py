"""What the code that ran consists of: instructions of each kernel in its loop and outside, from its disassembly."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ....analysis.counter_check.known_kernels import KnownLaunch

_LIMIT_S = 60.0
_SECTION = re.compile(r"^\.text\.(\w+):\n(.*?)(?=^\.text\.|\Z)", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r"(\.L_x_\d+):")
_CODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+ )?\s*(\S.*?);")
_TARGET = re.compile(r"\bBRA\b.*?(\.L_x_\d+)")
_BRANCHES = ("BRA", "BRX", "JMP", "EXIT", "RET", "CALL", "BSYNC", "BREAK", "WARPSYNC", "BSSY", "NANOSLEEP")
"""What NVIDIA's branch unit carries out, as far as kernels here have it."""


@dataclass(frozen=True)
class DisassembledKernel:
    """The instructions of one kernel that are carried out once, and those of its one loop."""

    once: tuple[str, ...]
    loop: tuple[str, ...]

    def instruction_count(self, rounds: int) -> int:
        """Instructions of a wave whose loop runs so often."""
        return len(self.once) + rounds * len(self.loop)

    def of(self, word: str, rounds: int) -> int:
        """Instructions that begin with a word."""
        return sum(i.startswith(word) for i in self.once) + rounds * sum(i.startswith(word) for i in self.loop)

    def branches(self, rounds: int) -> int:
        """Branches and exits among them."""
        return sum(map(_branch, self.once)) + rounds * sum(map(_branch, self.loop))


def _branch(instruction: str) -> bool:
    return instruction.split()[0].split(".")[0] in _BRANCHES


def disassembler() -> str | None:
    """nvdisasm of the CUDA toolkit or of a package of this environment; None without."""
    if program := shutil.which("nvdisasm"):
        return program
    places = [Path("/usr/local/cuda/bin/nvdisasm")]
    places += sorted(Path(sysconfig.get_path("purelib"), "nvidia").glob("*/bin/nvdisasm"))
    return next((str(path) for path in places if path.is_file()), None)


def read(path: Path) -> dict[str, DisassembledKernel]:
    """The kernels of a cubin whose way through their code is plain: one loop, and nothing skipped; others are left out.

    Empty where there is no disassembler, or where it refuses the file.
    """
    program = disassembler()
    if program is None:
        return {}
    try:
        process = subprocess.run(
            [program, "-c", str(path)], capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return {name: code for name, body in _SECTION.findall(process.stdout) if (code := _plain_code(body))}


def _plain_code(body: str) -> DisassembledKernel | None:
    """The code of one kernel, or None where more than its loop decides how often an instruction is carried out."""
    labels: dict[str, int] = {}
    instructions: list[str] = []
    loops: list[tuple[int, int]] = []
    for line in body.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        code = _CODE.search(line)
        if code is None:
            continue
        instructions.append(code[2])
        target = _TARGET.search(code[2])
        if target and target[1] in labels:
            loops.append((labels[target[1]], len(instructions)))
        elif target and not code[1]:
            return None
        if code[2].startswith("EXIT"):
            if code[1]:
                return None
            break
    if len(loops) != 1:
        return None
    first, last = loops[0]
    return DisassembledKernel((*instructions[:first], *instructions[last:]), tuple(instructions[first:last]))


def code_quantities(folder: Path, launches: Iterable[KnownLaunch]) -> dict[str, dict[str, float]]:
    """By kernel what its code tells of a launch: instructions of all waves, branches, accesses that compilers join."""
    kernels = list(launches)
    sources = {launch.source: read(folder / f"{launch.source}.bin") for launch in kernels}
    quantities = {}
    for launch in kernels:
        code = sources[launch.source].get(launch.name)
        # Waves that spin, or of which some walk another way, carry out what their code alone does not tell.
        if code and launch.source in _STRAIGHT and launch.name not in _DIVIDED:
            waves = launch.quantities["waves"]
            quantities[launch.name] = {
                "instructions": waves * code.instruction_count(launch.rounds),
                "branches": waves * code.branches(launch.rounds),
                **{name: waves * code.of(word, launch.rounds) for name, word in _JOINED.items()},
            }
    return quantities


_JOINED = {"scratch_loads": "LDL", "scratch_stores": "STL"}
"""What releases of the compiler were seen to make one instruction of two."""
_STRAIGHT = ("arithmetic.cu", "memory.cu")
_DIVIDED = ("known_half", "known_diverge")
