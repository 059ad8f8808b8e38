"""Settings of a run, read from assimilation.yaml next to this file."""

from dataclasses import dataclass, fields
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Run:
    """What a run is called and whether it tells about itself."""

    name: str = "run"
    report: bool = False


@dataclass(frozen=True)
class Screening:
    """Departures that are larger than so many standard deviations are gross errors."""

    limit: float = 4.0


@dataclass(frozen=True)
class Monitor:
    """Which Courant number is worth a warning, and how space for series is rounded up."""

    courant_limit: float = 0.8
    room: int = 64


@dataclass(frozen=True)
class Analysis:
    """How space for observations is rounded up, so that windows share what was compiled."""

    room: int = 1024


@dataclass(frozen=True)
class Settings:
    """All settings by part."""

    run: Run
    screening: Screening
    monitor: Monitor
    analysis: Analysis


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


def rounded(count, room):
    """The next multiple of the room that is kept."""
    return -(-count // room) * room
