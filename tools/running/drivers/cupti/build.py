"""Compile the recorder on this machine, once, with the program's own CUPTI, into a private cache folder."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .....analysis.base.problems import command_advice
from .....analysis.catalogue import files
from ....base.profile_files import head
from ....base.untrusted_text import plain_text
from ....device.machine.programs import ask
from ....profiles.cupti.records import TIMING as NAME
from ...job import Step
from ...wording import problem

_SOURCE = Path(__file__).with_name("recorder.c")
_PLACES = files.load(Path(__file__).with_suffix(".toml"))
_LIBRARY = re.compile(r"libcupti(-[0-9a-f]+)?\.so(\.\d+)*")
_VERSION = re.compile(r"\.so\.(\d+)")
_TORCH_CUDA = re.compile(r"^cuda\b[^=\n]*=\s*['\"](\d+)\.", re.MULTILINE)
_PRINT_PATH = 'import sys; print("\\n".join(p for p in sys.path if p))'
_COMPILE_S, _ASK_S = 60.0, 20.0
_MOST_TRIED = 4
"""Maximum number of pairs of library and headers to try."""


@dataclass(frozen=True)
class Cupti:
    """A CUPTI library, and the folders with matching headers."""

    library: Path
    include: Path
    """Folder of cupti_activity.h."""
    cuda: Path
    """Folder of cuda.h."""


@dataclass(frozen=True)
class Recorder:
    """The compiled recorder, and the library that it was linked with."""

    path: Path
    library: Path

    def environment(self, folder: str, *, timeline: bool = False, stacks: bool = False) -> dict[str, str]:
        """Return the variables that make the driver load the recorder into every process of a program.

        The processes write their files to ``folder``; ``timeline`` adds other host and device activity,
        ``stacks`` the host stacks of calls.
        """
        return {
            **({"ROOFLENS_RECORD_TIMELINE": "1"} if timeline else {}),
            **({"ROOFLENS_RECORD_STACKS": "1"} if stacks else {}),
            "CUDA_INJECTION64_PATH": str(self.path),
            "NVTX_INJECTION64_PATH": str(self.library),
            "ROOFLENS_RECORD_DIR": folder,
        }


def recorder(program_python: str | None = None, cache: Path | None = None) -> Recorder:
    """Return the recorder for a program, compiling it if needed; raise MissingTool if that is not possible.

    ``program_python`` is the interpreter of a Python program. The CUPTI that its PyTorch loads is preferred, so that a
    process never loads two of them.
    """
    compiler = next((path for name in _PLACES["compilers"] if (path := shutil.which(name))), None)
    if compiler is None:
        raise problem("recorder_not_compiled", why="no C compiler was found")
    folder = _private_folder(cache or _cache())
    failures = []
    for tried, cupti in enumerate(cupti_candidates(_search_path(program_python))):
        if tried >= _MOST_TRIED:
            break
        built = folder / f"recorder-{_digest(cupti, compiler)}.so"
        if _is_ours(built):
            return Recorder(built, cupti.library)
        if failure := _compile(compiler, cupti, built):
            failures.append(failure)
        else:
            return Recorder(built, cupti.library)
    why = failures[0] if failures else "no libcupti with cupti_activity.h and cuda.h was found"
    raise problem("recorder_not_compiled", why=why)


def cupti_candidates(packages: Iterable[Path], environment: Mapping[str, str] = os.environ) -> Iterator[Cupti]:
    """Yield every library with its headers, best first: from the program's packages, the toolkits, then our packages.

    ``packages`` are the Python package folders of the program.
    """
    own, toolkits, ours = list(packages), list(_toolkits(environment)), list(map(Path, _own_path()))
    places = (*own, *toolkits, *ours)
    includes = [
        folder
        for place in (*own, *ours, *toolkits)
        for pattern in _PLACES["headers"]
        for folder in sorted(place.glob(pattern))
    ]
    for library in dict.fromkeys(path.resolve() for place in places for path in _libraries(place)):
        beside = [library.parent.parent / "include", library.parent.parent.parent / "include"]
        activity = _folders_with("cupti_activity.h", [*beside, *includes])
        cuda = _folders_with("cuda.h", [*activity[:1], *beside, *includes])
        if cuda:
            for include in activity[:2]:
                yield Cupti(library, include, cuda[0])


def _folders_with(header: str, folders: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(f.resolve() for f in folders if (f / header).is_file()))


def _libraries(place: Path) -> list[Path]:
    """Return the libraries of a toolkit or folder of packages, the newest release first; before them the release that
    its PyTorch was built for, because PyTorch loads that one."""
    folders = (folder for pattern in _PLACES["libraries"] for folder in sorted(place.glob(pattern)))
    files = (file for folder in folders for file in sorted(folder.glob("libcupti*.so*")))
    libraries = [file for file in files if _LIBRARY.fullmatch(file.name) and file.is_file()]
    version = place / "torch" / "version.py"
    torch = _TORCH_CUDA.search(version.read_text("utf-8", "replace")) if version.is_file() else None
    return sorted(libraries, key=lambda file: (torch and _major(file) != int(torch[1]), -_major(file)))


def _major(library: Path) -> int:
    stated = _VERSION.search(library.resolve().name)
    return int(stated[1]) if stated else 0


def _toolkits(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders of CUDA toolkits: those that the user names first, then the newest."""
    named = [environment.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")]
    yield from (Path(folder) for folder in named if folder.startswith("/"))
    if nvcc := shutil.which("nvcc", path=environment.get("PATH")):
        yield Path(nvcc).resolve().parent.parent
    for pattern in _PLACES["toolkits"]:
        yield from sorted(Path("/").glob(pattern[1:]), key=_numbers, reverse=True)


def _numbers(path: Path) -> list[int]:
    return [int(n) for n in re.findall(r"\d{1,9}", path.name)]


def _search_path(program_python: str | None) -> list[Path]:
    """Return the folders in which the program's interpreter finds packages."""
    if program_python is None:
        return []
    answer = ask([program_python, "-c", _PRINT_PATH], _ASK_S)
    return [Path(line) for line in answer.out.splitlines() if line.startswith("/")] if answer.code == 0 else []


def _own_path() -> list[str]:
    import sys

    return [p for p in sys.path if p.startswith("/")]


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "rooflens" / "cupti"


def _private_folder(folder: Path) -> Path:
    """Return the folder, creating it if needed; raise MissingTool if others could put a library into it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.stat()
    except OSError as error:
        raise problem("no_recorder_folder", folder=folder, error=error) from error
    if state.st_uid != os.geteuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise problem(
            "open_recorder_folder",
            folder=folder,
            text=command_advice("Set XDG_CACHE_HOME, or close the folder to others", f"chmod 700 {folder}"),
        )
    return folder


def _is_ours(built: Path) -> bool:
    """Whether the library exists and nobody else could have written it."""
    try:
        state = built.lstat()
    except OSError:
        return False
    return stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022


def _digest(cupti: Cupti, compiler: str) -> str:
    """Return a digest of everything that the compiled library depends on."""
    version = cupti.include / "cupti_version.h"
    state = cupti.library.stat()
    parts = [
        _SOURCE.read_bytes(),
        version.read_bytes() if version.is_file() else b"",
        f"{cupti} {state.st_size} {state.st_mtime_ns} {compiler} {tuple(_PLACES['flags'])}".encode(),
    ]
    return hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:32]


def _compile(compiler: str, cupti: Cupti, built: Path) -> str:
    """Compile into ``built``, which appears complete or not at all; return the compiler's error message."""
    with tempfile.TemporaryDirectory(prefix="compile-", dir=built.parent) as work:
        # CUPTI's headers include this header of the CUDA runtime, of which the recorder needs nothing. The real one
        # includes many others that the wheels do not contain.
        (Path(work) / "builtin_types.h").touch()
        output = Path(work) / built.name
        argv = [compiler, *_PLACES["flags"], "-o", str(output), str(_SOURCE), f"-I{work}"]
        argv += ["-isystem", str(cupti.include), "-isystem", str(cupti.cuda)]
        argv += [str(cupti.library), f"-Wl,-rpath,{cupti.library.parent}", "-ldl"]
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_COMPILE_S, cwd=work, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{compiler} failed: {plain_text(str(error), 200)}"
        if done.returncode or not output.is_file():
            lines = done.stderr.decode("utf-8", "replace").splitlines()
            complaint = next(
                (line for line in lines if "error" in line or "undefined" in line), lines[0] if lines else ""
            )
            return f"{Path(compiler).name} with {cupti.library} failed: {plain_text(complaint, 200)}"
        output.chmod(0o500)
        output.replace(built)
    return ""


_UNSET = ("CUDA_INJECTION", "NVTX_INJECTION", "ROOFLENS_RECORD_")
_PYTHON = ("python", "pypy")
_SHEBANG = 512
_WORDS = 20


def times(command: Sequence[str], out: str, *, timeline: bool = False) -> Step:
    """Return the step ``timing``: every process that uses CUDA writes a file into the step's folder below ``out``.

    With ``timeline`` the files also contain calls with their stacks, copies and fills.

    Raises MissingTool if the recorder cannot be compiled here; ncu can then measure times.
    """
    built = recorder(python_of(command))
    environment = built.environment(f"{out}/{NAME}", timeline=timeline, stacks=timeline)
    return Step(NAME, tuple(command), env=environment, unset=_UNSET, durable=True)


def python_of(command: Sequence[str]) -> str | None:
    """Return the Python interpreter that a command runs: one of its words, as in ``mpirun -n 2 python3 train.py``, or
    that of the script that it runs (torchrun); None if there is none."""
    interpreter = next((word for word in command[:_WORDS] if Path(word).name.startswith(_PYTHON)), None)
    if interpreter and (path := shutil.which(interpreter)):
        return path
    script = shutil.which(command[0]) if command else None
    start = head(Path(script), _SHEBANG) if script else b""
    if not start.startswith(b"#!"):
        return None
    words = start[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    if words and Path(words[0]).name == "env":
        words = [w for w in words[1:] if not w.startswith("-")][:1]
    return shutil.which(words[0]) if words and Path(words[0]).name.startswith(_PYTHON) else None
