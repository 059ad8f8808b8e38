"""Ceilings of an NVIDIA GPU by rooflens, twice, beside what torch, cuBLAS and plainly compiled loops reach on it.

    python benchmarks/peaks_h200.py [RESULTS.json]        needs torch, numpy and rooflens[cuda]; prints a Markdown table

The peers do what BabelStream (copy, triad, dot as a read), mixbench (multiply-adds in compiled loops) and cuBLAS do, in
torch or in kernels written for this script; those programs themselves are not run. Peers get the same treatment as our
kernels: events, warm-up, the median, the best of their variants, and pauses between matrix products.
"""

from __future__ import annotations

import datetime
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

from rooflens.tools.device.benchmarks.cuda import Cuda
from rooflens.tools.device.benchmarks.gpu import measure_ceilings
from rooflens.tools.device.benchmarks.outcomes import CeilingOutcome

_LOOPS = r"""
#include <cuda_fp16.h>
template <typename T> __device__ void chains(T* out, long long rounds, T y, T z) {
  T x[8];
  for (int i = 0; i < 8; ++i) x[i] = (T)(float)(threadIdx.x + i);
  for (long long r = 0; r < rounds; ++r)
#pragma unroll
    for (int s = 0; s < 16; ++s)
#pragma unroll
      for (int i = 0; i < 8; ++i) x[i] = x[i] * y + z;
  T sum = x[0];
  for (int i = 1; i < 8; ++i) sum = sum + x[i];
  out[(long long)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
#define PLAIN(NAME, T) \
  extern "C" __global__ void NAME(T* out, T* unused, T* yz, long long rounds, long long, long long) { \
    chains<T>(out, rounds, yz[0], yz[1]); \
  }
PLAIN(plain_f32, float)
PLAIN(plain_f64, double)
PLAIN(plain_i32, int)
"""


