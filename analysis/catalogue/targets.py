"""The GPU targets: the facts of all products with one instruction set, read from the TOML files in gpus/."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Literal

from ..base.problems import BadInput, NotFound, near
from . import files
from .files import CatalogueModel


class Fact(CatalogueModel):
    """One number about a GPU target, with its unit and source."""

    value: float
    unit: str
    source: str


class AgprFile(CatalogueModel):
    """How accumulation registers count: absent, in a separate register file, or in one file with the VGPRs."""

    value: Literal["none", "separate", "unified"]
    source: str


class SgprSteps(CatalogueModel):
    """Ascending pairs (up to this many units, result); more than the last pair allows is impossible."""

    value: list[tuple[int, int]]
    unit: str
    source: str


class OccupancyFacts(CatalogueModel):
    """The limits of resident waves (warps) on one ``unit``, the group of SIMDs that share an LDS."""

    unit: str
    """What a CU is in the results: a compute unit, a work-group processor of two, or an SM."""
    simds: Fact
    max_waves_per_simd: Fact
    wave_size: Fact
    max_workgroup_size: Fact
    workgroup_slots: Fact
    """The work-groups (thread blocks) that fit on one unit, or barriers if only those are limited."""
    single_wave_groups_take_slots: bool
    vgprs_per_lane: Fact
    vgpr_granule: Fact
    max_vgprs: Fact
    """The most registers of one work-item; in a unified register file this includes AGPRs."""
    agprs: AgprFile
    sgpr_waves: SgprSteps | None = None
    """SGPRs of a wave -> waves per SIMD; absent if SGPRs are not a limit."""
    lds_bytes: Fact
    max_lds_bytes_per_workgroup: Fact
    lds_block_bytes: Fact
    lds_reserved_bytes: Fact | None = None
    """Allocated for every work-group in addition to what it requests."""
    cu_mode_workgroup_slots: Fact | None = None
    """Present if code can also be built for one of the two compute units (RDNA), or for waves of 64."""


class Die(CatalogueModel):
    """One compute die (XCD)."""

    l2_channels: Fact
    compute_units: Fact | None = None
    """The number in use, if products have several dies."""


class ProfilerDefect(CatalogueModel):
    """An error that the profilers of some ROCm releases make on a target."""

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
        """Whether a release has the defect; an unknown release, (), counts as old."""
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
    """The unit of the intervals: cycles or microseconds."""
    usual: int
    finest: int
    """The shortest useful interval."""
    power_of_two: bool = False
    source: str


class Gpu(CatalogueModel):
    """One GPU target: the facts of every product with this instruction set."""

    target: str
    vendor: Literal["amd", "nvidia", "cpu"]
    family: str
    title: str
    products: list[str]
    validated_on_hardware: bool
    validated_on_profiles: bool = True
    """Whether recorded profiles have checked its formulas; if not, they follow its vendor's lists of counters."""
    like: str | None = None
    """A target of the same family whose facts, limits of occupancy, counters and formulas also apply here unless this
    one states its own."""
    lacks: list[str] = []
    """The facts of the target that it is like which do not apply to it."""
    also: list[str] = []
    """Other names that profilers and compilers use for it."""
    benchmarks: bool = False
    """Whether the micro-benchmarks are verified on it, by running them or by their disassembly."""
    compile_as: str | None = None
    """The compilers' name, if it differs."""
    elf_machine: int | None = None
    """EF_AMDGPU_MACH of the ELF flags of a code object."""
    brand: str = "AMD Instinct"
    """The brand that precedes the product names in ``pci_names``."""
    pci_names: dict[str, str] = {}
    """Products by PCI device id, written like 0x74A1."""
    hbm_channel_bits: Fact | None = None
    die: Die | None = None
    facts: dict[str, Fact] = {}
    counter_limits: dict[str, int] = {}
    """The number of counters that fit in one pass, per hardware block."""
    without_integrals: dict[str, str] = {}
    """Profilers that cannot accumulate level counters over time -> why."""
    absent: list[AbsentEvents] = []
    defect: list[ProfilerDefect] = []
    dead: list[DeadCounter] = []
    pc_sampling: list[PcSampling] = []
    occupancy: OccupancyFacts | None = None

    @property
    def checked_on(self) -> str:
        """What its formulas have been checked on, as the object of a sentence."""
        return "recorded profiles" if self.validated_on_profiles else "its vendor's lists of counters"

    @property
    def chiplets(self) -> bool:
        """Whether its products have several compute dies."""
        return self.die is not None and self.die.compute_units is not None

    def l2_channels(self, dies: float) -> float:
        """The L2 channels of a device with this many dies; 0 if unknown."""
        if self.die is None:
            return 0.0
        return self.die.l2_channels.value * (dies if self.chiplets else 1)

    @property
    def agprs(self) -> str:
        """How accumulation registers count: none, separate or unified; empty if unknown."""
        return self.occupancy.agprs.value if self.occupancy else ""


def targets() -> list[str]:
    """The GPU targets with a file in gpus/."""
    return list(files.paths("gpus"))


