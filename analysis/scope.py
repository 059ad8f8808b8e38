"""The names that formulas use, resolved against what one workload has: counters, launch columns, facts, terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from . import catalog
from .catalog import LAUNCH
from .formula import references
from .store import Manifest, sql_name

ALL_CHANNELS = "[*]"


def facts_of(manifest: Manifest) -> dict[str, float]:
    """The facts that formulas may use: those of the GPU target, overridden by what the profile states."""
    target = catalog.gpu(manifest.arch or "")
    return {name: fact.value for name, fact in target.facts.items()} | manifest.facts


def is_channelled(counter: str) -> bool:
    """Whether a counter of a per-channel formula is a channel's own: an L2 counter that is no total."""
    return counter.startswith("TCC_") and not counter.endswith("_sum")


@dataclass
class _Needs:
    """What a name or formula comes down to, and what of it is missing, in words."""

    missing: set[str] = field(default_factory=set)
    counters: set[str] = field(default_factory=set)
    launch: set[str] = field(default_factory=set)
    terms: dict[str, str] = field(default_factory=dict)
    timed: bool = False

    def add(self, other: _Needs) -> None:
        """Join what another name needs."""
        self.missing |= other.missing
        self.counters |= other.counters
        self.launch |= other.launch
        self.terms |= other.terms
        self.timed = self.timed or other.timed


class Scope:
    """The names formulas of one query use, resolved against what the workload has."""

    def __init__(
        self, manifest: Manifest, *, has_instances: bool, channel: bool = False, measured_in: str | None = None
    ) -> None:
        self.target = manifest.arch or ""
        self.facts = facts_of(manifest)
        self.available = set(manifest.counters)
        self.has_instances = has_instances
        self.channel = channel
        self.measured_in = measured_in
        """The pass whose values count where a counter was measured in several."""
        self.terms: dict[str, str] = {}
        """The terms in use, each as the expression whose inputs this workload has."""
        self.counters: set[str] = set()
        self.launch: set[str] = set()
        self._alternatives = catalog.alternatives(self.target)
        self._needs: dict[str, _Needs] = {}

    def resolve(self, formulas: Iterable[str]) -> tuple[list[str], bool]:
        """Note what the formulas use; return what is missing, in words, and whether they use the duration."""
        needs = self._of_formulas(list(formulas))
        if not needs.missing:
            self.counters |= needs.counters
            self.launch |= needs.launch
            self.terms |= needs.terms
        return sorted(needs.missing), needs.timed

    def _of_formulas(self, formulas: list[str]) -> _Needs:
        total = _Needs()
        for name in {n for names in references(formulas).values() for n in names}:
            total.add(self._of_name(name))
        return total

    def _of_name(self, name: str) -> _Needs:
        if name not in self._needs:
            self._needs[name] = self._of_term(name) if name in self._alternatives else self._of_input(name)
        return self._needs[name]

    def _of_term(self, name: str) -> _Needs:
        """What a term needs by the first of its expressions that lacks nothing, else by its first."""
        first: _Needs | None = None
        for formula in self._alternatives[name]:
            needs = self._of_formulas([formula])
            needs.terms = needs.terms | {name: formula}
            if not needs.missing:
                return needs
            first = first or needs
        return first or _Needs()

    def _of_input(self, name: str) -> _Needs:
        if name == "duration_ns":
            return _Needs(timed=True)
        if name in LAUNCH:
            return _Needs(launch={name})
        if name in self.facts:
            return _Needs()
        if not catalog.is_counter(self.target, name):
            return _Needs(missing={f"device fact {name} unknown"})
        if self.column(name) is None:
            return _Needs(missing={f"counter {self.spelling(name)} missing"})
        return _Needs(counters={name})

    def spelling(self, name: str) -> str:
        """The target's spelling of a counter that formulas call ``name``."""
        return catalog.spelling(self.target, name)

    def column(self, name: str) -> str | None:
        """The SQL expression that yields counter ``name``, or None where the workload has no such column.

        ``C@PASS`` means C as measured in that pass, or C itself in a profile taken in one piece.
        ``C[*]`` means the sum over all L2 channels.
        """
        actual = self.spelling(name)
        if actual.endswith(ALL_CHANNELS):
            return f"x.{sql_name(actual)}" if self.has_instances else None
        if self.channel and is_channelled(name):
            return f"i.{sql_name(name)}"
        plain = actual.split("@")[0]
        for candidate in (actual if "@" in actual else f"{plain}@{self.measured_in}", plain):
            if candidate in self.available or (candidate.startswith("duration_ns") and candidate == plain):
                return f"w.{sql_name(candidate)}"
        return None

    def named_columns(self) -> dict[str, str]:
        """Counter -> select item under the name the formulas use, plus duration."""
        found = {c: f"{self.column(c)} AS {sql_name(c)}" for c in sorted(self.counters)}
        found["duration_ns"] = "w.duration_ns"
        return found

    def with_constants(self, columns: str) -> str:
        """The relation ``columns`` plus facts and terms; DuckDB resolves a later alias against an earlier one."""
        order = [t for t in self._alternatives if t in self.terms]
        items = [f"{v!r}::DOUBLE AS {k}" for k, v in self.facts.items()] + [f"{self.terms[t]} AS {t}" for t in order]
        return f"SELECT {', '.join(['*', *items])} FROM ({columns})"

    def columns(self) -> list[str]:
        """The select items that come from files."""
        launch = [f"d.{n}" for n in sorted(self.launch)]
        return ["w.kernel", *self.named_columns().values(), *launch]
