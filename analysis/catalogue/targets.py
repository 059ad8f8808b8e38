"""The GPU targets: what holds for every product with one instruction set, read from the TOML files in gpus/."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Literal

from ..base.problems import BadInput, NotFound, near
from . import files
from .files import CatalogueModel


class Fact(CatalogueModel):
    """One number about a GPU target, with its unit and where it comes from."""

    value: float
    unit: str
    source: str


class AgprFile(CatalogueModel):
    """How accumulation registers count: not there, in a file of their own, or in one file with the VGPRs."""

    value: Literal["none", "separate", "unified"]
    source: str


class SgprSteps(CatalogueModel):
    """Pairs (up to this many units, result), ascending; more than the last pair allows cannot be used."""

    value: list[tuple[int, int]]
    unit: str
    source: str


class OccupancyFacts(CatalogueModel):
    """What limits the waves (warps) that reside at once on one ``unit``, the block of SIMDs that share an LDS."""

    unit: str
    """What a CU means in the results: a compute unit, a work-group processor of two, an SM."""
    simds: Fact
    max_waves_per_simd: Fact
    wave_size: Fact
    max_workgroup_size: Fact
    workgroup_slots: Fact
    """Work-groups (thread blocks) that one unit holds, or barriers where only those are counted."""
    single_wave_groups_take_slots: bool
    vgprs_per_lane: Fact
    vgpr_granule: Fact
    max_vgprs: Fact
    """The most that one work-item can have; in a unified file AGPRs count among them."""
    agprs: AgprFile
    sgpr_waves: SgprSteps | None = None
    """SGPRs of a wave -> waves per SIMD; absent where there are none to count."""
    lds_bytes: Fact
    max_lds_bytes_per_workgroup: Fact
    lds_block_bytes: Fact
    lds_reserved_bytes: Fact | None = None
    """Taken for every work-group besides what it asks for."""
    cu_mode_workgroup_slots: Fact | None = None
    """There where code can also be built for one compute unit of the two (RDNA), or for waves of 64."""


class Die(CatalogueModel):
    """One compute die (XCD)."""

    l2_channels: Fact
    compute_units: Fact | None = None
    """Those in use, where products have several dies."""


class ProfilerDefect(CatalogueModel):
    """What profilers of some releases of ROCm write wrongly on a target."""

    code: str
    text: str
    since: str = ""
    before: str
    halves_registers: bool = False
    times: bool = False
    """Whether durations may be wrong."""
    counters: list[str] = []
    """Columns of counters or dispatches that may be wrong."""

    def concerns(self, release: tuple[int, ...]) -> bool:
        """Whether a release has it; one that is not known, (), counts as old."""
        return _numbers(self.since) <= release < _numbers(self.before)


class DeadCounter(CatalogueModel):
    """A counter that stays zero on a target although another shows that it should have counted."""

    counter: str
    although: str
    source: str


class AbsentEvents(CatalogueModel):
    """Events, as a regular expression, that the hardware of a target does not have."""

    events: str
    why: str
    source: str


class PcSampling(CatalogueModel):
    """One way in which profilers sample the program counters of a target, the best one first."""

    method: Literal["stochastic", "host_trap"]
    unit: Literal["cycles", "time"]
    """Of the intervals: cycles or microseconds."""
    usual: int
    finest: int
    """The shortest interval worth asking for."""
    power_of_two: bool = False
    source: str


class Gpu(CatalogueModel):
    """One GPU target: what holds for every product with this instruction set."""

    target: str
    vendor: Literal["amd", "nvidia", "cpu"]
    family: str
    title: str
    products: list[str]
    validated_on_hardware: bool
    like: str | None = None
    """A target of the same family whose counters and formulas hold here too, where nothing is stated for this one."""
    also: list[str] = []
    """Further names that profilers and compilers use for it."""
    benchmarks: bool = False
    """Whether the micro-benchmarks are proven on it: by running, or by their disassembly."""
    compile_as: str | None = None
    """What compilers call it, where that is not its name."""
    elf_machine: int | None = None
    """EF_AMDGPU_MACH of the ELF flags of a code object."""
    brand: str = "AMD Instinct"
    """What stands before a product's name in ``pci_names``."""
    pci_names: dict[str, str] = {}
    """Products by PCI device id, written as in 0x74A1."""
    hbm_channel_bits: Fact | None = None
    die: Die | None = None
    facts: dict[str, Fact] = {}
    counter_limits: dict[str, int] = {}
    """Counters that one pass can hold, per hardware block."""
    without_integrals: dict[str, str] = {}
    """Profilers that cannot add up level counters over time -> why."""
    absent: list[AbsentEvents] = []
    defect: list[ProfilerDefect] = []
    dead: list[DeadCounter] = []
    pc_sampling: list[PcSampling] = []
    occupancy: OccupancyFacts | None = None

    @property
    def chiplets(self) -> bool:
        """Whether its products have several compute dies."""
        return self.die is not None and self.die.compute_units is not None

    def l2_channels(self, dies: float) -> float:
        """L2 channels of a device with so many dies; 0 where that is not known."""
        if self.die is None:
            return 0.0
        return self.die.l2_channels.value * (dies if self.chiplets else 1)

    @property
    def agprs(self) -> str:
        """How accumulation registers count: none, separate or unified; empty where that is not known."""
        return self.occupancy.agprs.value if self.occupancy else ""


