"""A file of limits in TOML, as it is written: read within bounds, and refused with the place that is wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import pydantic

from ..base.name_patterns import PATTERN_LENGTH
from ..base.problems import BadArgument
from ..base.text import shorten
from ..store.manifest import read_small

_MOST_BYTES = 1 << 20
_SHOWN = 60
_Text = Annotated[str, pydantic.Field(min_length=1, max_length=PATTERN_LENGTH)]
_Short = Annotated[str, pydantic.Field(min_length=1, max_length=100)]


class _LimitsModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True)


class KernelEntry(_LimitsModel):
    """The limit of some kernels, or that they are not judged."""

    pattern: _Text
    max_regression: _Short | None = None
    ignore: bool = False


class GroupEntry(_LimitsModel):
    """Kernels that are judged as one."""

    name: _Short
    baseline: _Text
    candidate: _Text | None = None
    max_regression: _Short | None = None


class LimitsFile(_LimitsModel):
    """The whole file."""

    max_regression: _Short | None = None
    total: _Short | None = None
    min_share: _Short | None = None
    metrics: Annotated[dict[_Short, _Short], pydantic.Field(max_length=100)] = {}
    kernel: Annotated[list[KernelEntry], pydantic.Field(max_length=200)] = []
    group: Annotated[list[GroupEntry], pydantic.Field(max_length=50)] = []


def read(file: Path) -> LimitsFile:
    """The file's content. Raises BadArgument for what is wrong."""
    fix = "See docs/how-to/gate_in_ci.md for what it may hold"
    try:
        content: dict[str, Any] = tomllib.loads(read_small(file, _MOST_BYTES).decode("utf-8"))
        return LimitsFile.model_validate(content)
    except OSError as error:
        raise BadArgument(f"{file} cannot be read", error.strerror or str(error), "Name a file of limits") from error
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:_SHOWN] for part in first["loc"])
        raise BadArgument(f"{file} is no file of limits", f"{where}: {first['msg']}", fix) from error
    except (ValueError, RecursionError) as error:
        why = shorten(str(error), 200) or "it is nested too deeply"
        raise BadArgument(f"{file} is no file of limits", why, fix) from error
