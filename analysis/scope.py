"""The names that formulas use, resolved against what one workload has: counters, launch columns, facts, terms."""

from __future__ import annotations

from collections.abc import Iterable

from . import catalog
from .formula import references
from .store import Manifest, sql_name

# Launch columns of the table dispatches that formulas may name.
LAUNCH = ("grid", "workgroup_size", "vgpr", "agpr", "sgpr", "lds_bytes", "scratch_bytes")
ALL_CHANNELS = "[*]"


def facts_of(manifest: Manifest) -> dict[str, float]:
    """The facts that formulas may use: those of the GPU target, overridden by what the profile states."""
    target = catalog.gpu(manifest.arch or "")
    return {name: fact.value for name, fact in target.facts.items()} | manifest.facts


def is_channelled(counter: str) -> bool:
    """Whether a counter of a per-channel formula is a channel's own: an L2 counter that is no total."""
    return counter.startswith("TCC_") and not counter.endswith("_sum")


class Scope:
    """The names formulas of one query use, resolved against what the workload has."""

    def __init__(self, manifest: Manifest, *, has_instances: bool, channel: bool = False) -> None:
        self.target = manifest.arch or ""
        self.facts = facts_of(manifest)
        self.available = set(manifest.counters)
        self.has_instances = has_instances
        self.channel = channel
        self.terms = catalog.terms(self.target)
        self.used_terms: dict[str, str] = {}
        self.counters: set[str] = set()
        self.launch: set[str] = set()

    def resolve(self, formulas: Iterable[str]) -> tuple[list[str], bool]:
        """Note what the formulas use; return what is missing, in words, and whether they use the duration."""
        missing: list[str] = []
        counters, launch, terms = set(), set(), {}
        pending = [n for f, names in references(formulas).items() for n in names]
        seen: set[str] = set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self.terms:
                terms[name] = self.terms[name]
                pending += references([self.terms[name]])[self.terms[name]]
            elif name in LAUNCH:
                launch.add(name)
            elif name == "duration_ns" or name in self.facts:
                continue
            elif name[0].islower():
                missing.append(f"device fact {name} unknown")
            elif self.column(name) is None:
                missing.append(f"counter {self.spelling(name)} missing")
            else:
                counters.add(name)
        if not missing:
            self.counters |= counters
            self.launch |= launch
            self.used_terms |= terms
        return sorted(missing), "duration_ns" in seen

    def spelling(self, name: str) -> str:
        """The target's spelling of a counter that formulas call ``name``."""
        for prefix, actual in catalog.renames(self.target).items():
            if name.startswith(prefix):
                return actual + name.removeprefix(prefix)
        return name

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
        for candidate in (actual, plain):
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
        order = [t for t in self.terms if t in self.used_terms]
        items = [f"{v!r}::DOUBLE AS {k}" for k, v in self.facts.items()] + [f"{self.terms[t]} AS {t}" for t in order]
        return f"SELECT {', '.join(['*', *items])} FROM ({columns})"

    def columns(self) -> list[str]:
        """The select items that come from files."""
        launch = [f"d.{n}" for n in sorted(self.launch)]
        return ["w.kernel", *self.named_columns().values(), *launch]
