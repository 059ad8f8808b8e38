"""Settings of the maps, read from config.yaml next to this file."""

from dataclasses import dataclass, fields
from pathlib import Path

import yaml


@dataclass(frozen=True)
class SurveySettings:
    transform: str = "log"
    centre: str = "median"


@dataclass(frozen=True)
class GeometrySettings:
    horizontal_km: float = 100.0
    vertical_km: float = 1.0


@dataclass(frozen=True)
class KernelSettings:
    smoothness: float = 2.5
    lengthscale_prior: tuple = (3.0, 4.0)
    outputscale_prior: tuple = (2.0, 1.5)
    trend: bool = True


@dataclass(frozen=True)
class TrainingSettings:
    rate: float = 0.1
    betas: tuple = (0.9, 0.999)


@dataclass(frozen=True)
class PredictionSettings:
    chunk: int = 4096


@dataclass(frozen=True)
class ValidationSettings:
    level: float = 0.9


@dataclass(frozen=True)
class PlacementSettings:
    noise: str = "own"


@dataclass(frozen=True)
class ReportSettings:
    level: str = "warning"
    worst: int = 3


@dataclass(frozen=True)
class Settings:
    survey: SurveySettings
    geometry: GeometrySettings
    kernel: KernelSettings
    training: TrainingSettings
    prediction: PredictionSettings
    validation: ValidationSettings
    placement: PlacementSettings
    report: ReportSettings


def section(kind, name, values):
    """One section with its defaults; a setting that is not known is refused."""
    known = {field.name for field in fields(kind)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise ValueError(f"{name} has no settings {', '.join(unknown)}")
    return kind(**values)


def read(path=None):
    """The settings of a file, by default the one next to this module."""
    path = Path(path) if path else Path(__file__).with_name("config.yaml")
    values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    made = {
        field.name: section(field.type, field.name, values.pop(field.name, None) or {}) for field in fields(Settings)
    }
    if values:
        raise ValueError(f"{path.name} has no sections {', '.join(sorted(values))}")
    return Settings(**made)
