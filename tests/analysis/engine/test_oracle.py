"""Every recorded value of rocprof-compute 3.3.0 is reproduced, but for what docs/deviations.toml lists."""

from __future__ import annotations

import fnmatch
import importlib.util
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rooflens.analysis.store import Store

ROOT = Path(__file__).resolve().parents[3]


def _oracle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("oracle", ROOT / "tests" / "oracle.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["oracle"] = module
    spec.loader.exec_module(module)
    return module


oracle = _oracle()
EVERY = tomllib.loads((ROOT / "docs" / "deviations.toml").read_text(encoding="utf-8"))["deviation"]
LISTED: list[dict[str, Any]] = sorted(
    (e for e in EVERY if not e["ids"][0].startswith("roofline.")),  # those are checked by test_roofline.py
    key=lambda entry: bool(entry["kind"] != "peer_formula"),  # narrow reasons before general ones
)


def _listed(difference: Any) -> int | None:
    """The entry that allows a difference: its id, target and column are named and the kind's own rule holds."""
    for index, entry in enumerate(LISTED):
        if (
            difference.arch in entry["gpus"]
            and difference.field in entry["fields"]
            and any(fnmatch.fnmatchcase(difference.id, pattern) for pattern in entry["ids"])
            and _fits(entry["kind"], difference)
        ):
            return index
    return None


def _fits(kind: str, difference: Any) -> bool:
    """What a kind of deviation allows beyond its name."""
    reason, empty = difference.reason or "", difference.ours == ""
    if kind == "no_timing":
        return empty and "timing" in reason and difference.case.startswith("vcopy__MI300")
    if kind == "no_clock":
        return empty and (difference.field in ("Peak", "Pct of Peak") or "max_sclk" in reason)
    if kind == "zero_denominator":
        return not empty or "denominator is zero" in reason or "no value" in reason
    if kind == "clamped":
        return not empty and difference.theirs != ""
    return True


def test_all_values_agree_or_are_listed(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    store, cells, unlisted, used = Store(tmp_path_factory.mktemp("oracle")), 0, [], Counter[int]()
    for case in oracle.cases():
        count, different = oracle.compare(store, case)
        cells += count
        for difference in different:
            index = _listed(difference)
            if index is None:
                unlisted.append(difference)
            else:
                used[index] += 1
    listed = f"{sum(used.values())} differ as listed in {len(LISTED)} entries"
    print(f"{cells} cells compared, {listed}, {len(unlisted)} unlisted")
    assert unlisted[:20] == []
    assert cells > 250_000
    assert [LISTED[i]["ids"] for i in range(len(LISTED)) if not used[i]] == [], "entries that no longer differ"
