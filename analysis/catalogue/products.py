"""Products by name: the figures of data sheets that a GPU target leaves open, read from products/*.toml."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from ..problems import NotFound, near
from . import files, targets
from .files import Strict
from .targets import Fact


class Product(Strict):
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
        key: files.checked(Product, {"key": key, **document}, f"The product of {key}.toml")
        for key, document in files.documents("products").items()
    }


def product(key: str) -> Product:
    """One product; NotFound with near names for an unknown one."""
    known = products()
    if key.lower() not in known:
        raise NotFound(f"Unknown product {key!r}", near(key, known), f"Known: {', '.join(known)}")
    return known[key.lower()]


def identify(device: str | None, target: str | None, facts: dict[str, float]) -> Product | None:
    """The product of a device by its name, target and compute units; None where that is not beyond doubt.

    A name that several products share (MI200) fits none. Another number of compute units than the data sheet's means
    a partition or another part, so nothing of the data sheet may be used.
    """
    words = set(re.split(r"[^A-Z0-9]+", (device or "").upper()))
    fits = [
        p
        for p in products().values()
        if p.target == target
        and any(words >= set(alternative) for alternative in p.names)
        and facts.get("cu_per_gpu", p.facts["cu_per_gpu"].value) == p.facts["cu_per_gpu"].value
    ]
    return fits[0] if len(fits) == 1 else None