@cache
def gpu(target: str) -> Gpu:
    """The facts of one target. Raises NotFound with similar names for an unknown one."""
    if target not in targets():
        raise NotFound(f"Unknown GPU target {target!r}", near(target, targets()), f"Known: {', '.join(targets())}")
    whole = _with_inherited(files.load(files.paths("gpus")[target]))
    stated = files.validate_entry(Gpu, whole, f"The GPU target of {target}.toml")
    if stated.target != target:
        raise BadInput(f"{target}.toml states target = {stated.target!r}", fix="Rename the file to match the target")
    return stated


def _with_inherited(document: dict[str, Any]) -> dict[str, Any]:
    """The content of a target's file, with the facts and limits of occupancy of the target that it is ``like``.

    Raises BadInput if that target, or a fact that this one ``lacks``, does not exist.
    """
    if (like := document.get("like")) is None:
        return document
    name = document.get("target")
    if like == name or like not in targets():
        raise BadInput(f"{name}.toml states like = {like!r}", f"Known: {', '.join(targets())}", "Name another target")
    base = _with_inherited(files.load(files.paths("gpus")[like]))
    lacks = document.get("lacks", [])
    if unknown := sorted(set(lacks) - set(base.get("facts", {}))):
        raise BadInput(f"{name}.toml lacks {unknown[0]!r}", f"{like} has no such fact", "Remove it from the list")
    kept = {fact: value for fact, value in base.get("facts", {}).items() if fact not in lacks}
    merged = {"facts": kept | document.get("facts", {})}
    if limits := base.get("occupancy", {}) | document.get("occupancy", {}):
        merged["occupancy"] = limits
    return document | merged


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate of the same kind and generation whose number is closest to that of an unknown target, the older of
    two; None if there is none. sm_121 is close to sm_120, gfx1103 to gfx1102."""
    if (asked := _generation(name)) is None:
        return None
    known = [(abs(one[1] - asked[1]), one[1], c) for c in candidates if (one := _generation(c)) and one[0] == asked[0]]
    return min(known)[2] if known else None


def _generation(name: str) -> tuple[str, int] | None:
    """The kind and generation of a target, and its number; None if it is neither a gfx nor an sm target."""
    if match := re.fullmatch(r"gfx([0-9a-f]+)([0-9a-f]{2})", name):
        return f"gfx{match[1]}", int(match[2], 16)
    if match := re.fullmatch(r"sm_(\d+)[af]?", name):
        return "sm", int(match[1])
    return None


def vendor_of(target: str) -> Literal["amd", "nvidia", "cpu"] | None:
    """The vendor of a target, also of one without a file if its name is one of a GPU's; None for any other word."""
    if known := find_target(target):
        return known.vendor
    kind = _generation(target)
    return None if kind is None else "nvidia" if kind[0] == "sm" else "amd"


@cache
def find_target(name: str | None) -> Gpu | None:
    """The target that a profiler or compiler calls ``name``, or None if it has no file."""
    known = map(gpu, targets())
    return gpu(name) if name in targets() else next((g for g in known if name in g.also), None)


def product_name(device_id: int) -> str | None:
    """The product with a PCI device id, including its brand, or None if no target lists it."""
    known = map(gpu, targets())
    names = {int(number, 16): f"{one.brand} {name}" for one in known for number, name in one.pci_names.items()}
    return names.get(device_id)


@cache
def _lineage(target: str) -> tuple[str, ...]:
    """A target, followed by the chain of targets that it is ``like``."""
    names = [target]
    while (like := gpu(names[-1]).like) and like not in names:
        names.append(like)
    return tuple(names)


def holds(gpus: Iterable[str] | None, target: str) -> bool:
    """Whether an entry for ``gpus`` (None for all) applies to a target.

    The first target of the lineage that the list states decides; "-sm_100" excludes that target and those like it.
    """
    if gpus is None:
        return True
    stated = set(gpus)
    nearest = next((name for name in _lineage(target) if not stated.isdisjoint((name, f"-{name}"))), None)
    return nearest in stated if nearest else all(name.startswith("-") for name in stated)


def changes(entry: Mapping[str, Any], target: str) -> Iterator[dict[str, Any]]:
    """The changes of an entry by ``on.<vendor>`` and then ``on.<target>``; a target comes after those that it is
    like."""
    stated = entry.get("on", {})
    for name in (gpu(target).vendor, *reversed(_lineage(target))):
        if name in stated:
            yield stated[name]


def as_on_target(entry: Mapping[str, Any], target: str) -> dict[str, Any]:
    """An entry of a data file for one target: with its changes applied, without the keys ``on`` and ``gpus``."""
    plain = {key: value for key, value in entry.items() if key not in ("on", "gpus")}
    for change in changes(entry, target):
        plain |= change
    return plain


def family_documents(target: str) -> list[dict[str, Any]]:
    """The files of metrics/ that apply to a target."""
    every = (d for d in files.documents("metrics").values() if "family" in d)
    return [d for d in every if d["family"] == gpu(target).family and holds(d.get("gpus"), target)]


