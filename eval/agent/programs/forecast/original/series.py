"""The store of series: one frame for each, with the calendar and the outside temperature next to the load."""

from dataclasses import dataclass

import numpy as np
import pandas as pd


def calendar(hours, periods):
    """Sine and cosine of the place in every period, for hours that are counted from a Monday's midnight."""
    columns = {}
    for period in periods:
        angle = 2 * np.pi * (hours % period) / period
        columns[f"sin_{period}"] = np.sin(angle)
        columns[f"cos_{period}"] = np.cos(angle)
    return columns


@dataclass(frozen=True)
class Panel:
    """All series of a run."""

    frames: list
    known: list
    """Names of the columns that are known for hours to come."""

    def __len__(self):
        return len(self.frames)

    def window(self, series, start, length):
        return self.frames[series].iloc[start : start + length]


def read(case, features):
    """The panel of a case; a load that was not measured is NaN."""
    hours = case["first_hour"] + np.arange(case["loads"].shape[1])
    shared = calendar(hours, features.periods) | {"temperature": case["temperature"]}
    frames = []
    for load in case["loads"]:
        frames.append(pd.DataFrame({"load": load} | shared, index=pd.Index(hours, name="hour")))
    return Panel(frames, list(shared))


def described(panel):
    """One line for the log."""
    loads = [frame["load"] for frame in panel.frames]
    missing = sum(load.isna().mean() for load in loads) / len(loads)
    return f"{len(loads)} series of {len(loads[0])} hours, {100 * missing:.1f} % of them not measured"
