"""Pictures: what they show, that no text collides or leaves the figure, and that they equal the stored ones."""

from __future__ import annotations

import io
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import cache

import matplotlib
import pytest
from matplotlib.figure import Figure

from rooflens.analysis.comparison.work import Answer
from rooflens.analysis.occupancy import occupancy
from rooflens.analysis.plot import bars, roofline
from rooflens.analysis.plot import occupancy as residency
from rooflens.analysis.plot.bars import BarPicture, Row, Time, Value
from rooflens.analysis.plot.roofline_content import Dot, KernelListLine, Roof, RooflinePicture
from rooflens.analysis.plot.style import LEVELS, WIDTH, Picture, clean, render, shorten_name, width_of
from rooflens.tests.support.pictures import collisions, difference, outside, texts

MEASURED = "measured, a benchmark, 2026-11-20"
ROOFS = [
    *(Roof(f"{n}.bw", v, "GB/s", MEASURED) for n, v in
      (("hbm", 1407.0), ("l2", 4981.0), ("vl1d", 9224.0), ("lds", 20882.0))),
    *(Roof(n, v, "GFLOP/s", MEASURED) for n, v in
      (("valu.f32", 21056.0), ("valu.f64", 20438.0), ("matrix.f32", 41420.0), ("matrix.f64", 41376.0),
       ("matrix.f16", 164858.0), ("matrix.bf16", 169508.0), ("valu.f32_packed", 42112.0))),
    Roof("valu.f16", 21056.0, "GFLOP/s", "derived from a measured ceiling"),
]  # fmt: skip
DOTS = [
    Dot(1, "hbm", "flop", 0.25, 300.0, 1200.0),
    Dot(1, "l2", "flop", 0.2, 300.0, 1500.0),
    Dot(1, "vl1d", "flop", 0.1, 300.0, 3000.0),
    Dot(1, "lds", "flop", None, 300.0, 0.0),
    Dot(2, "hbm", "flop", 128.0, 19000.0, 150.0),
    Dot(2, "l2", "flop", 128.0, 19000.0, 150.0),
    Dot(2, "vl1d", "iop", 64.0, 9000.0, 310.0),
    Dot(3, "hbm", "flop", 129.0, 19100.0, 150.0, doubtful=True),
]
HOSTILE = "$\\frac{x}$ <script>&amp; --> \x1b[31m\u202e kernel_\u4e2d " + "T" * 500


def shown(**changes: object) -> RooflinePicture:
    """A roofline of three kernels, changed as asked."""
    kernels = [
        KernelListLine(1, "void stream<double>(double*, double const*)", 60.0, "memory (hbm), 85.3 % of its roof"),
        KernelListLine(2, "void fma<float>(float*)", 30.0, "compute (valu), 90.2 % of its roof"),
        KernelListLine(3, HOSTILE, 10.0, "compute (valu)"),
    ]
    given = {
        "title": "Roofline of made-up", "device": "MI250X (gfx90a); measured ceilings", "unit": "GFLOP/s",
        "intensity_unit": "operations / byte", "roofs": ROOFS, "dots": DOTS, "kernels": kernels,
        "statements": ["No point at LDS for kernel 1: no traffic at this level."],
    }  # fmt: skip
    return RooflinePicture(**{**given, **changes})  # type: ignore[arg-type]


def occupied(gpu: str = "gfx90a", achieved: float | None = 9.5, **launch: int) -> residency.OccupancyPicture:
    """A launch with its sweeps."""
    base = {"vgprs": 72, "agprs": 0, "sgprs": 40, "lds_bytes": 12288, "workgroup_size": 256} | launch
    resident = occupancy(gpu, **base)  # type: ignore[arg-type]
    sweeps = residency.sweeps(resident)
    return residency.OccupancyPicture("Occupancy", HOSTILE, resident, sweeps, achieved, ["A note."])


ROWS = [
    Row("valu", "Floating-point rate", "GFLOP/s", [Value(10000.0, 41.8)]),
    Row("valu", "Utilization", "%", [Value(99.0, 99.0)]),
    Row("divergence", "Lanes per VALU instruction", "threads", [Value(456.8, 713.7, "impossible")]),
    Row("vl1d", "Hit rate", "%", [Value(-246.6, -246.6, "impossible")]),
    Row("l2", "Bandwidth", "GB/s", [Value(656.0, 9.42)]),
    Row("fabric", "Read bandwidth", "GB/s", [Value(652.7, 39.8)]),
]
PAIRS = [Row(r.subsystem, r.title, r.unit, [r.values[0], None if i % 2 else Value(1.0, 20.0)])
         for i, r in enumerate(ROWS)]  # fmt: skip
