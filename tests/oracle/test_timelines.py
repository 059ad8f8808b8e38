"""Shares of the time of further published traces."""

from __future__ import annotations

from pathlib import Path

from rooflens.tests.cases.published.test_timelines import Analysed, analysed, check_shares

__all__ = ["analysed"]


def test_shares_are_those_of_an_independent_computation(shared: Path, analysed: Analysed) -> None:
    check_shares(shared, analysed, "tracelens/resnet_act_checkpoint/resnet_act_checkpoint")
