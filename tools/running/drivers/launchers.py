"""Shell lines that start a profiler on every rank of a parallel program."""

from __future__ import annotations

import shlex

from ..job import Step
from .registry import ProfilerDriver, RankedDriver

_LAUNCHERS = {  # launcher -> its command, and the variable with the rank
    "slurm": ("srun --ntasks=RANKS", "SLURM_PROCID"),
    "openmpi": ("mpirun -n RANKS", "OMPI_COMM_WORLD_RANK"),
    "mpich": ("mpirun -n RANKS", "PMI_RANK"),
    "torchrun": ("torchrun --nproc-per-node=RANKS --no-python", "RANK"),
}


def launcher_lines(driver: ProfilerDriver, step: Step, command: tuple[str, ...]) -> dict[str, str]:
    """Map each launcher to a shell line that runs ``step`` on every rank; RANKS stands for the number of ranks.

    If the profiler writes one file with a fixed name, a shell on every rank adds the rank to it.
    """
    env = ["env", *(f"{name}={value}" for name, value in step.env.items())] if step.env else []
    option = driver.FILE_OPTION
    if option is None:
        arguments = step.argv[: len(step.argv) - len(command)]
        changed = driver.arguments_for_ranks(arguments) if isinstance(driver, RankedDriver) else arguments
        argv = [*env, *changed, *command]
        return {name: f"{words} {shlex.join(argv)}" for name, (words, _) in _LAUNCHERS.items()}
    lines = {}
    own = [*env, *step.argv[: len(step.argv) - len(command)]]
    at = own.index(option) + 1
    stem, _, suffix = own[at].rpartition(".")
    for name, (words, variable) in _LAUNCHERS.items():
        inner = [shlex.quote(a) for a in own]
        inner[at] = f'{shlex.quote(stem)}_"${variable}".{suffix}'
        line = f'exec {" ".join(inner)} "$@"'
        lines[name] = f"{words} sh -c {shlex.quote(line)} sh {shlex.join(command)}"
    return lines
