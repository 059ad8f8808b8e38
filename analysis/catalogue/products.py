"""Products by name: the figures of data sheets that a GPU target leaves open, read from products/*.toml."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from ..base.problems import NotFound, near
from . import files, targets
from .files import CatalogueModel
from .targets import Fact


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
        known = targets.gpu(self.target).facts if self.target in targets.targets() else {}
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


def resolve_gpu(gpu: str) -> tuple[str, dict[str, float]]:
    """The target that ``gpu`` names (gfx942, gfx940, MI300X, "AMD Instinct MI300X") and the figures of the data sheet,
    where it names one product that has one; NotFound with near names otherwise."""
    if (known := targets.find_target(gpu)) is not None:
        return known.target, {}
    sheets = {_plain(key): sheet for key, sheet in products().items() if sheet.target in targets.targets()}
    words = _words(gpu)
    by_words = [s for s in sheets.values() if any(words >= set(alternative) for alternative in s.names)]
    fits = [sheets[_plain(gpu)]] if _plain(gpu) in sheets else by_words
    if len({sheet.target for sheet in fits}) == 1:
        facts = fits[0].facts if len(fits) == 1 else {}
        return fits[0].target, {name: fact.value for name, fact in facts.items()}
    listed = {name: target for target in targets.targets() for name in targets.gpu(target).products}
    if target := {_plain(name): target for name, target in listed.items()}.get(_plain(gpu)):
        return target, {}
    every = [*targets.targets(), *listed]
    raise NotFound(
        f"Unknown GPU {gpu!r}",
        near(gpu, every),
        f"Targets: {', '.join(targets.targets())}; products: {', '.join(listed)}",
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