def family_table(target: str, key: str) -> dict[str, Any]:
    """A table that the files of metrics/ state for a target, with their changes for it."""
    stated: dict[str, Any] = {}
    for document in family_documents(target):
        for part in (document, *changes(document, target)):
            stated |= part.get(key, {})
    return stated


def why_event_absent(target: str, event: str) -> str | None:
    """Why a target cannot count an event according to AMD's definitions, or None."""
    lineage = _lineage(target) if target in targets() else ()
    stated = (entry for name in lineage for entry in gpu(name).absent)
    return next((entry.why for entry in stated if re.fullmatch(entry.events, event)), None)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part)


class Product(CatalogueModel):
    """One product, as one of its devices appears to software."""

    key: str
    title: str
    target: str
    vendor: Literal["amd", "nvidia"]
    family: str
    names: list[list[str]]
    """Alternatives, each a list of words that a device's name must contain."""
    validated_on_hardware: bool
    facts: dict[str, Fact]

    @property
    def all_facts(self) -> dict[str, Fact]:
        """The facts of its target, if the catalogue has it, and its own."""
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
    """One product. Raises NotFound with similar names for an unknown one."""
    known = products()
    if key.lower() not in known:
        raise NotFound(f"Unknown product {key!r}", near(key, known), f"Known: {', '.join(known)}")
    return known[key.lower()]


def resolve_gpu(asked: str) -> tuple[str, dict[str, float]]:
    """Return the target that ``asked`` names and, where it names one product, the figures of its data sheet.

    ``asked`` is a target or a product: gfx942, gfx940, MI300X, "AMD Instinct MI300X". Raises NotFound with near names.
    """
    if known := find_target(asked):
        return known.target, {}
    sheets = {_plain(key): sheet for key, sheet in products().items() if sheet.target in targets()}
    plain = _plain(asked)
    fits = [sheets[plain]] if plain in sheets else _named(_words(asked), sheets.values())
    if len({sheet.target for sheet in fits}) == 1:
        facts = fits[0].facts if len(fits) == 1 else {}
        return fits[0].target, {name: fact.value for name, fact in facts.items()}
    listed = {name: target for target in targets() for name in gpu(target).products}
    if target := {_plain(name): target for name, target in listed.items()}.get(plain):
        return target, {}
    raise NotFound(
        f"Unknown GPU {asked!r}",
        near(asked, [*targets(), *listed]),
        f"Targets: {', '.join(targets())}; products: {', '.join(listed)}",
    )


def _plain(name: str) -> str:
    """A product's name in lower case, without brand and spaces."""
    return re.sub(r"amd|nvidia|instinct|radeon|[\s_-]", "", name.casefold())


def _words(name: str) -> set[str]:
    return set(re.split(r"[^A-Z0-9]+", name.upper()))


def identify(device: str | None, target: str | None, facts: dict[str, float]) -> Product | None:
    """The product of a device by its name, target and compute units, or None if it is not certain.

    A name that several products share (MI200) matches none. If the number of compute units differs from the data sheet,
    the device is a partition or another part, so the data sheet must not be used.
    """
    of_target = [
        p
        for p in products().values()
        if p.target == target and facts.get("cu_per_gpu", p.facts["cu_per_gpu"].value) == p.facts["cu_per_gpu"].value
    ]
    fits = _named(_words(device or ""), of_target)
    return fits[0] if len(fits) == 1 else None


def plausible_facts(facts: Mapping[str, object]) -> dict[str, float]:
    """The facts of a device in a profile that are positive integers below 2 to the 53rd."""
    return {name: float(value) for name, value in facts.items() if type(value) is int and 0 < value < 1 << 53}


def target_of_device(
    vendor: str | None, device: str | None, capability: tuple[object, object], facts: dict[str, float]
) -> str | None:
    """The target of a device by its compute capability, such as (9, 0), or for AMD also by its name; None if unsure.

    HIP states 9.0 for several targets, of which the number of compute units selects one.
    """
    major, minor = capability
    known = type(major) is int and type(minor) is int and 0 < major < 100 and 0 <= minor < 10
    if vendor == "nvidia":
        return f"sm_{major}{minor}" if known else None
    of_amd = {p.target for p in products().values() if p.vendor == "amd"} if vendor == "amd" else set()
    fits = {target for target in of_amd if identify(device, target, facts)}
    if not fits and known:
        fits = {target for target in of_amd if target[:-1] == f"gfx{major}{minor}"}
    if len(fits) > 1:
        fits = {p.target for p in products().values() if p.target in fits
                and p.facts["cu_per_gpu"].value == facts.get("cu_per_gpu")}  # fmt: skip
    return fits.pop() if len(fits) == 1 else None


def _named(words: set[str], candidates: Iterable[Product]) -> list[Product]:
    """The products whose names consist of words of a device's name, except those of which another one says more: "RTX
    3070 TI" means no RTX 3070."""
    fits = [(p, names) for p in candidates for name in p.names if words >= (names := frozenset(name))]
    return list({p.key: p for p, names in fits if not any(names < other for _, other in fits)}.values())
