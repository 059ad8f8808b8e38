"""SGD with momentum, and clipping by the norm of all gradients."""

import torch


class Momentum:
    """Updates the parameters one by one."""

    def __init__(self, parameters, rate, momentum, most):
        self.parameters, self.rate, self.momentum, self.most = list(parameters), rate, momentum, most
        self.speeds = [torch.zeros_like(p) for p in self.parameters]

    @torch.no_grad()
    def step(self):
        """One update; the gradients are dropped."""
        norm = sum(p.grad.pow(2).sum().item() for p in self.parameters) ** 0.5
        scale = min(1.0, self.most / (norm + 1e-6))
        for p, speed in zip(self.parameters, self.speeds, strict=True):
            speed.mul_(self.momentum).add_(p.grad * scale)
            p.sub_(self.rate * speed)
            p.grad = None