def main() -> None:
    """Measure everything and print the table."""
    first, second = ({o.ceiling: o for o in measure_ceilings("nvidia", None, "full")} for _ in range(2))
    peers = {**memory(), **loops(), **products()}
    device = Cuda(0).device
    print(f"{device.name}, driver {device.driver}, {device.runtime}, {device.compiler}, torch {torch.__version__},")
    print(f"{datetime.datetime.now(datetime.UTC):%d %B %Y}\n")
    print(
        "| ceiling | unit | rooflens | p05-p95 | of theory | clock MHz | at that clock | second run | best peer | it |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, outcome in first.items():
        print(_row(outcome, second[name], peers.get(name, {})))
    if len(sys.argv) > 1:
        found = {"first": [asdict(o) for o in first.values()], "second": [asdict(o) for o in second.values()]}
        Path(sys.argv[1]).write_text(json.dumps(found | {"peers": peers}, indent=1), encoding="utf-8")


def memory() -> dict[str, dict[str, float]]:
    """GB/s of torch's own kernels and of the driver's copy over 2 GiB."""
    count = 1 << 29
    x, y, z = (torch.rand(count, device="cuda") for _ in range(3))
    size = 4 * count
    copies = {
        "torch copy_": lambda: y.copy_(x),
        "cudaMemcpy (torch storage copy_)": lambda: y.untyped_storage().copy_(x.untyped_storage()),
    }
    found = {"hbm.copy": {name: 2 * size / timed(go) / 1e6 for name, go in copies.items()}}
    found["hbm.triad"] = {"torch add, alpha": 3 * size / timed(lambda: torch.add(x, y, alpha=3.0, out=z)) / 1e6}
    found["hbm.read"] = {
        "torch sum": size / timed(lambda: x.sum()) / 1e6,
        "torch dot": 2 * size / timed(lambda: torch.dot(x[: 1 << 29], y[: 1 << 29])) / 1e6,
    }
    found["hbm.write"] = {"torch fill_": size / timed(lambda: z.fill_(1.5)) / 1e6}
    return found


def loops() -> dict[str, dict[str, float]]:
    """GFLOP/s of multiply-adds as a compiler makes them of plain loops."""
    cuda = Cuda(0)
    module = cuda.load(cuda.compile(_LOOPS.replace("#include <cuda_fp16.h>\n", ""), {}))
    out = cuda.allocate(1 << 26)
    yz = cuda.allocate(256)
    found = {}
    groups, rounds = 32 * cuda.device.compute_units, 400
    for name, kind in (("f32", torch.float32), ("f64", torch.float64), ("i32", torch.int32)):
        values = torch.tensor([0.75, 0.5] if name != "i32" else [3, 7], dtype=kind).numpy().tobytes()
        cuda.upload(yz, values)
        kernel = cuda.kernel(module, f"plain_{name}", 0)
        span = timed(lambda kernel=kernel: cuda.launch(kernel, groups, 256, 0, (out, out, yz, rounds, 0, 0)))
        found[f"valu.{name}"] = {"compiled loop": groups * 256 * rounds * 128 * 2 / span / 1e6}
    return found


def products() -> dict[str, dict[str, float]]:
    """GFLOP/s of torch's matrix products (cuBLAS) of 8192 x 8192 random matrices."""
    n = 8192
    work = 2.0 * n**3
    a, b = torch.randn(n, n, device="cuda"), torch.randn(n, n, device="cuda")
    found: dict[str, dict[str, float]] = {}

    def add(name: str, word: str, go: Callable[[], object]) -> None:
        try:
            found[name] = {word: work / timed(go, rest_s=0.03) / 1e6}
        except RuntimeError as error:
            print(f"{word}: {error}", file=sys.stderr)

    for name, kind in (("f16", torch.float16), ("bf16", torch.bfloat16), ("f64", torch.float64)):
        left, right = a.to(kind), b.to(kind)
        add(f"matrix.{name}", f"cuBLAS {name}", lambda left=left, right=right: left @ right)
    torch.backends.cuda.matmul.allow_tf32 = True
    add("matrix.tf32", "cuBLAS tf32", lambda: a @ b)
    left, right = (m.to(torch.float8_e4m3fn) for m in (a, b.t().contiguous()))
    one = torch.ones((), device="cuda")
    add(
        "matrix.f8",
        "cuBLASLt fp8",
        lambda: torch._scaled_mm(
            left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        ),
    )
    ints = [torch.randint(-127, 128, (n, n), device="cuda", dtype=torch.int8) for _ in range(2)]
    add("matrix.i8", "cuBLASLt int8", lambda: torch._int_mm(ints[0], ints[1].t()))
    return found


def timed(go: Callable[[], object], *, rest_s: float = 0.0) -> float:
    """Median milliseconds of a call, of 10 batches of 4 after a warm-up."""
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(4)]
    samples = []
    for batch in range(11):
        for before, after in events:
            before.record(torch.cuda.default_stream())
            go()
            after.record(torch.cuda.default_stream())
        torch.cuda.synchronize()
        samples += [before.elapsed_time(after) for before, after in events] if batch else []
        time.sleep(rest_s)
    return statistics.median(samples)


def _row(one: CeilingOutcome, two: CeilingOutcome, peers: dict[str, float]) -> str:
    def figure(value: float | None, digits: int = 0) -> str:
        return "-" if value is None else f"{value:,.{digits}f}"

    small = 2 if one.unit == "us" else 0
    spread = f"{100 * ((two.value or 0) / one.value - 1):+.1f} %" if one.value and two.value else "-"
    word, best = max(peers.items(), key=lambda pair: pair[1], default=("", None))
    pct = "-" if one.pct_of_theoretical is None else f"{one.pct_of_theoretical:.1f} %"
    clocked = "-" if one.pct_at_clock is None else f"{one.pct_at_clock:.1f} %"
    doubt = f" {one.status}: {one.reason}" if one.status != "ok" else ""
    spread_of = f"{figure(one.p05, small)}-{figure(one.p95, small)}"
    cells = (one.ceiling, one.unit, figure(one.value, small), spread_of, pct, figure(one.clock_mhz), clocked, spread)
    return f"| {' | '.join(cells)} | {figure(best)} | {word} |{doubt}"


if __name__ == "__main__":
    main()
