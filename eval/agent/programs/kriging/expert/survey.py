"""What was measured where: the fields of a survey and the places of its map."""

from dataclasses import dataclass

import numpy as np
import torch
from geometry import Projection
from transforms import Standard


@dataclass
class Field:
    """One pollutant: places of its sites, targets, regions of the sites, and starting values for its fits."""

    name: str
    inputs: np.ndarray
    targets: np.ndarray
    values: np.ndarray
    regions: np.ndarray
    transform: Standard
    limit: float
    starts: list

    def __len__(self):
        return len(self.targets)


class Survey:
    """All fields of a case in one projection."""

    def __init__(self, case, settings):
        self.case, self.settings = case, settings
        everywhere = np.concatenate([field["places"] for field in case["fields"]])
        self.projection = Projection.around(everywhere, settings.survey.centre, settings.geometry)
        self.fields = [self.field(described) for described in case["fields"]]
        self.grid = self.projection(case["grid"])
        self.candidates = self.grid[np.asarray(case["candidates"])]

    def field(self, described):
        transform = Standard(self.settings.survey.transform).fit(described["values"])
        return Field(
            described["name"],
            self.projection(described["places"]),
            transform.forward(described["values"]),
            transform.raw(described["values"]),
            np.asarray(described["regions"]),
            transform,
            float(transform.raw(described["limit"])),
            described["starts"],
        )

    def __iter__(self):
        return iter(self.fields)

    def __len__(self):
        return len(self.fields)

    def stacked(self, name, device):
        """An attribute of all fields as one tensor, one row a field."""
        return torch.as_tensor(np.array([getattr(field, name) for field in self.fields]), device=device)

    def starts(self, device):
        """Starting values by name, one row a fit: all those of the first field come first."""
        starts = [start for field in self.fields for start in field.starts]
        return {
            name: torch.tensor([start[name] for start in starts], dtype=torch.float64, device=device)
            for name in starts[0]
        }

    def untransformed(self, mean, variance):
        """Means and variances of targets, one row a field, on the scale of the maps."""
        shift = mean.new_tensor([field.transform.shift for field in self.fields])[:, None]
        scale = mean.new_tensor([field.transform.scale for field in self.fields])[:, None]
        return mean * scale + shift, variance * scale**2
