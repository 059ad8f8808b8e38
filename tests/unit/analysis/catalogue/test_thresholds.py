"""Every threshold is written once, and used."""

from __future__ import annotations

import re

import pytest

from rooflens.analysis.catalogue.thresholds import count_threshold, threshold, thresholds
from rooflens.analysis.engine.evaluation import IMPOSSIBLE_PCT
from rooflens.analysis.rooflines import limits, loads, roofline
from rooflens.tests import ROOT

CODE = "\n".join(p.read_text(encoding="utf-8") for layer in ("analysis", "tools") for p in (ROOT / layer).rglob("*.py"))

CHECKS = (ROOT / "tools" / "profiles" / "checks" / "checks.toml").read_text(encoding="utf-8")


def test_every_threshold_is_used() -> None:
    used = set(re.findall(r'threshold\(\s*"([\w.]+)"', CODE))
    used |= set(re.findall(r"\{t\[(\w[\w.]*)\]\}", CHECKS))
    assert used == set(thresholds())


def test_what_is_impossible_is_the_same_for_a_figure_a_load_and_a_roofline() -> None:
    assert loads.IMPOSSIBLE == IMPOSSIBLE_PCT == 100 * limits._TOO_MUCH == 100 * roofline._IMPOSSIBLE
    assert threshold("figures.impossible_pct") == loads.IMPOSSIBLE


def test_a_count_is_an_integer_and_an_unknown_name_is_an_error() -> None:
    assert isinstance(count_threshold("hotspots.few_samples"), int)
    with pytest.raises(KeyError):
        threshold("figures.no_such_threshold")
