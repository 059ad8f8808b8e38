"""The store of series: loads by series and hour, with the calendar and the outside temperature, on the device."""

from dataclasses import dataclass

import numpy as np
import torch


def calendar(hours, periods):
    """Sine and cosine of the place in every period, for hours that are counted from a Monday's midnight."""
    columns = []
    for period in periods:
        angle = 2 * np.pi * (hours % period) / period
        columns += [np.sin(angle), np.cos(angle)]
    return columns


@dataclass(frozen=True)
class Panel:
    """All series of a run."""

    loads: torch.Tensor
    """(series, hour); NaN where it was not measured."""
    known: torch.Tensor
    """(hour, channel): what is known for hours to come."""

    def __len__(self):
        return len(self.loads)


def read(case, features, device):
    """The panel of a case."""
    hours = case["first_hour"] + np.arange(case["loads"].shape[1])
    known = np.stack([*calendar(hours, features.periods), case["temperature"]], axis=-1)
    return Panel(torch.from_numpy(case["loads"]).to(device), torch.from_numpy(known).float().to(device))


def described(panel):
    """One line for the log."""
    return f"{len(panel)} series of {panel.loads.shape[1]} hours"