TIMES = (Time("before", 13164269.0, 1), Time("after", 391000.0, 2))
PICTURES: dict[str, Callable[[], Figure]] = {
    "roofline.png": lambda: roofline.draw(shown()),
    "occupancy.png": lambda: residency.draw(occupied()),
    "speed_of_light.png": lambda: bars.draw(BarPicture("Speed of light", "MI250X", ROWS, ["A note."])),
    "compare.png": lambda: bars.draw(BarPicture("before → after", "MI250X", PAIRS, ["A note."], TIMES)),
}
OTHERS: dict[str, Callable[[], Figure]] = {
    "no roofs": lambda: roofline.draw(shown(roofs=[])),
    "no compute roofs": lambda: roofline.draw(shown(roofs=ROOFS[:4])),
    "no dots": lambda: roofline.draw(shown(dots=[])),
    "tracks": lambda: roofline.draw(shown(dots=[Dot(1, n, "flop", None, None, 653.0) for n in LEVELS])),
    "equal bandwidths": lambda: roofline.draw(
        shown(roofs=[Roof(r.name, 5000.0, r.unit, r.origin) if r.unit == "GB/s" else r for r in ROOFS])
    ),
    "a crowd": lambda: roofline.draw(
        shown(dots=[Dot(k, n, "flop", 1.0 + 0.02 * k + i, 900.0 + 9 * k, None)
                    for k in range(1, 6) for i, n in enumerate(LEVELS)],
              kernels=[KernelListLine(k, f"kernel_{k}", 8.0, "unknown") for k in range(1, 6)])
    ),
    "an extreme range": lambda: roofline.draw(
        shown(dots=[Dot(1, "hbm", "flop", 1e-6, 1e-5, None), Dot(2, "lds", "flop", 1e7, 1e5, None)])
    ),
    "NVIDIA": lambda: residency.draw(occupied("sm_90", None, sgprs=0)),
    "AGPRs and no LDS": lambda: residency.draw(occupied("gfx942", agprs=64, lds_bytes=0)),
    "a launch that fails": lambda: residency.draw(occupied(vgprs=256, workgroup_size=1024)),
    "no times": lambda: bars.draw(
        BarPicture(HOSTILE, HOSTILE, PAIRS, [HOSTILE], (Time(HOSTILE, None, 0), Time("b", None, 3)))
    ),
    "only times": lambda: bars.draw(BarPicture("a", "b", [], ["Nothing else."], TIMES)),
}  # fmt: skip


@cache
def drawn(name: str) -> Picture:
    """One of the pictures, drawn once for all that look at it."""
    return render((PICTURES | OTHERS)[name])


SHOWN = ("speed_of_light.png", "occupancy.png", "a crowd")
"""Pictures whose texts are examined here; tests/oracle examines the others."""


@pytest.mark.parametrize("name", SHOWN)
def test_no_text_leaves_the_figure_or_covers_another(name: str) -> None:
    check_texts(name)


def check_texts(name: str) -> None:
    """Fail if a text leaves the figure or covers another."""
    assert outside(drawn(name)) == []
    assert collisions(drawn(name)) == []


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_equal_the_stored_ones(name: str) -> None:
    mean, worst = difference(drawn(name).png, name)
    assert mean < 1.5, f"{name} differs by {mean:.2f} grey levels on average: look at it, then store it anew"
    assert worst < 45, f"a part of {name} differs by {worst:.0f} grey levels: look at it, then store it anew"


def test_the_axes_are_logarithmic_with_units_and_a_point_for_each_that_has_a_place() -> None:
    axes = drawn("roofline.png").figure.axes[-1]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlabel() == "Intensity (operations / byte)"
    assert axes.get_ylabel() == "Performance (GFLOP/s)"
    points = [line for line in axes.lines if str(line.get_gid()).startswith("point-")]
    assert len(points) == sum(d.is_drawable for d in DOTS) == 7
    for line in points:
        hollow = line.get_markerfacecolor() == "white"
        level = str(line.get_gid()).split("-")[2]
        assert (line.get_markeredgecolor() if hollow else line.get_markerfacecolor()) == LEVELS[level]
    for line in axes.lines:
        if str(line.get_gid()).startswith("level-"):
            assert line.get_color() == LEVELS[str(line.get_gid()).removeprefix("level-")]


@pytest.mark.parametrize("name", ["roofline.png", "a crowd"])
def test_every_kernel_with_a_point_has_its_number_inside_the_axes(name: str) -> None:
    figure = drawn(name).figure
    figure.draw_without_rendering()
    axes = figure.axes[-1]
    labels = [text for text in axes.texts if text.get_weight() == "bold"]
    named = set()
    for text in labels:
        for part in text.get_text().split(","):
            first, _, last = part.partition("-")
            named.update(range(int(first), int(last or first) + 1))
    points = [str(line.get_gid()) for line in axes.lines if str(line.get_gid()).startswith("point-")]
    assert named == {int(gid.split("-")[1]) for gid in points}
    inside = axes.get_window_extent().padded(2)
    boxes = [text.get_window_extent() for text in labels]
    assert all(inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1) for box in boxes)


