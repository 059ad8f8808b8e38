"""A product of square FP16 matrices: the reference, by PyTorch itself."""

import torch


class Model(torch.nn.Module):
    """a @ b in FP16."""

    def forward(self, a, b):
        # In FP32 where this runs on the CPU, which multiplies FP16 slowly.
        return (a.float() @ b.float()).half()


def get_inputs():
    return [torch.randn(2048, 2048).half(), torch.randn(2048, 2048).half()]


def get_init_inputs():
    return []
