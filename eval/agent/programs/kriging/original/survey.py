"""What was measured where: the fields of a survey and the places of its map."""

from dataclasses import dataclass

import numpy as np
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
        self.grid = np.asarray(case["grid"], dtype=np.float64)
        self.candidates = np.asarray(case["candidates"])

    def field(self, described):
        transform = Standard(self.settings.survey.transform).fit(described["values"])
        return Field(
            described["name"],
            self.projection.all(described["places"]),
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

    @property
    def regions(self):
        """Numbers of the regions of all fields."""
        return sorted({int(region) for field in self.fields for region in field.regions})
