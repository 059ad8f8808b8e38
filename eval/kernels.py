"""Evaluates diagnose_bottleneck on kernels with known bottlenecks: first, in the top three, and confidence."""

from __future__ import annotations

import csv
import gzip
import itertools
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.client import Client
from questions import CHARACTERS_PER_TOKEN

from rooflens.analysis.catalogue import metrics as catalog
from rooflens.analysis.catalogue.formula import references
from rooflens.analysis.catalogue.search import select_metrics

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TOP = 3
_TARGET = "sm_90"
_FACTS = ("device__", "launch__")
"""Names of columns that every profile has, independently of the collected counters."""
BINS = (0.0, 0.5, 0.7, 0.85, 1.0)
"""Boundaries of the confidence classes for calibration."""
SURE, OPEN = BINS[-2], BINS[1]
"""A wrong verdict with confidence of at least SURE is misleading. Below OPEN, the tool itself calls it open."""


@dataclass(frozen=True)
class Labelled:
    """A kernel of a stored workload and the subsystems that count as correct.

    ``thinned``: some counters were removed.
    """

    workload: str
    kernel: str
    labels: tuple[str, ...]
    thinned: bool = False


@dataclass(frozen=True)
class Diagnosed:
    """The diagnosis of a labelled kernel; ``ranked`` contains its subsystems, that of the verdict first."""

    case: Labelled
    ranked: tuple[str, ...]
    confidence: float
    tokens: int
    asks: bool = False
    """Whether it names counters that would decide the verdict."""

    @property
    def first(self) -> bool:
        return self.ranked[0] in self.case.labels

    @property
    def top(self) -> bool:
        return any(subsystem in self.case.labels for subsystem in self.ranked[:TOP])


async def labelled(client: Client, folder: Path, path: Path = HERE / "cases.toml") -> tuple[list[Labelled], list[str]]:
    """Import every available workload of the file; return its labelled kernels, and what was skipped.

    Profiles with removed counters are written to ``folder``.
    """
    found, skipped = [], []
    for stated in tomllib.loads(path.read_text(encoding="utf-8"))["workload"]:
        source = ROOT / stated["path"]
        if not source.exists():
            skipped.append(f"{stated['name']}: {stated['path']} is not here")
            continue
        only = stated.get("only")
        if only:
            source = _thinned(source, only, folder / f"{stated['name']}.csv")
        await client.call_tool("import_profile", {"path": str(source), "name": stated["name"]})
        found += [
            Labelled(stated["name"], kernel, tuple(labels.split("|")), bool(only)) for kernel, labels in _labels(stated)
        ]
    return found, skipped


async def diagnosed(client: Client, case: Labelled) -> Diagnosed:
    """Diagnose one kernel. Raises ValueError if the tool refuses, or returns a different number of kernels."""
    kernel = rf"(^|\s){re.escape(case.kernel)}($|\(|\s)"
    result = await client.call_tool("diagnose_bottleneck", {"workload": case.workload, "kernel": kernel, "top_n": TOP})
    text = "".join(getattr(block, "text", "") for block in result.content)
    if result.is_error:
        raise ValueError(f"{case.kernel}: {text}")
    kernels = (result.structured_content or {})["kernels"]
    if len(kernels) != 1:
        raise ValueError(f"{case.kernel}: {len(kernels)} kernels fit")
    verdict = kernels[0]["verdict"]
    others = [finding["subsystem"] for finding in kernels[0]["findings"]]
    ranked = tuple(dict.fromkeys([verdict["subsystem"], *others]))
    asks = bool(kernels[0]["next_counters"])
    return Diagnosed(case, ranked, float(verdict["confidence"]), len(text) // CHARACTERS_PER_TOKEN, asks)


def scores(results: Iterable[Diagnosed]) -> dict[str, Any]:
    """Compute shares in percent, and the calibration of the confidence.

    The Brier score is the mean square of confidence - (1 if correct, else 0). It and the calibration exclude
    the verdict "unknown", which makes no claim.
    """
    done = list(results)
    said = [d for d in done if d.ranked[0] != "unknown"]
    return {
        "kernels": len(done),
        "right_first_pct": _pct(d.first for d in done),
        "right_in_top_three_pct": _pct(d.top for d in done),
        "brier": sum((d.confidence - d.first) ** 2 for d in said) / len(said),
        "sure_and_wrong": sum(d.confidence >= SURE and not d.first for d in said),
        "calibration": [
            {
                "confidence": f"{low:.2f}-{high:.2f}",
                "kernels": len(inside),
                "mean_confidence_pct": 100 * sum(d.confidence for d in inside) / len(inside),
                "right_first_pct": _pct(d.first for d in inside),
            }
            for low, high in itertools.pairwise(BINS)
            if (inside := [d for d in said if low <= d.confidence < high or d.confidence == high == BINS[-1]])
        ],
        "tokens_per_answer": sum(d.tokens for d in done) / len(done),
        "calls_per_answer": 1.0,
        "misled": sum(d.confidence >= OPEN and not d.first for d in said),
        "asks_for_counters_pct": _pct(d.asks for d in done),
    }


def _thinned(source: Path, only: list[str], path: Path) -> Path:
    """A raw page of ncu with only the counters of these metrics; columns that are not counters are kept."""
    with gzip.open(source, "rt", encoding="utf-8", newline="") as text:
        rows = list(csv.reader(text))
    formulas = [f for m in select_metrics(_TARGET, only) for f in (m.num, m.den or "1", m.unseen or "0")]
    keep = {"gpu__time_duration.sum", *_read(formulas, frozenset(rows[0]))}
    at = [i for i, name in enumerate(rows[0]) if name in keep or "__" not in name or name.startswith(_FACTS)]
    with path.open("w", encoding="utf-8", newline="") as text:
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows([[row[i] for i in at] for row in rows])
    return path


def _read(formulas: Iterable[str], recorded: frozenset[str]) -> frozenset[str]:
    """The counters that formulas read from a recording: for each term, those of the first computable form."""
    stated, read = catalog.alternatives(_TARGET), set[str]()
    for name in {name for names in references(formulas).values() for name in names}:
        if name in stated:
            forms = [_read([form], recorded) for form in stated[name]]
            read |= next((form for form in forms if form <= recorded), forms[0])
        elif catalog.is_counter(_TARGET, name):
            read.add(name)
    return frozenset(read)


def _pct(right: Iterable[bool]) -> float:
    values = list(right)
    return 100 * sum(values) / len(values)


def _labels(stated: dict[str, Any]) -> list[tuple[str, str]]:
    if "kernels" in stated:
        return list(stated["kernels"].items())
    kernel, labels = stated["columns"]
    text = (ROOT / stated["labels"]).read_text(encoding="utf-8")
    return [(row[kernel], row[labels]) for row in csv.DictReader(text.splitlines())]
