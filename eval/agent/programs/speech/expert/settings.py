"""Settings of the archive, read from speech.yaml next to this file."""

from dataclasses import dataclass, fields
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Audio:
    sampling_rate: int = 16000
    peak: float = 0.9


@dataclass(frozen=True)
class Features:
    mel_bins: int = 80
    stride: int = 2


@dataclass(frozen=True)
class Batching:
    places: int = 24000
    order: str = "length"


@dataclass(frozen=True)
class Encoding:
    precision: str = "float16"


@dataclass(frozen=True)
class Segments:
    tokens: int = 50
    shortest: int = 10


@dataclass(frozen=True)
class Index:
    centre: bool = True
    neighbours: int = 10


@dataclass(frozen=True)
class Clusters:
    rounds: int = 20


@dataclass(frozen=True)
class Report:
    level: str = "warning"
    worst: int = 5


@dataclass(frozen=True)
class Settings:
    audio: Audio
    features: Features
    batching: Batching
    encoder: Encoding
    segments: Segments
    index: Index
    clusters: Clusters
    report: Report


def section(kind, name, values):
    """One section with its defaults; a setting that is not known is refused."""
    known = {field.name for field in fields(kind)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise ValueError(f"{name} has no settings {', '.join(unknown)}")
    return kind(**values)


def read(path=None):
    """The settings of a file, by default the one next to this module."""
    path = Path(path) if path else Path(__file__).with_name("speech.yaml")
    values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    made = {
        field.name: section(field.type, field.name, values.pop(field.name, None) or {}) for field in fields(Settings)
    }
    if values:
        raise ValueError(f"{path.name} has no sections {', '.join(sorted(values))}")
    return Settings(**made)
