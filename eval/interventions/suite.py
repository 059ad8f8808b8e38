"""Generates random kernels for each kind of bottleneck, with fixes and removals, as source code for demand.h.

python suite.py FOLDER [--files N] [--seed S --count K]     writes N source files: both halves, or K kernels of a seed
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

HALVES = {"tuning": 1, "held_out": 2}
"""Rules may be tuned only on kernels of the first seed; those of the second show whether the rules generalise."""
UNITS, WAVES_PER_UNIT, WAVE = 132, 64, 32
"""The device for which launch sizes are chosen: compute units (SMs), resident waves per unit, lanes per wave."""
FOOTPRINTS = {"hbm": 1 << 27, "l2": 1 << 22, "l1": 1 << 12, "host": 1 << 24}
"""Working set of a kernel's loads, in words of four bytes."""
ALL_TARGETS = 1 << 20
ROUNDS, STEPS = 512, 4
AMOUNTS = ("loads", "stores", "fma", "fp64", "sfu", "integer", "matrix", "lds", "atomics", "path_ops")
UNROLL, MORE_GROUPS, RARER = 4, 8, 4
MOST_CODE = 512
"""Maximum operations of a kind per step; more would exceed the instruction caches."""


@dataclass(frozen=True)
class Demand:
    """Template argument of the kernel, with the fields and defaults of demand.h."""

    loads: int = 0
    width: int = 1
    access: str = "STREAM"
    stores: int = 0
    chains: int = 4
    fma: int = 0
    fp64: int = 0
    sfu: int = 0
    integer: int = 0
    matrix: int = 0
    lds: int = 0
    atomics: int = 0
    update: str = "ADD"
    paths: int = 0
    path_ops: int = 0
    barrier: bool = False
    coupled: bool = False
    held: int = 0
    live: int = 0
    threads: int = 256
    resident: int = 1


@dataclass(frozen=True)
class Shape:
    """Amounts of one launch, with the fields and defaults of demand.h."""

    rounds: int = ROUNDS
    steps: int = STEPS
    skew: str = "EVEN"
    members: int = 1
    extra: int = 0
    mask: int = FOOTPRINTS["hbm"] - 1
    stride: int = 1
    write_mask: int = (1 << 26) - 1
    write_stride: int = 1
    target_mask: int = ALL_TARGETS - 1
    target_stride: int = 1
    row: int = 1
    sorted: bool = False


@dataclass(frozen=True)
class Launch:
    """A kernel with its launch; ``family`` is the cause that it was generated for."""

    family: str
    demand: Demand
    shape: Shape = field(default_factory=Shape)
    grid: int = UNITS * 8
    spare_lds: int = 0
    """LDS that is allocated but not used, in bytes."""
    on_host: bool = False
    scaled: bool = True

    @property
    def lds_bytes(self) -> int:
        d = self.demand
        words = (32 * 34 + 64) * (d.lds > 0) + 1024 * (d.update == "PRIVATE")
        words += d.loads * d.width * d.threads * (d.access == "ASYNC")
        return 4 * words + self.spare_lds


@dataclass(frozen=True)
class Variant:
    """An intervention: a launch with the same work (``keeps_work``), or without one demand."""

    what: str
    keeps_work: bool
    launch: Launch


Draw = Callable[[random.Random], Launch]
_FAMILIES: list[tuple[str, int, Draw]] = []


def _family(name: str, count: int) -> Callable[[Draw], Draw]:
    """A cause and the number of kernels generated for it in each half."""

    def register(draw: Draw) -> Draw:
        _FAMILIES.append((name, count, draw))
        return draw

    return register


def of_seed(seed: int) -> dict[str, Launch]:
    """The kernels of a seed by name; deterministic."""
    rng = random.Random(seed)
    every = [replace(draw(rng), family=name) for name, count, draw in _FAMILIES for _ in range(count)]
    return {f"s{seed}k{number:03}": launch for number, launch in enumerate(every)}


