"""The limits of a gate for kernels, groups, metrics and the whole program, from options or a TOML file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pydantic
import tomli

from ..base.kernel_names import PATTERN_LENGTH, matching
from ..base.problems import BadArgument, near
from ..base.text import shorten
from ..store.manifest import read_small

_PERCENT = re.compile(r"\s*([+-]?\d{1,6}(?:\.\d{1,6})?)\s*%\s*", re.ASCII)
_POINTS = re.compile(r"\s*([+-]\d{1,15}(?:\.\d{1,9})?)\s*", re.ASCII)
_MOST = 1000.0
"""The maximum limit in percent; a larger one is probably a mistake."""
_SHOWN = 60


@dataclass(frozen=True)
class MetricLimit:
    """How much a metric may change: it may rise if ``allowed`` is positive or +0, and fall if it is negative or -0.

    If ``relative``, ``allowed`` is a fraction of the baseline's value, otherwise an amount in the metric's unit.
    """

    metric: str
    allowed: float
    relative: bool
    down: bool

    def __str__(self) -> str:
        sign = "-" if self.down else "+"
        amount = abs(self.allowed) * (100 if self.relative else 1)
        return f"{self.metric} {sign}{amount:g}{' %' if self.relative else ''}"


def percent(text: str) -> float:
    """Parse a percentage such as "3%" as a fraction. Raises BadArgument for anything else, also without the sign."""
    match = _PERCENT.fullmatch(text)
    if not match or not 0 <= float(match[1]) <= _MOST:
        raise BadArgument(
            f"{shorten(text, _SHOWN)!r} is not a limit",
            fix=f"Use a percentage from 0% to {_MOST:g}%, with its sign: 3%",
        )
    return float(match[1]) / 100


def metric_limit(text: str) -> MetricLimit:
    """Parse a limit such as "hbm.bytes_per_wave=+5%" or "l2.hit_rate_pct=-2". Raises BadArgument for anything else."""
    name, _, allowed = text.partition("=")
    share, points = _PERCENT.fullmatch(allowed), _POINTS.fullmatch(allowed)
    match = share or points
    if not name.strip() or not match or match[1][0] not in "+-":
        raise BadArgument(
            f"{shorten(text, _SHOWN)!r} is not a limit of a metric",
            "it needs a sign: + if the metric may rise, - if it may fall",
            "Use METRIC=+5% of its value, or METRIC=-2 in its unit",
        )
    scale = 100 if share else 1
    return MetricLimit(name.strip(), float(match[1]) / scale, share is not None, match[1].startswith("-"))


_MOST_BYTES = 1 << 20
_Text = Annotated[str, pydantic.Field(min_length=1, max_length=PATTERN_LENGTH)]
_Short = Annotated[str, pydantic.Field(min_length=1, max_length=100)]


def _stated(value: object) -> float:
    """A percentage in a file as a fraction."""
    if not isinstance(value, str):
        raise ValueError('it must be a text such as "3%"')
    return percent(value)


_Share = Annotated[float, pydantic.BeforeValidator(_stated)]


_MetricTexts = pydantic.TypeAdapter(Annotated[dict[_Short, _Short], pydantic.Field(max_length=100)])


def _metric_limits(metrics: object) -> tuple[MetricLimit, ...]:
    """The limits of metrics in a file, by their names."""
    limits = _MetricTexts.validate_python(metrics, strict=True)
    return tuple(metric_limit(f"{name}={moved}") for name, moved in limits.items())


class _LimitsModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)


class KernelLimit(_LimitsModel):
    """The limit of the kernels whose names contain a match of ``pattern``; None if they are not judged."""

    pattern: _Text
    max_regression: _Share | None = None
    ignore: bool = False

    @pydantic.model_validator(mode="after")
    def _either(self) -> KernelLimit:
        if self.ignore == (self.max_regression is not None):
            what = f"The limit of {shorten(self.pattern, _SHOWN)!r} cannot be read"
            raise BadArgument(what, fix='Give it either max_regression = "5%" or ignore = true')
        return self


class KernelGroup(_LimitsModel):
    """Kernels that are judged as one, by patterns before and after, and their limit; None for the general limit."""

    name: _Short
    baseline: _Text
    candidate: _Text | None = None
    max_regression: _Share | None = None


class GateLimits(_LimitsModel):
    """The limits as in the file: how much slower a kernel may be as a fraction, 0.03 for 3 %.

    ``total`` is the limit of the whole program; None if it is that of the kernels. Kernels below ``min_share`` of the
    time of both versions are not judged.
    """

    max_regression: _Share = 0.03
    total: _Share | None = None
    min_share: _Share = 0.01
    metrics: Annotated[tuple[MetricLimit, ...], pydantic.BeforeValidator(_metric_limits)] = ()
    kernel: Annotated[list[KernelLimit], pydantic.Field(max_length=200)] = []
    group: Annotated[list[KernelGroup], pydantic.Field(max_length=50)] = []

    def of_kernels(self, names: list[str]) -> dict[str, float | None]:
        """The limit of each kernel: that of the first pattern that matches its name, or else ``max_regression``."""
        allowed_by_name: dict[str, float | None] = {}
        for one in self.kernel:
            left = [name for name in names if name not in allowed_by_name]
            allowed_by_name |= dict.fromkeys(matching(one.pattern, left), one.max_regression)
        return {name: allowed_by_name.get(name, self.max_regression) for name in names}


def limits(
    file: Path | None = None,
    *,
    max_regression: str | None = None,
    total: str | None = None,
    min_share: str | None = None,
    metrics: Sequence[str] = (),
) -> GateLimits:
    """The limits: the command line overrides the file, which overrides the defaults. Raises BadArgument."""
    of_file = read(file) if file else GateLimits()
    if twice := [name for name, n in Counter(one.name for one in of_file.group).items() if n > 1]:
        raise BadArgument(
            f"There are several groups {shorten(twice[0], _SHOWN)!r}", fix="Use a different name for each group"
        )
    options = {"max_regression": max_regression, "total": total, "min_share": min_share}
    update: dict[str, Any] = {name: percent(text) for name, text in options.items() if text is not None}
    own = [metric_limit(text) for text in metrics]
    named = {one.metric for one in own}
    update["metrics"] = (*own, *(one for one in of_file.metrics if one.metric not in named))
    result = of_file.model_copy(update=update)
    if result.min_share > 1:
        raise BadArgument(
            f"{100 * result.min_share:g}% is not a share of the time", fix="Use a percentage from 0% to 100%: 1%"
        )
    return result


def read(file: Path) -> GateLimits:
    """The content of the file. Raises BadArgument for anything invalid."""
    fix = "See docs/how-to/gate_in_ci.md for its format"
    try:
        content: dict[str, Any] = tomli.loads(read_small(file, _MOST_BYTES).decode("utf-8"))
        return GateLimits.model_validate(content)
    except OSError as error:
        raise BadArgument(f"{file} cannot be read", error.strerror or str(error), "Give a file with limits") from error
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:_SHOWN] for part in first["loc"])
        why = first["msg"]
        if first["type"] == "extra_forbidden":
            known = {name for model in (GateLimits, KernelLimit, KernelGroup) for name in model.model_fields}
            why = f"there is no such key. {near(str(first['loc'][-1]), sorted(known))}".strip()
        raise BadArgument(f"{file} is not a valid file of limits", f"{where}: {why}", fix) from error
    except (ValueError, RecursionError) as error:
        why = shorten(str(error), 200) or "it is nested too deeply"
        raise BadArgument(f"{file} is not a valid file of limits", why, fix) from error
