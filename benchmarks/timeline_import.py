"""How long a trace of millions of events takes to import, and how much memory: `python benchmarks/timeline_import.py`.

Memory is the most that the process, or one that it started, had at a time. To compare two versions, run the file with
each of them in turn, with the same TRACE, which is written if it does not exist. Its shapes are those of programs that
use PyTorch:

calls      of every ten events four are operators within each other, one a range, two are calls, three device work
python     the Python stack was recorded: of every 50 events 45 are nested Python functions
arguments  operators state the shapes, strides and types of their inputs, some kB each
flows      every call and every kernel has arrows, and operators have forward and backward links
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

_HEADER = '{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "computeMajor": 9, '
_HEADER += '"computeMinor": 0, "numSms": 132}], "traceEvents": [\n'
_KERNELS = [f"void made::kernel_{n}<float, {n}>(float*, int)" for n in range(60)]
_OPERATORS = [f"aten::operator_{n}" for n in range(200)]
_HOST, _DEVICE = '"pid": 100, "tid": 100', '"pid": 0, "tid": 7'
_SHAPES = ("calls", "python", "arguments", "flows")
_STACK = 45
_INPUTS = ", ".join(["[32, 4096, 128]"] * 40)
_TYPES = ", ".join(['"float"'] * 40)
_ARGUMENTS = f'"Input Dims": [{_INPUTS}], "Input Strides": [{_INPUTS}], "Input type": [{_TYPES}]'


def _event(cat: str, name: str, at: int, length: float, place: str, args: str = "") -> str:
    more = f', "args": {{{args}}}' if args else ""
    return f'{{"ph": "X", "cat": "{cat}", "name": "{name}", {place}, "ts": {at}.125, "dur": {length}{more}}}'


def _arrow(phase: str, cat: str, number: int, at: int, place: str) -> str:
    return f'{{"ph": "{phase}", "id": {number}, {place}, "ts": {at}.125, "cat": "{cat}", "name": "{cat}", "bp": "e"}}'


def _step(step: int, shape: str) -> list[str]:
    """Return the events of one step of the program, as JSON."""
    at = 1_000_000 + 100 * step
    of = f'"External id": {step}, "device": 0, "stream": 7, "correlation": '
    names = [_OPERATORS[(step * 7 + n) % 200] for n in range(4)]
    more = _ARGUMENTS if shape == "arguments" else ""
    lines = [_event("user_annotation", "step", at, 95.5, _HOST)]
    if shape == "python":
        for level in range(_STACK):
            name = f"torch/nn/modules/module_{(step + level) % 300}.py({level}): _wrapped_call_impl"
            parent = step * _STACK + level
            ids = f'"Python parent id": {parent}, "Python id": {parent + 1}, "Ev Idx": {level}'
            lines.append(_event("python_function", name, at, 95 - level, _HOST, ids))
    lines += [_event("cpu_op", name, at + n + 1, 90.5 - 2 * n, _HOST, more) for n, name in enumerate(names)]
    lines.append(_event("cuda_runtime", "cudaLaunchKernel", at + 10, 5.5, _HOST, f'"correlation": {2 * step}'))
    lines.append(_event("cuda_runtime", "cudaMemcpyAsync", at + 20, 5.5, _HOST, f'"correlation": {2 * step + 1}'))
    sizes = ', "grid": [128, 1, 1], "block": [256, 1, 1], "registers per thread": 64, "shared memory": 0'
    lines.append(_event("kernel", _KERNELS[step % 60], at + 30, 20.5, _DEVICE, f"{of}{2 * step}{sizes}"))
    lines.append(_event("kernel", _KERNELS[step * 3 % 60], at + 52, 20.5, _DEVICE, f"{of}{2 * step}{sizes}"))
    copy = f'{of}{2 * step + 1}, "bytes": 4096'
    lines.append(_event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", at + 75, 9.5, _DEVICE, copy))
    if shape == "flows":
        for number in range(4):
            lines.append(_arrow("s", "fwdbwd", 4 * step + number, at + number, _HOST))
            lines.append(_arrow("f", "fwdbwd", 4 * step + number, at + 50 + number, _HOST))
            lines.append(_arrow("s", "DataFlow", 4 * step + number, at + 10 + number, _HOST))
            lines.append(_arrow("f", "DataFlow", 4 * step + number, at + 30 + number, _DEVICE))
    return lines


def write(path: Path, events: int, shape: str) -> None:
    """Write a trace of about as many events."""
    written = step = 0
    with path.open("w", encoding="utf-8") as out:
        out.write(_HEADER)
        while written < events:
            lines = _step(step, shape)
            out.write((",\n" if step else "") + ",\n".join(lines))
            written, step = written + len(lines), step + 1
        out.write("\n]}\n")


def _peak_kib() -> int:
    """Return the most memory that this process had; unlike ru_maxrss it does not count what its parent had."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


def main() -> int:
    """Import a trace into a store of its own, and say what that took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, nargs="?", help="default: a temporary one")
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--shape", choices=_SHAPES, default=_SHAPES[0])
    given = parser.parse_args()
    from rooflens.analysis.store.store import Store
    from rooflens.tools.import_profile import import_profile

    with tempfile.TemporaryDirectory() as folder:
        path = given.trace or Path(folder) / "trace.json"
        if not path.exists():
            write(path, given.events, given.shape)
        size, began, cpu = path.stat().st_size, time.perf_counter(), time.process_time()
        store = Store(Path(folder) / "store")
        done = import_profile(store, str(path))
        took, used = time.perf_counter() - began, time.process_time() - cpu
        manifest = store.resolve(done.workload)
        stored = sum(manifest.files.values())
    memory = (_peak_kib() + resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024
    print(f"{path.name}, {size / 1e6:,.0f} MB: {took:.1f} s ({used:.1f} s of CPU time), {memory:,.0f} MiB")
    print(f"{manifest.events:,} events and {manifest.dispatches:,} launches stored in {stored / 1e6:,.0f} MB")
    print("\n".join(done.notes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
