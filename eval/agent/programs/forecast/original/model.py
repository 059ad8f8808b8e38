"""The module that the trainer drives."""

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities import grad_norm
from metrics import QuantileMeans, collection
from network import build
from quantiles import mean_pinball


class QuantileForecaster(pl.LightningModule):
    """Trains the network by the pinball loss, and evaluates it."""

    def __init__(self, case, settings):
        super().__init__()
        self.settings = settings
        self.network = build(case)
        self.means = QuantileMeans(case["quantiles"])
        self.forecasts = collection(settings.metrics)
        self.register_buffer("levels", torch.tensor(case["quantiles"], dtype=torch.float64), persistent=False)

    def forward(self, batch):
        return self.network(batch["inputs"], batch["series"])

    def training_step(self, batch, number):
        forecast = self(batch)
        loss = mean_pinball(forecast, batch["target"], batch["measured"], self.levels)
        self.log("train/loss", loss, on_step=True, on_epoch=True, batch_size=len(forecast))
        return loss

    def on_before_optimizer_step(self, optimizer):
        if self.settings.logging.gradient_norms:
            self.log_dict(grad_norm(self.network, norm_type=2))

    def validation_step(self, batch, number):
        forecast = self(batch)
        loss = mean_pinball(forecast, batch["target"], batch["measured"], self.levels)
        self.log("val/batch_loss", loss, batch_size=len(forecast))
        self.means(forecast, batch["target"], batch["measured"], self.levels)
        rest = (batch[name] for name in ("target", "measured", "series", "centre", "spread"))
        self.forecasts.update(forecast, *rest)

    def on_validation_epoch_end(self):
        means, whole = self.means.compute(), self.forecasts.compute()
        self.evaluation = means | {
            "loss": sum(means["by_quantile"].values()) / len(means["by_quantile"]),
            "rmse": whole["rmse"].item(),
            "by_series": dict(zip(whole["numbers"].tolist(), whole["values"].tolist(), strict=True)),
        }
        self.log("val/loss", self.evaluation["loss"])
        self.means.reset()
        self.forecasts.reset()

    def configure_optimizers(self):
        chosen = self.settings.optimiser
        optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=chosen.rate, betas=tuple(chosen.betas), weight_decay=chosen.weight_decay
        )
        warmup = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (step + 1) / chosen.warmup))
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": warmup, "interval": "step"}}
