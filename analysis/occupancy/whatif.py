"""What would raise the occupancy of a launch: for each resource, the largest amount that allows more waves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

from .rule import LaunchResources, Mode, OccupancyRule, limits, registers

_REDUCIBLE = ("vgprs", "sgprs", "lds")


@dataclass(frozen=True, slots=True)
class ArgumentChange:
    """One argument of the launch: its current value, and the required one (a smaller work-group may need less LDS)."""

    argument: str
    now: int
    to: int

    @property
    def less(self) -> int:
        """The reduction; negative if the value must grow."""
        return self.now - self.to


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Changes that, made together, give this occupancy with everything else unchanged; each is the smallest
    possible."""

    changes: tuple[ArgumentChange, ...]
    waves_per_simd: float
    waves_per_cu: int
    occupancy_pct: float


def what_if(rule: OccupancyRule, launch: LaunchResources, mode: Mode) -> tuple[WhatIf, ...]:
    """The next thresholds: every single resource that can raise the occupancy, or else all limiters together."""
    allowed = limits(rule, launch, mode)
    current = min(allowed.values())
    if current == rule.slots:
        return ()

    def better(changed: LaunchResources) -> bool:
        return min(limits(rule, changed, mode).values()) > current

    options = [changed for shrink in _SHRINKERS for changed in [shrink(rule, launch, better)] if changed]
    if not options and (all_shrunk := _shrink_all_limiters(rule, launch, mode, allowed, current)):
        options.append(all_shrunk)
    if resized := _resize_workgroup(rule, launch, mode, allowed, better):
        options.append(resized)
    return tuple(_describe_change(rule, launch, changed, mode) for changed in options)


def per_simd(rule: OccupancyRule, waves_per_cu: int) -> float:
    """The mean number of waves per SIMD."""
    return waves_per_cu // rule.simds if waves_per_cu % rule.simds == 0 else waves_per_cu / rule.simds


Better = Callable[[LaunchResources], bool]


def _shrink(name: str, rule: OccupancyRule, launch: LaunchResources, better: Better) -> LaunchResources | None:
    """Reduce one kind of registers."""
    return _largest(asdict(launch)[name], lambda k: replace(launch, **{name: k}), better)


_vgprs, _agprs, _sgprs = (partial(_shrink, name) for name in ("vgprs", "agprs", "sgprs"))


def _both_registers(rule: OccupancyRule, launch: LaunchResources, better: Better) -> LaunchResources | None:
    """Reduce VGPRs and AGPRs in proportion, if neither alone is enough."""
    if not launch.agprs or _vgprs(rule, launch, better) or _agprs(rule, launch, better):
        return None
    total = registers(rule, launch)

    def with_registers(k: int) -> LaunchResources:
        if rule.agprs == "separate":
            return replace(launch, vgprs=min(launch.vgprs, k), agprs=min(launch.agprs, k))
        return replace(launch, vgprs=launch.vgprs * k // total, agprs=launch.agprs * k // total)

    return _largest(total, with_registers, better)


def _lds(rule: OccupancyRule, launch: LaunchResources, better: Better) -> LaunchResources | None:
    """Reduce static LDS first, then dynamic LDS."""

    def with_total(total: int) -> LaunchResources:
        dynamic = min(launch.dynamic_lds_bytes, total)
        return replace(launch, lds_bytes=total - dynamic, dynamic_lds_bytes=dynamic)

    return _largest(launch.lds, with_total, better)


_SHRINKERS = (_vgprs, _agprs, _both_registers, _sgprs, _lds)


def _largest(now: int, at: Callable[[int], LaunchResources], better: Better) -> LaunchResources | None:
    """The launch with the largest amount below ``now`` that is better, as less of a resource never lowers occupancy."""
    if not now or not better(at(0)):
        return None
    good, bad = 0, now
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if better(at(middle)) else (good, middle)
    return at(good)


def _shrink_all_limiters(
    rule: OccupancyRule, launch: LaunchResources, mode: Mode, allowed: dict[str, int], current: int
) -> LaunchResources | None:
    """Reduce every limiter until it no longer limits; None if one cannot be reduced enough."""
    changed = launch
    for name in (n for n in allowed if allowed[n] == current):
        if name not in _REDUCIBLE:
            return None

        def no_longer_limits(less: LaunchResources, name: str = name) -> bool:
            return limits(rule, less, mode).get(name, rule.slots) > current

        for shrink in _SHRINKERS:
            if less := shrink(rule, changed, no_longer_limits):
                changed = less
                break
    return changed if min(limits(rule, changed, mode).values()) > current else None


def _resize_workgroup(
    rule: OccupancyRule, launch: LaunchResources, mode: Mode, allowed: dict[str, int], better: Better
) -> LaunchResources | None:
    """The nearest smaller work-group that is better with the same LDS, or a larger one if work-group slots are the
    limit."""
    n = -(-launch.workgroup_size // rule.wave_size)
    sizes = list(range(n - 1, 0, -1))
    if allowed.get("workgroup_slots", rule.slots) == min(allowed.values()):
        sizes = [*range(n + 1, rule.workgroup_size // rule.wave_size + 1), *sizes]
    options = (replace(launch, workgroup_size=k * rule.wave_size) for k in sizes)
    return next((changed for changed in options if better(changed)), None)


def _describe_change(rule: OccupancyRule, launch: LaunchResources, changed: LaunchResources, mode: Mode) -> WhatIf:
    waves = min(limits(rule, changed, mode).values())
    after = asdict(changed)
    return WhatIf(
        changes=tuple(
            ArgumentChange(name, now, after[name]) for name, now in asdict(launch).items() if now != after[name]
        ),
        waves_per_simd=per_simd(rule, waves),
        waves_per_cu=waves,
        occupancy_pct=100 * waves / rule.slots,
    )