def targets() -> list[str]:
    """The GPU targets with a file in gpus/."""
    return list(files.paths("gpus"))


@cache
def gpu(target: str) -> Gpu:
    """The facts of one target; NotFound with near names for an unknown one."""
    if target not in targets():
        raise NotFound(f"Unknown GPU target {target!r}", near(target, targets()), f"Known: {', '.join(targets())}")
    stated = files.validate_entry(Gpu, files.load(files.paths("gpus")[target]), f"The GPU target of {target}.toml")
    if stated.target != target:
        raise BadInput(f"{target}.toml states target = {stated.target!r}", fix="Name the file as the target")
    return stated


@cache
def find_target(name: str | None) -> Gpu | None:
    """The target that a profiler or compiler calls ``name``; None for one without a file."""
    known = map(gpu, targets())
    return gpu(name) if name in targets() else next((g for g in known if name in g.also), None)


def product_name(device_id: int) -> str | None:
    """The product with a PCI device id, where a target lists it, with its brand."""
    known = map(gpu, targets())
    names = {int(number, 16): f"{one.brand} {name}" for one in known for number, name in one.pci_names.items()}
    return names.get(device_id)


@cache
def _lineage(target: str) -> tuple[str, ...]:
    """A target, the one that it is like, the one that that is like, ..."""
    names = [target]
    while (like := gpu(names[-1]).like) and like not in names:
        names.append(like)
    return tuple(names)


def holds(gpus: Iterable[str] | None, target: str) -> bool:
    """Whether what a data file states for ``gpus`` (None: for all) holds on a target."""
    return gpus is None or not set(_lineage(target)).isdisjoint(gpus)


def changes(entry: Mapping[str, Any], target: str) -> Iterator[dict[str, Any]]:
    """What ``on.<vendor>`` and then ``on.<target>`` of an entry change; what a target is like comes before itself."""
    stated = entry.get("on", {})
    for name in (gpu(target).vendor, *reversed(_lineage(target))):
        if name in stated:
            yield stated[name]


def as_on_target(entry: Mapping[str, Any], target: str) -> dict[str, Any]:
    """An entry of a data file as it stands on a target: with its changes, without the keys ``on`` and ``gpus``."""
    plain = {key: value for key, value in entry.items() if key not in ("on", "gpus")}
    for change in changes(entry, target):
        plain |= change
    return plain


