"""Count the instructions of each kernel, inside and outside its loop, in the disassembly of the code that ran."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ....analysis.counter_check.known_kernels import KnownLaunch

_LIMIT_S = 60.0
_SECTION = re.compile(r"^\.text\.(\w+):\n(.*?)(?=^\.text\.|\Z)", re.MULTILINE | re.DOTALL)
_LABEL = re.compile(r"(\.L_x_\d+):")
_CODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+ )?\s*(\S.*?);")
_TARGET = re.compile(r"\bBRA\b.*?(\.L_x_\d+)")
_BRANCHES = ("BRA", "BRX", "JMP", "EXIT", "RET", "CALL", "BSYNC", "BREAK", "WARPSYNC", "BSSY", "NANOSLEEP")
"""Instructions of NVIDIA's branch unit that occur in these kernels."""


@dataclass(frozen=True)
class DisassembledKernel:
    """The instructions of one kernel that execute once, and those of its single loop."""

    once: tuple[str, ...]
    loop: tuple[str, ...]

    def instruction_count(self, rounds: int) -> int:
        """Return the instructions of a wave whose loop runs ``rounds`` times."""
        return len(self.once) + rounds * len(self.loop)

    def of(self, names: Sequence[str], rounds: int) -> int:
        """Return how many of them have one of these names, without what follows the dot (LDL.64)."""
        once, loop = (sum(i.split()[0].split(".")[0] in names for i in part) for part in (self.once, self.loop))
        return once + rounds * loop


def disassembler() -> str | None:
    """Return the path of nvdisasm from the CUDA toolkit or from a package of this environment, or None."""
    if program := shutil.which("nvdisasm"):
        return program
    places = [Path("/usr/local/cuda/bin/nvdisasm")]
    places += sorted(Path(sysconfig.get_path("purelib"), "nvidia").glob("*/bin/nvdisasm"))
    return next((str(path) for path in places if path.is_file()), None)


def read(path: Path) -> dict[str, DisassembledKernel]:
    """Return the kernels of a cubin with simple control flow (one loop, no skipped code); others are omitted.

    Empty if there is no disassembler, or if it rejects the file.
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
    """Return the code of one kernel, or None if execution counts depend on more than its loop."""
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
    """Return per kernel what its code implies for a launch: instructions of all waves, branches, merged accesses."""
    kernels = list(launches)
    sources = {source: read(folder / f"{source}.bin") for source in {launch.source for launch in kernels}}
    quantities = {}
    for launch in kernels:
        code = sources[launch.source].get(launch.name)
        # If waves spin, or some take another path, the code alone does not determine what is executed.
        if code and launch.source in _STRAIGHT and launch.name not in _DIVIDED:
            waves = launch.quantities["waves"]
            quantities[launch.name] = {
                "instructions": waves * code.instruction_count(launch.rounds),
                "branches": waves * code.of(_BRANCHES, launch.rounds),
                **{quantity: waves * code.of([name], launch.rounds) for quantity, name in _JOINED.items()},
            }
    return quantities


_JOINED = {"scratch_loads": "LDL", "scratch_stores": "STL"}
"""Accesses of which some compiler releases merge two into one instruction."""
_STRAIGHT = ("arithmetic.cu", "memory.cu")
_DIVIDED = ("known_half", "known_diverge")
