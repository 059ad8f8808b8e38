"""Windows of series as items of a data set: a history, and a horizon to forecast."""

import numpy as np
import torch
from scaling import RobustScaler
from torch.utils.data import Dataset


class Windows(Dataset):
    """Items by number; ``places`` has a series and a start for each."""

    def __init__(self, panel, places, case, settings):
        self.panel, self.places = panel, places
        self.context, self.horizon = case["context"], case["horizon"]
        self.hours = settings.features.smooth_hours
        self.scaler = RobustScaler(settings.scaling)

    def __len__(self):
        return len(self.places)

    def inputs(self, window, scale):
        """Channels of every hour: load, whether it was measured, its running mean, and what is known ahead."""
        load = scale.apply(window["load"]).iloc[: self.context]
        measured = load.notna()
        filled = load.ffill().fillna(0.0)
        smooth = filled.rolling(self.hours, min_periods=1).mean()
        history = np.stack([filled, measured.astype(float), smooth], axis=1)
        ahead = np.zeros((self.horizon, 3))
        ahead[:, 2] = smooth.iloc[-1]
        return np.concatenate([np.concatenate([history, ahead]), window[self.panel.known].to_numpy()], axis=1)

    def __getitem__(self, number):
        series, start = (int(n) for n in self.places[number])
        window = self.panel.window(series, start, self.context + self.horizon)
        scale = self.scaler.fit(window["load"].to_numpy()[: self.context])
        future = scale.apply(window["load"].to_numpy()[self.context :])
        measured = ~np.isnan(future)
        return {
            "series": series,
            "inputs": torch.from_numpy(self.inputs(window, scale)),
            "target": torch.from_numpy(np.where(measured, future, 0.0)),
            "measured": torch.from_numpy(measured),
            "centre": scale.centre,
            "spread": scale.spread,
        }
