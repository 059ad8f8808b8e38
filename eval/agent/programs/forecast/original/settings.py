"""Settings of a run, read from config.yaml next to this file."""

from dataclasses import dataclass, field, fields
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Run:
    name: str = "run"
    seed: int = 0


@dataclass(frozen=True)
class Scaling:
    lower: float = 0.25
    upper: float = 0.75
    least: float = 1e-3


@dataclass(frozen=True)
class Features:
    smooth_hours: int = 24
    periods: list = field(default_factory=lambda: [24, 168])


@dataclass(frozen=True)
class Optimiser:
    rate: float = 1e-3
    warmup: int = 1
    weight_decay: float = 0.0
    betas: list = field(default_factory=lambda: [0.9, 0.999])


@dataclass(frozen=True)
class Loader:
    num_workers: int = 0
    evaluation_batch: int = 64


@dataclass(frozen=True)
class Metrics:
    compute_on_cpu: bool = False


@dataclass(frozen=True)
class Logging:
    gradient_norms: bool = False


@dataclass(frozen=True)
class Settings:
    run: Run
    scaling: Scaling
    features: Features
    optimiser: Optimiser
    loader: Loader
    metrics: Metrics
    logging: Logging
    trainer: dict = field(default_factory=dict)


def load(path=None):
    """The settings in a YAML file."""
    read = yaml.safe_load(Path(path or Path(__file__).with_name("config.yaml")).read_text(encoding="utf-8"))
    parts = {}
    for one in fields(Settings):
        values = read.get(one.name) or {}
        if one.name == "trainer":
            parts[one.name] = dict(values)
            continue
        unknown = set(values) - {f.name for f in fields(one.type)}
        if unknown:
            raise ValueError(f"unknown settings in {one.name}: {sorted(unknown)}")
        parts[one.name] = one.type(**values)
    return Settings(**parts)
