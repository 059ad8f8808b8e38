"""Settings of a run, read from assimilation.yaml next to this file."""

from dataclasses import dataclass, field, fields
from pathlib import Path

import jax
import jax.numpy as jnp
import yaml


@dataclass(frozen=True)
class Run:
    """What a run is called and whether it tells about itself."""

    name: str = "run"
    report: bool = False


@dataclass(frozen=True)
class Numerics:
    """Precision of all arrays, and how many members a step takes at a time."""

    precision: str = "single"
    members_at_once: int = 1


@dataclass(frozen=True)
class Screening:
    """Departures that are larger than so many standard deviations are gross errors."""

    limit: float = 4.0


@dataclass(frozen=True)
class Monitor:
    """How often a forecast is looked at, and which Courant number is worth a warning."""

    every: int = 10
    courant_limit: float = 0.8


@dataclass(frozen=True)
class Verification:
    """Fields that are compared with the truth."""

    fields: list = field(default_factory=lambda: ["height"])


@dataclass(frozen=True)
class Settings:
    """All settings by part."""

    run: Run
    numerics: Numerics
    screening: Screening
    monitor: Monitor
    verification: Verification

    @property
    def dtype(self):
        return {"single": jnp.float32, "double": jnp.float64}[self.numerics.precision]


def load(path=None):
    """The settings in a YAML file."""
    read = yaml.safe_load(Path(path or Path(__file__).with_name("assimilation.yaml")).read_text(encoding="utf-8"))
    parts = {}
    for one in fields(Settings):
        values = read.get(one.name) or {}
        unknown = set(values) - {f.name for f in fields(one.type)}
        if unknown:
            raise ValueError(f"unknown settings in {one.name}: {sorted(unknown)}")
        parts[one.name] = one.type(**values)
    return Settings(**parts)


def apply(settings):
    """Tell JAX what a run needs before its first array is made."""
    jax.config.update("jax_enable_x64", settings.numerics.precision == "double")
