"""PyTorch programs with a bottleneck outside their kernels, each with a fix that removes it.

    python programs.py time STEPS [NAME ...]   time programs with and without their fix; prints JSON lines
    python programs.py NAME base|fixed STEPS   run one of them

A line is {"program", "variant", "steps", "step_us"}: the wall time of a step, averaged over STEPS steps after WARM
warm-up steps, between two device synchronisations. A fix does not change what the program computes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import torch
from torch import nn

WARM = 3
GPU = "cuda"
Step = Callable[[int], None]


def network(width: int, layers: int) -> nn.Module:
    """A plain network of linear layers."""
    parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*parts).to(GPU, torch.bfloat16)


class Samples(torch.utils.data.Dataset[torch.Tensor]):
    """Samples that need CPU time to create, like decoding and augmentation."""

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        sample = torch.randn(4096, generator=torch.Generator().manual_seed(index))
        return (sample - sample.mean()) / sample.std()


def slow_loader(fixed: bool) -> Step:
    """A data loader without workers; fixed: batches prepared in advance, as with a loader that keeps up."""
    model = network(4096, 4)
    loader = iter(torch.utils.data.DataLoader(Samples(), batch_size=64))
    ready = [next(loader) for _ in range(4)] if fixed else []

    def step(number: int) -> None:
        torch.cuda.nvtx.range_push(f"step {number}")
        batch = ready[number % 4] if fixed else next(loader)
        with torch.no_grad():
            model(batch.to(GPU, torch.bfloat16))
        torch.cuda.nvtx.range_pop()

    return step


def reading_back(rows: int, times: int, fixed: bool) -> Step:
    """A value is read back after every operation; fixed: values stay on the device until the end of the step."""
    weight = torch.randn(2048, 2048, device=GPU, dtype=torch.bfloat16)
    start = torch.randn(rows, 2048, device=GPU, dtype=torch.bfloat16)

    def step(number: int) -> None:
        torch.cuda.nvtx.range_push(f"step {number}")
        x, losses = start, []
        for _ in range(times):
            x = torch.tanh(x @ weight)
            loss = x[0, 0]
            losses.append(loss if fixed else loss.item())
        if fixed:
            torch.stack(losses).tolist()
        torch.cuda.nvtx.range_pop()

    return step


def item_each(fixed: bool) -> Step:
    """Operations that take longer than the host needs to launch the next one."""
    return reading_back(2048, 30, fixed)


def item_small(fixed: bool) -> Step:
    """Operations that take less: without the waits, the launches are the bottleneck."""
    return reading_back(256, 50, fixed)


def pageable_input(fixed: bool) -> Step:
    """A batch is copied from pageable memory; fixed: pinned memory, copied one step ahead on a separate stream."""
    weight = torch.randn(4096, 4096, device=GPU, dtype=torch.bfloat16)
    host = torch.randn(8192, 4096).to(torch.bfloat16)
    if not fixed:

        def step(_: int) -> None:
            batch = host.to(GPU)
            for _ in range(2):
                batch = batch @ weight

        return step
    pinned, ahead = host.pin_memory(), torch.cuda.Stream()
    arrived: list[torch.Tensor] = []

    def fetch() -> None:
        with torch.cuda.stream(ahead):
            arrived.append(pinned.to(GPU, non_blocking=True))

    def step_fixed(_: int) -> None:
        if not arrived:
            fetch()
        torch.cuda.current_stream().wait_stream(ahead)
        batch = arrived.pop()
        batch.record_stream(torch.cuda.current_stream())
        fetch()
        for _ in range(2):
            batch = batch @ weight

    return step_fixed


def no_caching(fixed: bool) -> Step:
    """Every tensor is allocated by the driver, as with PYTORCH_NO_CUDA_MEMORY_CACHING=1; fixed: PyTorch's allocator."""
    model, batch = network(2048, 6), torch.randn(4096, 2048, device=GPU, dtype=torch.bfloat16)
    torch.cuda.caching_allocator_enable(fixed)

    def step(_: int) -> None:
        with torch.no_grad():
            model(batch)

    return step


def tiny_layers(fixed: bool) -> Step:
    """Training of tiny layers with many launches; fixed: the step is one CUDA graph."""
    model = network(64, 30)
    batch = torch.randn(32, 64, device=GPU, dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def train() -> None:
        optimizer.zero_grad(set_to_none=False)
        model(batch).float().square().mean().backward()
        optimizer.step()

    if not fixed:
        return lambda _: train()
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            train()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        train()
    return lambda _: graph.replay()


def single_precision(fixed: bool) -> Step:
    """Large layers in FP32 without tensor cores: the GPU is the limit; fixed: bfloat16."""
    kind = torch.bfloat16 if fixed else torch.float32
    model, batch = network(4096, 4).to(kind), torch.randn(4096, 4096, device=GPU, dtype=kind)

    def step(_: int) -> None:
        with torch.no_grad():
            model(batch)

    return step


PROGRAMS: dict[str, Callable[[bool], Step]] = {
    "slow_loader": slow_loader,
    "item_each": item_each,
    "item_small": item_small,
    "pageable_input": pageable_input,
    "tiny_layers": tiny_layers,
    "single_precision": single_precision,
    "no_caching": no_caching,
}


def run(name: str, fixed: bool, steps: int) -> None:
    """Run a program and print the time per step."""
    step = PROGRAMS[name](fixed)
    for number in range(WARM):
        step(number)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for number in range(WARM, WARM + steps):
        step(number)
    torch.cuda.synchronize()
    us = (time.perf_counter() - began) / steps * 1e6
    said = {"program": name, "variant": "fixed" if fixed else "base", "steps": steps, "step_us": round(us, 3)}
    print(json.dumps(said), flush=True)


def main(argv: list[str]) -> int:
    """Run the command given by the arguments."""
    if len(argv) > 1 and argv[0] == "time":
        for name in PROGRAMS:
            for fixed in (False, True) if name in argv[2:] or not argv[2:] else ():
                run(name, fixed, int(argv[1]))
        return 0
    if len(argv) == 3 and argv[0] in PROGRAMS and argv[1] in ("base", "fixed"):
        run(argv[0], argv[1] == "fixed", int(argv[2]))
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
