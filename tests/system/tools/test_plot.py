"""plot: files, words and refusals, on the shipped samples and on workloads made for it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.base.problems import BadArgument, BadInput, NotFound
from rooflens.analysis.store.store import Store
from rooflens.analysis.workload import Workload
from rooflens.tests.support.pictures import collisions, outside
from rooflens.tests.support.recordings import stored
from rooflens.tests.support.rooflines import publish
from rooflens.tools.plot import DRAWINGS, RooflineOptions, plot, roofline_drawing
from rooflens.tools.rendering import render

KINDS: tuple[Any, ...] = (None, "flop")
PNG = b"\x89PNG\r\n\x1a\n"
FMA = {"kernel": "fma", "duration_ns": 1e4, "SQ_INSTS_VALU_FMA_F32": 1.5e6, "SQ_INSTS_VALU": 1.6e6,
       "SQ_INSTS_SALU": 1e5, "TCC_EA_RDREQ_sum": 1e4, "TCC_REQ_sum": 2e4, "TCC_READ_sum": 2e4}  # fmt: skip


@pytest.fixture
def own(samples: Store, tmp_path: Path) -> Store:
    """The samples in a store that may be written to."""
    # Servers that other tests start over the samples draw into them.
    return Store(shutil.copytree(samples.root, tmp_path / "own", ignore=shutil.ignore_patterns("plots")))


def test_a_picture_is_stored_in_both_formats_and_is_the_image(own: Store) -> None:
    from matplotlib import pyplot

    found = plot(own, "speed_of_light", "yax_before")
    png, svg = Path(found.png_path), Path(found.svg_path)
    assert found.image == png.read_bytes() and found.image.startswith(PNG)
    assert svg.read_text().startswith("<?xml") and png.parent == svg.parent == own.root / "plots"
    assert png.name.startswith(f"{found.workload}-speed_of_light-")
    again = plot(own, "speed_of_light", "yax_before")
    assert (again.png_path, again.image) == (found.png_path, found.image)
    assert sorted(p.name for p in png.parent.iterdir()) == sorted((png.name, svg.name)), "no drafts, no copies"
    assert not pyplot.get_fignums(), "no figure of pyplot is left open"
    told, shown = render.structured_content(found), render.text(found)
    assert "image" not in told and {"png_path", "svg_path", "description"} <= told.keys()
    assert found.png_path in shown and "PNG\\r" not in shown and len(shown) < 8000
    assert found.model_copy(update={"notes": ["x"]}).image == found.image, "a copy keeps it"


def test_a_gpu_without_flop_counters_gets_the_instruction_roofline(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with Workload(store, publish(store, [FMA], arch="gfx908")) as workload:
        found, asked = (" ".join(roofline_drawing(workload, None, RooflineOptions(kind=kind)).facts) for kind in KINDS)
    assert "gfx908 has no counters of floating-point operations: this is the instruction roofline." in found
    assert "GIPS" in found and 'roofline_kind="instruction"' in asked


def test_real_profiles_give_pictures_in_which_no_text_collides(shared: Path, tmp_path: Path) -> None:
    check_pictures(shared, tmp_path, "vcopy/MI200")


def check_pictures(shared: Path, tmp_path: Path, name: str) -> None:
    """Fail if a text of a picture of a workload leaves the figure or covers another."""
    store = Store(tmp_path)
    made = stored(store, shared / "workloads" / name)
    with Workload(store, made) as workload:
        drawings = [roofline_drawing(workload, None, RooflineOptions(kernels=8))]
        drawings += [DRAWINGS[kind](workload, "#1") for kind in ("speed_of_light", "occupancy")]
    for picture in (one.picture(800) for one in drawings):
        assert outside(picture) == [] and collisions(picture) == []


@pytest.mark.parametrize(
    ("arguments", "problem", "words"),
    [
        ({"kind": "compare", "workload": "yax_before"}, BadArgument, "needs candidate"),
        (
            {"kind": "roofline", "workload": "yax_before", "candidate": "yax_after"},
            BadArgument,
            "does not take candidate",
        ),
        (
            {"kind": "occupancy", "workload": "yax_before", "datatype": "f32"},
            BadArgument,
            "are only for kind='roofline'",
        ),
        ({"kind": "occupancy", "workload": "yax_before"}, BadInput, "does not state the registers"),
        ({"kind": "roofline", "workload": "yax"}, NotFound, "yax_before"),
        ({"kind": "speed_of_light", "workload": "yax_before", "kernel": "no such"}, NotFound, "No kernel"),
        ({"kind": "roofline", "workload": "yax_before", "datatype": "f37"}, BadArgument, "Known: all"),
    ],
)
def test_refusals_say_what_to_do(
    samples: Store, arguments: dict[str, str], problem: type[Exception], words: str
) -> None:
    with pytest.raises(problem, match=words):
        plot(samples, **arguments)  # type: ignore[arg-type]


def test_pictures_of_a_store_that_cannot_be_written_lie_in_a_private_folder(
    own: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (own.root / "plots").write_text("in the way")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = plot(own, "speed_of_light", "yax_before")
    home = Path(found.png_path).parents[1]
    assert home.parent == tmp_path and home.stat().st_mode & 0o077 == 0
    assert "not writable" in found.notes[0] and Path(found.svg_path).exists()
