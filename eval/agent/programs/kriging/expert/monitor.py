"""What happened while models were fitted; nothing is read from the device before the end."""

import torch


class Monitor:
    """The losses and noises of a batch of fits."""

    def __init__(self):
        self.losses, self.noises = [], []

    def __call__(self, losses, model):
        self.losses.append(losses.detach())
        self.noises.append(model.likelihood.noise.detach()[:, 0])

    def finish(self):
        """Losses (fits by steps) and the largest relative changes of the noise in a step."""
        losses, noises = torch.stack(self.losses, -1), torch.stack(self.noises, -1)
        if not losses.isfinite().all():
            raise FloatingPointError("a loss is not finite")
        return losses, (noises.diff(dim=-1).abs() / noises[:, :-1]).amax(-1)
