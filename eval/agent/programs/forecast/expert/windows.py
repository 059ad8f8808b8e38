"""Windows of series: histories, and horizons to forecast, computed for many windows at once on the device."""

import torch
from scaling import RobustScaler


class Windows:
    """Makes batches of windows from the places where they start."""

    def __init__(self, panel, case, settings):
        self.panel = panel
        self.context, self.horizon = case["context"], case["horizon"]
        self.hours = settings.features.smooth_hours
        self.scaler = RobustScaler(settings.scaling)

    def filled(self, load):
        """The last load that was measured, in every hour; 0 before the first."""
        hours = torch.arange(load.shape[1], device=load.device)
        last = torch.where(load.isnan(), -1, hours).cummax(dim=1).values
        return torch.where(last >= 0, load.gather(1, last.clamp(min=0)), 0.0)

    def smoothed(self, filled):
        """The running mean over the hours so far, at most as many as set."""
        sums = filled.cumsum(1)
        sums[:, self.hours :] -= sums[:, : -self.hours].clone()
        counts = torch.arange(1, filled.shape[1] + 1, device=filled.device).clamp(max=self.hours)
        return sums / counts

    def batch(self, places):
        """What the model takes, for places of (window, series and start)."""
        series, start = places.to(self.panel.loads.device).unbind(1)
        at = start[:, None] + torch.arange(self.context + self.horizon, device=start.device)
        load = self.panel.loads[series[:, None], at]
        centre, spread = self.scaler.fit(load[:, : self.context])
        scaled = (load - centre[:, None]) / spread[:, None]
        measured = ~scaled.isnan()
        history, future = scaled.split([self.context, self.horizon], dim=1)
        filled = self.filled(history)
        smooth = self.smoothed(filled)
        inputs = torch.zeros(*at.shape, 3 + self.panel.known.shape[1], device=at.device)
        inputs[:, : self.context, 0] = filled
        inputs[:, : self.context, 1] = measured[:, : self.context]
        inputs[:, : self.context, 2] = smooth
        inputs[:, self.context :, 2] = smooth[:, -1:]
        inputs[..., 3:] = self.panel.known[at]
        return {
            "series": series,
            "inputs": inputs,
            "target": future.nan_to_num().float(),
            "measured": measured[:, self.context :],
            "centre": centre,
            "spread": spread,
        }
