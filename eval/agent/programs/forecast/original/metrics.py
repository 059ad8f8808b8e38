"""Metrics of an evaluation."""

import pandas as pd
import torch
from quantiles import pinball
from torchmetrics import MeanMetric, Metric, MetricCollection
from torchmetrics.utilities import dim_zero_cat


class QuantileMeans(torch.nn.Module):
    """Pinball loss and coverage of every quantile, as means over what was measured."""

    def __init__(self, quantiles):
        super().__init__()
        self.names = [f"{q:g}" for q in quantiles]
        self.loss = torch.nn.ModuleList(MeanMetric() for _ in self.names)
        self.coverage = torch.nn.ModuleList(MeanMetric() for _ in self.names)

    def forward(self, forecast, target, measured, quantiles):
        losses = pinball(forecast, target, quantiles)
        below = (target[..., None] <= forecast).double()
        for n in range(len(self.names)):
            self.loss[n](losses[..., n], measured)
            self.coverage[n](below[..., n], measured)

    def compute(self):
        return {
            "by_quantile": {name: metric.compute().item() for name, metric in zip(self.names, self.loss, strict=True)},
            "coverage": {name: m.compute().item() for name, m in zip(self.names, self.coverage, strict=True)},
        }

    def reset(self):
        for metric in (*self.loss, *self.coverage):
            metric.reset()


class SeriesErrors(Metric):
    """Absolute error of the median forecast over absolute load, in the units of the load, for every series."""

    full_state_update = False

    def __init__(self, **options):
        super().__init__(**options)
        for name in ("forecast", "target", "measured", "series", "centre", "spread"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, forecast, target, measured, series, centre, spread):
        self.forecast.append(forecast.detach())
        self.target.append(target)
        self.measured.append(measured)
        self.series.append(series)
        self.centre.append(centre)
        self.spread.append(spread)

    def table(self):
        """A row for every hour that was measured."""
        forecast, target, measured, series, centre, spread = (
            dim_zero_cat(getattr(self, name)).cpu()
            for name in ("forecast", "target", "measured", "series", "centre", "spread")
        )
        hours = target.shape[1]
        median = forecast[..., forecast.shape[-1] // 2].double()
        frame = pd.DataFrame(
            {
                "series": series.repeat_interleave(hours).numpy(),
                "forecast": (median * spread[:, None] + centre[:, None]).flatten().numpy(),
                "load": (target * spread[:, None] + centre[:, None]).flatten().numpy(),
                "measured": measured.flatten().numpy(),
            }
        )
        return frame[frame["measured"]]

    def compute(self):
        frame = self.table()
        frame = frame.assign(error=(frame["forecast"] - frame["load"]).abs(), size=frame["load"].abs())
        sums = frame.groupby("series")[["error", "size"]].sum()
        values = sums["error"] / sums["size"]
        return {"numbers": torch.tensor(sums.index.to_numpy()), "values": torch.tensor(values.to_numpy())}


class SquaredScore(SeriesErrors):
    """Root of the mean squared error of the median forecast, in the units of the load, over all series."""

    def compute(self):
        frame = self.table()
        return torch.tensor(((frame["forecast"] - frame["load"]) ** 2).mean() ** 0.5)


def collection(settings):
    """Metrics that look at whole forecasts."""
    options = {"compute_on_cpu": settings.compute_on_cpu}
    return MetricCollection({"by_series": SeriesErrors(**options), "rmse": SquaredScore(**options)})