def test_what_has_bandwidth_only_is_drawn_as_the_line_on_which_it_lies() -> None:
    with matplotlib.rc_context({"text.parse_math": False}):
        axes = OTHERS["tracks"]().axes[-1]
    tracks = [line for line in axes.lines if str(line.get_gid()).startswith("track-")]
    assert len(tracks) == len(LEVELS)
    x, y = (values[0] for values in tracks[0].get_data())
    assert float(y) / float(x) == pytest.approx(653.0)


def test_untrusted_names_are_drawn_as_they_are_in_well_formed_svg() -> None:
    made = drawn("occupancy.png")
    ET.fromstring(made.svg)
    assert b"<script" not in made.svg
    names = [words for words, _ in texts(made) if "frac" in words]
    assert names and "$" in names[0] and "\u202e" not in names[0] and "\x1b" not in names[0]


def test_the_kernel_stands_on_every_curve_of_occupancy() -> None:
    marked, figure = occupied(), drawn("occupancy.png").figure
    assert [a.get_xlabel() for a in figure.axes] == [
        "VGPRs per work-item", "LDS per work-group (KiB)", "Work-group size (work-items)",
    ]  # fmt: skip
    for axes, sweep in zip(figure.axes, marked.sweeps, strict=True):
        assert dict(zip(sweep.xs, sweep.waves, strict=True))[sweep.now] == marked.occupancy.waves_per_cu
        (mark,) = (line for line in axes.lines if line.get_gid() == "kernel")
        assert [float(v) for (v,) in mark.get_data()] == [sweep.now, marked.occupancy.waves_per_cu]  # type: ignore[union-attr]


def test_bars_keep_the_colour_of_their_level_and_hatch_what_is_doubtful() -> None:
    from matplotlib.colors import to_hex

    (axes,) = drawn("speed_of_light.png").figure.axes
    bars = {str(p.get_gid()): p for p in axes.patches}
    assert to_hex(bars["bar-0-l2-Bandwidth"].get_facecolor()) == LEVELS["l2"].lower()
    assert to_hex(bars["bar-0-fabric-Read bandwidth"].get_facecolor()) == LEVELS["hbm"].lower()
    assert bars["bar-0-divergence-Lanes per VALU instruction"].get_hatch()
    assert bars["bar-0-vl1d-Hit rate"].get_width() == 0, "a negative share has no bar"  # type: ignore[attr-defined]
    assert axes.get_xlabel() == "Percent of peak (%)"


def test_a_wider_picture_is_the_same_at_a_higher_resolution() -> None:
    from matplotlib.image import imread

    usual, large = drawn("compare.png"), render(PICTURES["compare.png"], 2 * WIDTH)
    assert imread(io.BytesIO(large.png)).shape[:2] == tuple(2 * n for n in imread(io.BytesIO(usual.png)).shape[:2])
    assert large.svg == usual.svg


def test_threads_and_settings_of_the_user_change_no_picture_and_stay_as_they_are() -> None:
    names = ("compare.png", "speed_of_light.png")
    alone = {name: (drawn(name).png, drawn(name).svg) for name in names}
    found: dict[str, tuple[bytes, bytes]] = {}

    def draw(name: str) -> None:
        made = render(PICTURES[name])
        found[name] = made.png, made.svg

    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black", "text.parse_math": True}):
        before = dict(matplotlib.rcParams)
        threads = [threading.Thread(target=draw, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert dict(matplotlib.rcParams) == before
    assert found == alone
    svg = alone["compare.png"][1]
    assert b"Date" not in svg.replace(b"DateTime", b"") and b"<date>" not in svg


def test_names_are_shortened_in_the_middle_to_the_width_asked_for() -> None:
    name = "void benchmark<HIP_vector_type<float, 2u>, 256, 8u, 512u>(HIP_vector_type<float, 2u>*)"
    short = shorten_name(name, 200)
    assert width_of(short) <= 200 and short.startswith("void bench") and short.endswith(">*)") and "…" in short
    assert shorten_name("f()", 200) == "f()"
    assert clean("a\tb\x00c\u202ed\u4e2d\n") == "a b cd? "


@pytest.mark.parametrize("work", ["yes", "probably", "probably_not", "no", "unknown"])
def test_the_ratio_of_two_times_is_bold_and_inverted_only_for_the_same_work(work: Answer) -> None:
    figure = bars.draw(BarPicture("a", "b", [], ["A note."], TIMES, work))
    ratios = [t for t in figure.findobj(matplotlib.text.Text) if t.get_text().startswith("time ×")]
    assert [t.get_weight() for t in ratios] == ["bold" if work in ("yes", "probably") else "normal"]
    assert ("÷" in ratios[0].get_text()) == (work in ("yes", "probably"))
