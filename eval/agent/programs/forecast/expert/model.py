"""The module that the trainer drives."""

import lightning.pytorch as pl
import torch
from metrics import Forecasts
from network import build
from quantiles import mean_pinball


class QuantileForecaster(pl.LightningModule):
    """Trains the network by the pinball loss, and evaluates it."""

    def __init__(self, case, settings):
        super().__init__()
        self.settings = settings
        self.network = build(case)
        self.forecasts = Forecasts(case["quantiles"], len(case["loads"]))
        self.norm = None
        self.register_buffer("levels", torch.tensor(case["quantiles"]), persistent=False)

    def forward(self, batch):
        return self.network(batch["inputs"], batch["series"])

    def training_step(self, batch, number):
        forecast = self(batch)
        loss = mean_pinball(forecast, batch["target"], batch["measured"], self.levels)
        self.log("train/loss", loss, on_step=True, on_epoch=True, batch_size=len(forecast))
        return loss

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        self.norm = torch.nn.utils.clip_grad_norm_(self.network.parameters(), gradient_clip_val, foreach=True)

    def validation_step(self, batch, number):
        forecast = self(batch)
        rest = (batch[name] for name in ("target", "measured", "series", "centre", "spread"))
        self.forecasts.update(forecast, *rest, self.levels)

    def on_validation_epoch_end(self):
        self.evaluation = self.forecasts.compute()
        self.log("val/loss", self.evaluation["loss"])
        self.forecasts.reset()

    def configure_optimizers(self):
        chosen = self.settings.optimiser
        optimiser = torch.optim.AdamW(
            self.network.parameters(),
            lr=chosen.rate,
            betas=tuple(chosen.betas),
            weight_decay=chosen.weight_decay,
            fused=True,
        )
        warmup = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (step + 1) / chosen.warmup))
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": warmup, "interval": "step"}}
