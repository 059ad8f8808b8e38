"""Callbacks of a run."""

import math

import lightning.pytorch as pl
import torch


class History(pl.Callback):
    """Keeps the loss and the norm of the gradient by step, and the evaluations."""

    def __init__(self):
        self.losses, self.norms, self.evaluations, self.steps = [], [], [], []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.losses.append(outputs["loss"].detach())
        self.norms.append(pl_module.norm)

    def on_train_end(self, trainer, pl_module):
        self.losses, self.norms = torch.stack([torch.stack(self.losses), torch.stack(self.norms)]).tolist()

    def on_validation_end(self, trainer, pl_module):
        if not trainer.sanity_checking:
            self.evaluations.append(pl_module.evaluation)
            self.steps.append(trainer.global_step)

    def best(self):
        """The step of the evaluation with the lowest loss."""
        return min(zip(self.evaluations, self.steps, strict=True), key=lambda pair: pair[0]["loss"])[1]


class Watch(pl.Callback):
    """Stops a run whose loss is no longer a number when it is evaluated."""

    def on_validation_end(self, trainer, pl_module):
        if not math.isfinite(pl_module.evaluation["loss"]):
            raise RuntimeError(f"the loss at step {trainer.global_step} is {pl_module.evaluation['loss']}")
