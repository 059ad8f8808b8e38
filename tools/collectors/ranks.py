"""A run of a program with many ranks (MPI, SLURM): the profiler inside the launcher, with files of its own per rank."""

from __future__ import annotations

import shlex

from .steps import Step

_LAUNCHERS = {  # launcher -> its words, and the variable that holds the rank
    "slurm": ("srun --ntasks=RANKS", "SLURM_PROCID"),
    "openmpi": ("mpirun -n RANKS", "OMPI_COMM_WORLD_RANK"),
    "mpich": ("mpirun -n RANKS", "PMI_RANK"),
}
_FILE_OPTIONS = {"rocprof": "-o", "perf": "-o"}
"""Of the profilers that write one file under a fixed name, which the ranks would overwrite."""


def launched(profiler: str, step: Step, command: tuple[str, ...]) -> dict[str, str]:
    """Launcher -> one shell line that runs ``step`` on every rank; RANKS stands for their number.

    rocprofv3 and rocprofv2 put host, rank or process into the names of their files. ncu does so for reports, not for
    its log, so it writes a report; where a profiler does neither, a shell on every rank puts the rank in.
    """
    env = ["env", *(f"{name}={value}" for name, value in step.env.items())] if step.env else []
    option = _FILE_OPTIONS.get(profiler)
    if option is None:
        argv = [*env, *(_with_report(step.argv, len(command)) if profiler == "ncu" else step.argv)]
        return {name: f"{words} {shlex.join(argv)}" for name, (words, _) in _LAUNCHERS.items()}
    found = {}
    own = [*env, *step.argv[: len(step.argv) - len(command)]]
    at = own.index(option) + 1
    stem, _, suffix = own[at].rpartition(".")
    for name, (words, variable) in _LAUNCHERS.items():
        inner = [shlex.quote(a) for a in own]
        inner[at] = f'{shlex.quote(stem)}_"${variable}".{suffix}'
        line = f'exec {" ".join(inner)} "$@"'
        found[name] = f"{words} sh -c {shlex.quote(line)} sh {shlex.join(command)}"
    return found


def _with_report(argv: tuple[str, ...], length: int) -> list[str]:
    """ncu's arguments with ``--export report_HOST_PID`` in place of the CSV log."""
    own, command = list(argv[: len(argv) - length]), argv[len(argv) - length :]
    start, end = own.index("--csv"), own.index("--log-file") + 2
    folder = own[end - 1].rpartition("/")[0]
    return [*own[:start], "--export", f"{folder}/report_%h_%p", *own[end:], *command]