def some_of(seed: int, count: int) -> dict[str, Launch]:
    """``count`` kernels of a seed, or all if it has fewer, selected from all families."""
    every = of_seed(seed)
    names = random.Random(seed).sample(list(every), min(count, len(every)))
    return {name: every[name] for name in sorted(names)}


def seed_of(kernel: str) -> int:
    """The seed in a kernel's name. Raises ValueError for other names."""
    if not (told := re.fullmatch(r"s(\d{1,9})k\d{3}", kernel)):
        raise ValueError(f"{kernel!r} is not a kernel of a seed, such as s3k017")
    return int(told[1])


def suite(half: str) -> list[Launch]:
    """The kernels of a half; deterministic."""
    return list(of_seed(HALVES[half]).values())


def names(half: str) -> list[str]:
    """The names of the kernels of a half, in order."""
    return list(of_seed(HALVES[half]))


def _level(rng: random.Random, *levels: str) -> int:
    return FOOTPRINTS[rng.choice(levels)] - 1


def _full(rng: random.Random, threads: int = 256) -> int:
    """A grid that fills the device with complete waves of work-groups."""
    return UNITS * (WAVES_PER_UNIT * WAVE // threads) * rng.choice((1, 1, 2))


def _other_work(rng: random.Random) -> dict[str, int]:
    """Add little or much arithmetic to the main demand of a kernel."""
    return rng.choice(({}, {}, {"fma": 4}, {"fma": 16}, {"integer": 8}, {"fp64": 2}))


@_family("memory", 9)
def _memory(rng: random.Random) -> Launch:
    demand = Demand(loads=rng.choice((2, 4, 8)), width=rng.choice((1, 2, 4)), **_other_work(rng))
    return Launch("", demand, Shape(mask=_level(rng, "hbm", "hbm", "l2", "l1")), _full(rng))


@_family("stores", 4)
def _stores(rng: random.Random) -> Launch:
    demand = Demand(loads=rng.choice((0, 1, 2)), stores=rng.choice((1, 2)), width=rng.choice((1, 4)))
    stride = rng.choice((1, 1, 8))
    return Launch("", demand, Shape(stride=stride, write_stride=stride), _full(rng))


@_family("stride", 10)
def _stride(rng: random.Random) -> Launch:
    demand = Demand(loads=rng.choice((1, 2, 4, 8)), width=rng.choice((1, 1, 2)), **_other_work(rng))
    return Launch(
        "", demand, Shape(mask=_level(rng, "hbm", "l2", "l1"), stride=rng.choice((2, 4, 8, 16, 32))), _full(rng)
    )


@_family("gather", 5)
def _gather(rng: random.Random) -> Launch:
    access = rng.choice(("GATHER", "INDIRECT"))
    demand = Demand(loads=rng.choice((1, 2, 4)), access=access, **_other_work(rng))
    return Launch("", demand, Shape(mask=_level(rng, "hbm", "l2", "l1")), _full(rng))


@_family("chain", 6)
def _chain(rng: random.Random) -> Launch:
    demand = Demand(loads=rng.choice((1, 1, 2)), access="CHAIN", **_other_work(rng))
    grid = rng.choice((UNITS, UNITS * 2, UNITS * 8, 64))
    return Launch("", demand, Shape(rounds=128, mask=_level(rng, "hbm", "l2", "l1")), grid)


@_family("async copy", 6)
def _async(rng: random.Random) -> Launch:
    demand = Demand(loads=rng.choice((1, 2, 4)), width=rng.choice((1, 4)), access="ASYNC", **_other_work(rng))
    stride = rng.choice((1, 1, 4, 8))
    return Launch("", demand, Shape(mask=_level(rng, "hbm", "hbm", "l2"), stride=stride), _full(rng))


@_family("few loads in flight", 6)
def _in_flight(rng: random.Random) -> Launch:
    demand = Demand(loads=1, width=rng.choice((1, 2)), coupled=True, fma=rng.choice((0, 4, 8)))
    return Launch("", demand, Shape(mask=_level(rng, "hbm", "l2", "l1")), UNITS * rng.choice((1, 2, 3)))


@_family("arithmetic", 12)
def _arithmetic(rng: random.Random) -> Launch:
    kind = rng.choice(("fma", "fma", "fp64", "sfu", "integer", "matrix"))
    amount = {"fma": 32, "fp64": 16, "sfu": 16, "integer": 32, "matrix": 8}[kind] * rng.choice((1, 2))
    demand = Demand(chains=rng.choice((1, 4, 4)), loads=rng.choice((0, 0, 1)), coupled=True, **{kind: amount})
    return Launch("", demand, Shape(mask=_level(rng, "l1", "l2")), _full(rng))


@_family("dependent arithmetic", 4)
def _dependent(rng: random.Random) -> Launch:
    kind = rng.choice(("fma", "fp64", "integer", "sfu", "matrix"))
    demand = Demand(chains=1, threads=128, **{kind: 16})
    return Launch("", demand, Shape(), UNITS * rng.choice((1, 2, 4)))


@_family("lds", 4)
def _lds(rng: random.Random) -> Launch:
    demand = Demand(lds=rng.choice((8, 16)), fma=rng.choice((0, 4, 16)))
    return Launch("", demand, Shape(), _full(rng))


@_family("bank conflicts", 6)
def _conflicts(rng: random.Random) -> Launch:
    demand = Demand(lds=rng.choice((2, 4, 8)), fma=rng.choice((0, 8, 32)), loads=rng.choice((0, 1)))
    return Launch("", demand, Shape(row=rng.choice((2, 4, 8, 16, 32)), mask=_level(rng, "hbm", "l1")), _full(rng))


@_family("atomics", 9)
def _atomics(rng: random.Random) -> Launch:
    demand = Demand(
        atomics=rng.choice((1, 2)), update=rng.choice(("ADD", "ADD", "RETURN")), fma=rng.choice((0, 16, 64)),
        loads=rng.choice((0, 1)),
    )  # fmt: skip
    shape = Shape(
        rounds=32,
        target_mask=rng.choice((0, 31, 255, 1023, ALL_TARGETS - 1)),
        target_stride=rng.choice((1, 2654435761)),
    )
    return Launch("", demand, shape, _full(rng))


@_family("divergence", 6)
def _divergence(rng: random.Random) -> Launch:
    demand = Demand(paths=rng.choice((2, 4, 8, 32)), path_ops=rng.choice((8, 32)), loads=rng.choice((0, 1)))
    return Launch("", demand, Shape(mask=_level(rng, "hbm", "l1")), _full(rng))


@_family("skewed lanes", 4)
def _lanes(rng: random.Random) -> Launch:
    demand = Demand(loads=rng.choice((0, 1, 2)), fma=rng.choice((8, 16)), coupled=True)
    steps, extra = rng.choice(((8, 4), (8, 6), (16, 4)))
    shape = Shape(rounds=128, steps=steps, skew="LANES", members=WAVE, extra=extra, mask=_level(rng, "hbm", "l1", "l1"))
    return Launch("", demand, shape, _full(rng))


@_family("skewed waves", 5)
def _waves(rng: random.Random) -> Launch:
    demand = Demand(loads=rng.choice((0, 1)), fma=rng.choice((8, 16)), coupled=True, barrier=rng.random() < 0.7)
    steps, extra = rng.choice(((8, 4), (8, 6), (16, 4)))
    shape = Shape(rounds=128, steps=steps, skew="WAVES", members=8, extra=extra, mask=_level(rng, "hbm", "l1", "l2"))
    return Launch("", demand, shape, _full(rng))


@_family("skewed work-groups", 6)
def _groups(rng: random.Random) -> Launch:
    demand = Demand(loads=rng.choice((0, 2, 4)), fma=rng.choice((0, 16)) or 4, coupled=True)
    steps, extra = rng.choice(((16, 4), (16, 8), (16, 14)))
    members = rng.choice((32, 66, 132))
    shape = Shape(rounds=128, steps=steps, skew="GROUPS", members=members, extra=extra, mask=_level(rng, "hbm", "l1"))
    return Launch("", demand, shape, members * rng.choice((4, 8, 16)))


@_family("barriers", 6)
def _barriers(rng: random.Random) -> Launch:
    demand = Demand(
        barrier=True, threads=rng.choice((256, 512, 1024)), fma=rng.choice((2, 8)), loads=rng.choice((0, 0, 1)),
        lds=rng.choice((0, 2)),
    )  # fmt: skip
    shape = Shape(rounds=1024, steps=rng.choice((1, 1, 2)), mask=_level(rng, "hbm", "l1"))
    return Launch("", demand, shape, _full(rng, demand.threads))


@_family("small grid", 6)
def _small(rng: random.Random) -> Launch:
    work = rng.choice(({"loads": 4}, {"loads": 2, "width": 4}, {"fma": 32}, {"fma": 16, "loads": 1}, {"fp64": 8}))
    demand = Demand(threads=rng.choice((128, 256)), **work)
    return Launch("", demand, Shape(mask=_level(rng, "hbm", "l1")), rng.choice((8, 32, 66, 100)))


@_family("uneven grid", 5)
def _uneven(rng: random.Random) -> Launch:
    demand = Demand(chains=8, **rng.choice(({"fma": 64}, {"fma": 32, "loads": 1}, {"sfu": 16}, {"lds": 16})))
    grid = rng.choice((UNITS * 4 // 3, UNITS * 12 // 11, UNITS * 3 // 2))
    shape = Shape(rounds=4224, mask=_level(rng, "l1", "hbm"))
    return Launch("", demand, shape, grid, spare_lds=120 * 1024)


@_family("registers", 4)
def _registers(rng: random.Random) -> Launch:
    work = rng.choice(({"loads": 1}, {"loads": 2}, {"loads": 1, "fma": 8}, {"chains": 1, "fma": 16}, {"lds": 4}))
    demand = Demand(held=rng.choice((80, 120, 160)), coupled=True, **work)
    return Launch("", demand, Shape(mask=_level(rng, "hbm", "l2", "l1")), UNITS * 8 * 2)


@_family("lds allocation", 4)
def _allocation(rng: random.Random) -> Launch:
    work = rng.choice(({"loads": 1}, {"loads": 2}, {"loads": 1, "fma": 8}, {"chains": 1, "fma": 16}, {"lds": 4}))
    demand = Demand(coupled=True, **work)
    spare = rng.choice((36, 72, 110, 200)) * 1024
    return Launch("", demand, Shape(mask=_level(rng, "hbm", "l2", "l1")), UNITS * 8 * 2, spare_lds=spare)


@_family("spills", 4)
def _spills(rng: random.Random) -> Launch:
    demand = Demand(live=rng.choice((48, 64, 96)), resident=rng.choice((4, 8)), loads=rng.choice((0, 1)))
    return Launch("", demand, Shape(rounds=128, mask=_level(rng, "hbm", "l1")), _full(rng))


@_family("host memory", 3)
def _host(rng: random.Random) -> Launch:
    demand = Demand(loads=rng.choice((1, 2)), width=rng.choice((1, 4)), **_other_work(rng))
    return Launch("", demand, Shape(rounds=128, mask=FOOTPRINTS["host"] - 1), UNITS * 2, on_host=True)


@_family("hardly anything", 6)
def _tiny(rng: random.Random) -> Launch:
    work = rng.choice(({}, {"fma": 4}, {"loads": 1}, {"integer": 2}, {"loads": 1, "stores": 1}, {"lds": 2}))
    demand = Demand(**work)
    shape = Shape(rounds=rng.choice((1, 2)), steps=1, mask=_level(rng, "hbm", "l1"))
    return Launch("", demand, shape, rng.choice((1, 32, UNITS, UNITS * 8)), scaled=False)


_PARTS: tuple[Callable[[random.Random], dict[str, object]], ...] = (
    lambda rng: {"loads": rng.choice((1, 2, 4)), "width": rng.choice((1, 4))},
    lambda rng: {"loads": rng.choice((1, 2)), "access": "GATHER"},
    lambda rng: {"loads": 1, "access": "CHAIN"},
    lambda rng: {"loads": rng.choice((1, 2)), "access": "ASYNC", "width": rng.choice((1, 4))},
    lambda rng: {"fma": rng.choice((8, 32, 64))},
    lambda rng: {"fp64": rng.choice((4, 16))},
    lambda rng: {"sfu": rng.choice((2, 8))},
    lambda rng: {"integer": rng.choice((8, 32))},
    lambda rng: {"matrix": rng.choice((2, 8))},
    lambda rng: {"lds": rng.choice((4, 8))},
    lambda rng: {"atomics": 1},
    lambda rng: {"paths": rng.choice((2, 4, 8)), "path_ops": rng.choice((8, 16))},
    lambda rng: {"stores": 1},
    lambda rng: {"barrier": True},
)


@_family("mixed", 30)
def _mixed(rng: random.Random) -> Launch:
    parts: dict[str, object] = {"chains": rng.choice((1, 4, 4)), "coupled": rng.random() < 0.5}
    for draw in rng.sample(_PARTS, rng.choice((2, 2, 3))):
        parts |= draw(rng)
    demand = Demand(**parts)  # type: ignore[arg-type]
    shape = Shape(
        rounds=128,
        mask=_level(rng, "hbm", "l2", "l1"),
        stride=rng.choice((1, 1, 1, 8, 32)) if demand.access in ("STREAM", "ASYNC") else 1,
        row=rng.choice((1, 1, 8, 32)),
        target_mask=rng.choice((0, 31, 1023, ALL_TARGETS - 1)),
    )
    return Launch("", demand, shape, rng.choice((UNITS, UNITS * 2, _full(rng), _full(rng))))


def variants(launch: Launch) -> list[Variant]:
    """The kernel itself ("base") and every intervention that applies to it."""
    return [Variant("base", True, launch), *_fixes(launch), *_nearer(launch), *_removals(launch)]


def _fixes(one: Launch) -> Iterator[Variant]:
    """Interventions that do the same work in a different way."""
    d, s = one.demand, one.shape

    def fix(what: str, **changes: object) -> Variant:
        demand = {k: v for k, v in changes.items() if k in Demand.__dataclass_fields__}
        shape = {k: v for k, v in changes.items() if k in Shape.__dataclass_fields__}
        rest = {k: v for k, v in changes.items() if k not in demand and k not in shape}
        changed = replace(one, demand=replace(d, **demand), shape=replace(s, **shape), **rest)  # type: ignore[arg-type]
        return Variant(what, True, changed)

    if s.stride > 1 or s.write_stride > 1:
        yield fix("unit_stride", stride=1, write_stride=1)
    if d.loads and d.access == "GATHER":
        yield fix("in_order", access="STREAM")
    if d.loads % UNROLL == 0 < d.loads and d.width == 1 and d.access in ("STREAM", "ASYNC"):
        yield fix("wider_loads", loads=d.loads // UNROLL, width=UNROLL)
    if 0 < d.loads <= UNROLL or 0 < d.lds <= UNROLL:
        more = {name: UNROLL * getattr(d, name) for name in AMOUNTS}
        if max(more["fma"], more["path_ops"] * d.paths) <= MOST_CODE and not d.live and s.skew == "EVEN":
            fewer = {"steps": s.steps // UNROLL} if s.steps % UNROLL == 0 else {"rounds": s.rounds // UNROLL}
            if all(fewer.values()) and not (d.barrier and "rounds" in fewer):
                yield fix("more_in_flight", **more, **fewer)
    if d.chains < UNROLL and any((d.fma, d.fp64, d.sfu, d.integer, d.matrix)):
        yield fix("independent_chains", chains=UNROLL)
    if one.grid * d.threads < UNITS * WAVES_PER_UNIT * WAVE // 2 and s.rounds >= MORE_GROUPS:
        yield fix("more_groups", grid=one.grid * MORE_GROUPS, rounds=s.rounds // MORE_GROUPS)
    if one.family == "uneven grid":
        yield fix("whole_grid", grid=UNITS, rounds=s.rounds * one.grid // UNITS)
    if d.held:
        yield fix("fewer_registers", held=0)
    if one.spare_lds and one.family != "uneven grid":
        yield fix("less_lds", spare_lds=0)
    if s.skew != "EVEN":
        yield fix(f"balanced_{s.skew.lower()}", skew="EVEN")
    if d.lds and s.row > 1:
        yield fix("padded", row=s.row + 1)
    if d.atomics and s.target_mask < ALL_TARGETS - 1:
        yield fix("spread_atomics", target_mask=ALL_TARGETS - 1, target_stride=1)
    if d.atomics and s.target_mask < 1024 and d.update == "ADD":
        yield fix("private_atomics", update="PRIVATE")
    if d.paths:
        yield fix("sorted_lanes", sorted=True)
    if d.barrier and s.skew == "EVEN" and s.rounds >= RARER:
        yield fix("fewer_barriers", rounds=s.rounds // RARER, steps=s.steps * RARER)
    if d.live and d.resident > 1:
        yield fix("no_spills", resident=1)
    if one.on_host:
        yield fix("device_memory", on_host=False)


def _nearer(one: Launch) -> Iterator[Variant]:
    """The same accesses to less memory, which removes the traffic of one level."""
    if not one.demand.loads or one.shape.stride > 1 or one.on_host:
        return
    for level in ("l2", "l1"):
        if FOOTPRINTS[level] <= one.shape.mask:
            yield Variant(f"in_{level}", False, replace(one, shape=replace(one.shape, mask=FOOTPRINTS[level] - 1)))


def _removals(one: Launch) -> Iterator[Variant]:
    """The kernel without one of its demands."""
    d = one.demand
    gone: dict[str, dict[str, object]] = {
        name: {name: 0} for name in AMOUNTS if getattr(d, name) and name != "path_ops"
    }
    if d.paths:
        gone["paths"] = {"paths": 0, "path_ops": 0}
    if d.live:
        gone["live"] = {"live": 0}
    if d.barrier:
        gone["barrier"] = {"barrier": False}
    for name, change in gone.items():
        changed = replace(d, **change)  # type: ignore[arg-type]
        yield Variant(f"no_{name}", False, replace(one, demand=changed))


def _literal(of: Demand | Shape) -> str:
    """A C++ initialiser; unused fields are omitted, so that the kernel name stays short."""
    usual = Demand() if isinstance(of, Demand) else None
    parts = []
    for item in fields(of):
        value = getattr(of, item.name)
        if usual and value == getattr(usual, item.name):
            continue
        text = (
            str(value).lower()
            if isinstance(value, bool)
            else f"{value}u"
            if not usual and isinstance(value, int)
            else value
        )
        parts.append(f".{item.name} = {text}")
    return f"{{{', '.join(parts)}}}"


def source(numbered: list[tuple[str, Launch]]) -> str:
    """A source file with some kernels and all their interventions."""
    rows = []
    for name, launch in numbered:
        for v in variants(launch):
            one = v.launch
            rows.append(
                f'  {{"{name}", "{v.what}", {str(v.keeps_work).lower()}, {str(one.on_host).lower()}, '
                f"demand<Demand{_literal(one.demand)}>, {one.grid}, {one.demand.threads}, {one.lds_bytes}, "
                f"{str(one.scaled).lower()}, {_literal(one.shape)}}},"
            )
    return '#include "demand.h"\n\nstatic Cases some{{\n' + "\n".join(rows) + "\n}};\n"


def write(folder: Path, files: int, kernels: Mapping[str, Launch] | None = None) -> None:
    """Distribute kernels (by default of both halves) with all their interventions over source files."""
    every = list((kernels or {k: one for seed in HALVES.values() for k, one in of_seed(seed).items()}).items())
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        (folder / f"cases_{number:02}.cu").write_text(source(every[number::files]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--count", type=int, default=80)
    options = parser.parse_args()
    write(options.folder, options.files, None if options.seed is None else some_of(options.seed, options.count))


if __name__ == "__main__":
    main()
