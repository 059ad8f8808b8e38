"""How long a trace of millions of events takes to import, and how much memory: `python benchmarks/timeline_import.py`.

The trace is that of a program in the manner of PyTorch: of every ten events four are operators within each other, one a
range of the program, two are calls, two kernels, and one is a copy. Memory is the most that the process had at a time.
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


def write(path: Path, events: int) -> None:
    """A trace of about as many events."""

    def event(cat: str, name: str, at: int, length: int, place: str, args: str = "") -> str:
        more = f', "args": {{{args}}}' if args else ""
        return f'{{"ph": "X", "cat": "{cat}", "name": "{name}", {place}, "ts": {at}.125, "dur": {length}.5{more}}}'

    host, device = '"pid": 100, "tid": 100', '"pid": 0, "tid": 7'
    with path.open("w", encoding="utf-8") as out:
        out.write(_HEADER)
        for step in range(max(1, events // 10)):
            at = 1_000_000 + 100 * step
            of = f'"External id": {step}, "device": 0, "stream": 7, "correlation": '
            names = [_OPERATORS[(step * 7 + n) % 200] for n in range(4)]
            lines = [event("user_annotation", "step", at, 95, host)]
            lines += [event("cpu_op", name, at + n + 1, 90 - 2 * n, host) for n, name in enumerate(names)]
            lines.append(event("cuda_runtime", "cudaLaunchKernel", at + 10, 5, host, f'"correlation": {2 * step}'))
            lines.append(event("cuda_runtime", "cudaMemcpyAsync", at + 20, 5, host, f'"correlation": {2 * step + 1}'))
            sizes = ', "grid": [128, 1, 1], "block": [256, 1, 1], "registers per thread": 64, "shared memory": 0'
            lines.append(event("kernel", _KERNELS[step % 60], at + 30, 20, device, f"{of}{2 * step}{sizes}"))
            lines.append(event("kernel", _KERNELS[step * 3 % 60], at + 52, 20, device, f"{of}{2 * step}{sizes}"))
            copy = f'{of}{2 * step + 1}, "bytes": 4096'
            lines.append(event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", at + 75, 9, device, copy))
            out.write((",\n" if step else "") + ",\n".join(lines))
        out.write("\n]}\n")


def main() -> int:
    """Write a trace, import it into a store of its own, and say what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    events = parser.parse_args().events
    from rooflens.analysis.store.store import Store
    from rooflens.tools.import_profile import import_profile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        write(path, events)
        size, began, cpu = path.stat().st_size, time.perf_counter(), time.process_time()
        store = Store(Path(folder) / "store")
        done = import_profile(store, str(path))
        took, used = time.perf_counter() - began, time.process_time() - cpu
        manifest = store.resolve(done.workload)
        stored = sum(manifest.files.values())
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{events:,} events, {size / 1e6:,.0f} MB of JSON: {took:.0f} s ({used:.0f} s of CPU time), {memory:,.0f} MiB"
    )
    print(f"{manifest.events:,} events and {manifest.dispatches:,} launches stored in {stored / 1e6:,.0f} MB")
    print("\n".join(done.notes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
