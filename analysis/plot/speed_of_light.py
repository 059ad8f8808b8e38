"""Speed of light as a picture: what each subsystem reached as a share of its peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .bars import Row, panel
from .style import FAINT, LINE, TITLE, WIDTH, Page, page, shortened, wrapped

_TOP, _EACH = 62, 19.0


@dataclass(frozen=True)
class Scene:
    """All that the picture shows; every row has one value."""

    title: str
    subtitle: str
    rows: Sequence[Row]
    statements: Sequence[str]


def draw(scene: Scene) -> Page:
    """The picture of a scene."""
    below = wrapped(scene.statements, WIDTH - 40)
    tall = _EACH * len(scene.rows)
    made = page(_TOP + tall + 50 + LINE * len(below) + 8)
    made.text(14, 12, shortened(scene.title, WIDTH - 30, TITLE, bold=True), fontsize=TITLE, weight="bold", kind="head")
    made.text(14, 34, shortened(scene.subtitle, WIDTH - 30), color=FAINT, kind="head")
    panel(made, scene.rows, _TOP, _EACH, WIDTH)
    made.lines(14, _TOP + tall + 46, below, WIDTH, color=FAINT, kind="statement")
    return made
