"""Callbacks of a run."""

import lightning.pytorch as pl


class History(pl.Callback):
    """Keeps the loss and the norm of the gradient by step, and the evaluations."""

    def __init__(self):
        self.losses, self.norms, self.evaluations, self.steps = [], [], [], []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.losses.append(outputs["loss"].item())
        self.norms.append(trainer.callback_metrics["grad_2.0_norm_total"].item())

    def on_validation_end(self, trainer, pl_module):
        if not trainer.sanity_checking:
            self.evaluations.append(pl_module.evaluation)
            self.steps.append(trainer.global_step)

    def best(self):
        """The step of the evaluation with the lowest loss."""
        return min(zip(self.evaluations, self.steps, strict=True), key=lambda pair: pair[0]["loss"])[1]


class Watch(pl.Callback):
    """Stops a run whose loss is no longer a number."""

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if not outputs["loss"].isfinite():
            raise RuntimeError(f"the loss of step {trainer.global_step} is {outputs['loss'].item()}")
