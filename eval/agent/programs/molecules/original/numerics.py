"""Stops a run where numbers are no longer numbers."""

import torch


class FiniteCheck:
    """A forward hook that tells which module the first bad number comes from."""

    def __init__(self, name):
        self.name = name

    def __call__(self, module, inputs, output):
        if not torch.isfinite(output).all():
            raise FloatingPointError(f"the output of {self.name} has values that are not finite")


def watch(model, settings):
    """Look at the output of every module that has weights."""
    if not settings.check_finite:
        return []
    return [
        module.register_forward_hook(FiniteCheck(name))
        for name, module in model.named_modules()
        if name and any(True for _ in module.parameters()) and not isinstance(module, torch.nn.ModuleList)
    ]
