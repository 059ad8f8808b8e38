"""From longitude, latitude and altitude to the plane in which distances are measured."""

from dataclasses import dataclass

import numpy as np

EARTH_KM = 6371.0


@dataclass(frozen=True)
class Projection:
    """Equirectangular projection about an origin, in units of the kernel."""

    longitude: float
    latitude: float
    horizontal_km: float
    vertical_km: float

    @classmethod
    def around(cls, places, centre, settings):
        """The projection about the middle of some places."""
        if centre not in ("median", "mean"):
            raise ValueError(f"no centre {centre}")
        middle = np.median(places, axis=0) if centre == "median" else np.mean(places, axis=0)
        return cls(float(middle[0]), float(middle[1]), settings.horizontal_km, settings.vertical_km)

    def __call__(self, places):
        """Coordinates of places (longitude and latitude in degrees, altitude in metres), one a row."""
        longitude, latitude, altitude = np.asarray(places, dtype=np.float64).T
        east = EARTH_KM * np.cos(np.radians(self.latitude)) * np.radians(longitude - self.longitude)
        north = EARTH_KM * np.radians(latitude - self.latitude)
        up = altitude / 1000.0
        return np.stack([east / self.horizontal_km, north / self.horizontal_km, up / self.vertical_km], -1)
