"""Settings of a run, read from config.yaml next to this file."""

from dataclasses import dataclass, field, fields
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Run:
    name: str = "run"


@dataclass(frozen=True)
class Graph:
    cutoff: float = 5.0
    images: int = 1


@dataclass(frozen=True)
class Basis:
    width: float = 0.5


@dataclass(frozen=True)
class Objective:
    force_weight: float = 1.0


@dataclass(frozen=True)
class Optimiser:
    rate: float = 1e-3
    betas: list = field(default_factory=lambda: [0.9, 0.999])


@dataclass(frozen=True)
class Loader:
    evaluation_batch: int = 8


@dataclass(frozen=True)
class Numerics:
    check_finite: bool = False


@dataclass(frozen=True)
class Relaxation:
    rate: float = 0.01
    largest_step: float = 0.1


@dataclass(frozen=True)
class Settings:
    run: Run
    graph: Graph
    basis: Basis
    objective: Objective
    optimiser: Optimiser
    loader: Loader
    numerics: Numerics
    relaxation: Relaxation


def load(path=None):
    """The settings in a YAML file."""
    read = yaml.safe_load(Path(path or Path(__file__).with_name("config.yaml")).read_text(encoding="utf-8"))
    parts = {}
    for one in fields(Settings):
        values = read.get(one.name) or {}
        unknown = set(values) - {f.name for f in fields(one.type)}
        if unknown:
            raise ValueError(f"unknown settings in {one.name}: {sorted(unknown)}")
        parts[one.name] = one.type(**values)
    return Settings(**parts)
