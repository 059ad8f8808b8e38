"""A Triton kernel whose time goes to one line, and one of PyTorch's own, which was built without line information."""

import sys

import torch
import triton
import triton.language as tl

BLOCK, HOPS = 256, 512


@triton.jit
def triton_chase(follower, out, HOPS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = at * 7919
    for _ in range(HOPS):
        place = tl.load(follower + place % 16777216)  # hot: triton_chase
    tl.store(out + at, place)


def main(launches: int) -> None:
    follower = torch.randperm(1 << 24, device="cuda").to(torch.int32)
    out = torch.empty(1 << 16, dtype=torch.int32, device="cuda")
    numbers = torch.rand(1 << 24, dtype=torch.float64, device="cuda") + 1
    for _ in range(launches):
        triton_chase[(out.numel() // BLOCK,)](follower, out, HOPS=HOPS, BLOCK=BLOCK)
        torch.lgamma(numbers, out=numbers)
        numbers.abs_().add_(1)
    torch.cuda.synchronize()


main(int(sys.argv[1]))
