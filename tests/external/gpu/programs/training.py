"""A small training step in PyTorch, for the tests on NVIDIA GPUs: training.py STEPS [--profiler] [--nccl] [--gloo]."""

from __future__ import annotations

import os
import sys

import torch


def main() -> None:
    """Print "launched N" where torch.profiler counts the kernels, else "done"."""
    steps, how = int(sys.argv[1]), set(sys.argv[2:])
    rank = int(os.environ.get("LOCAL_RANK", "0"))
    torch.manual_seed(0)
    torch.cuda.set_device(rank if "--nccl" in how else 0)
    grouped = bool(how & {"--nccl", "--gloo"})
    if grouped:
        torch.distributed.init_process_group("nccl" if "--nccl" in how else "gloo")
    model = torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 2048)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(1024, 2048, device="cuda")

    def step() -> None:
        with torch.cuda.nvtx.range("step"):
            with torch.cuda.nvtx.range("forward"):
                loss = model(data).square().mean()
            with torch.cuda.nvtx.range("backward"):
                loss.backward()
            if "--nccl" in how:
                for parameter in model.parameters():
                    torch.distributed.all_reduce(parameter.grad)
            optimizer.step()
            optimizer.zero_grad()

    if "--profiler" in how:
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profiler:
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
        kernels = [e for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        print(f"launched {len(kernels)}", flush=True)
    else:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        print("done", flush=True)
    if grouped:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