def family_documents(target: str) -> list[dict[str, Any]]:
    """The files of metrics/ that hold for a target."""
    every = (d for d in files.documents("metrics").values() if "family" in d)
    return [d for d in every if d["family"] == gpu(target).family and holds(d.get("gpus"), target)]


def why_event_absent(target: str, event: str) -> str | None:
    """Why a target cannot count an event, as far as AMD's definitions tell, or None."""
    lineage = _lineage(target) if target in targets() else ()
    stated = (entry for name in lineage for entry in gpu(name).absent)
    return next((entry.why for entry in stated if re.fullmatch(entry.events, event)), None)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part)


class Product(CatalogueModel):
    """One product, as one device of it shows itself to software."""

    key: str
    title: str
    target: str
    vendor: Literal["amd", "nvidia"]
    family: str
    names: list[list[str]]
    """Alternatives; each lists the words that a device's name must have."""
    validated_on_hardware: bool
    facts: dict[str, Fact]

    @property
    def all_facts(self) -> dict[str, Fact]:
        """The facts of its target, where the catalogue has that, and its own."""
        known = gpu(self.target).facts if self.target in targets() else {}
        return known | self.facts


@cache
def products() -> dict[str, Product]:
    """Every product by its key, the stem of its file."""
    return {
        key: files.validate_entry(Product, {"key": key, **document}, f"The product of {key}.toml")
        for key, document in files.documents("products").items()
    }


def product(key: str) -> Product:
    """One product; NotFound with near names for an unknown one."""
    known = products()
    if key.lower() not in known:
        raise NotFound(f"Unknown product {key!r}", near(key, known), f"Known: {', '.join(known)}")
    return known[key.lower()]


def resolve_gpu(asked: str) -> tuple[str, dict[str, float]]:
    """Return the target that ``asked`` names and, where it names one product, the figures of its data sheet.

    ``asked`` is a target or a product: gfx942, gfx940, MI300X, "AMD Instinct MI300X". Raises NotFound with near names.
    """
    if (known := find_target(asked)) is not None:
        return known.target, {}
    sheets = {_plain(key): sheet for key, sheet in products().items() if sheet.target in targets()}
    words = _words(asked)
    by_words = [s for s in sheets.values() if any(words >= set(alternative) for alternative in s.names)]
    fits = [sheets[_plain(asked)]] if _plain(asked) in sheets else by_words
    if len({sheet.target for sheet in fits}) == 1:
        facts = fits[0].facts if len(fits) == 1 else {}
        return fits[0].target, {name: fact.value for name, fact in facts.items()}
    listed = {name: target for target in targets() for name in gpu(target).products}
    if target := {_plain(name): target for name, target in listed.items()}.get(_plain(asked)):
        return target, {}
    every = [*targets(), *listed]
    raise NotFound(
        f"Unknown GPU {asked!r}",
        near(asked, every),
        f"Targets: {', '.join(targets())}; products: {', '.join(listed)}",
    )


def _plain(name: str) -> str:
    """A product's name without brand, blanks and capitals."""
    return re.sub(r"amd|nvidia|instinct|radeon|[\s_-]", "", name.casefold())


def _words(name: str) -> set[str]:
    return set(re.split(r"[^A-Z0-9]+", name.upper()))


def identify(device: str | None, target: str | None, facts: dict[str, float]) -> Product | None:
    """The product of a device by its name, target and compute units; None where that is not beyond doubt.

    A name that several products share (MI200) fits none. Another number of compute units than the data sheet's means
    a partition or another part, so nothing of the data sheet may be used.
    """
    words = _words(device or "")
    fits = [
        p
        for p in products().values()
        if p.target == target
        and any(words >= set(alternative) for alternative in p.names)
        and facts.get("cu_per_gpu", p.facts["cu_per_gpu"].value) == p.facts["cu_per_gpu"].value
    ]
    return fits[0] if len(fits) == 1 else None
