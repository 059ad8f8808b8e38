"""Draws the pictures of the documents from what is shipped: python docs/pictures.py, after a change of how they look.

They are kept in the repository, so that pages have them wherever they are read, and have few colours, so that they
are small. The picture of the report needs Chromium.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from rooflens.analysis.store.store import Store
from rooflens.tools.import_profile import import_profile
from rooflens.tools.plot import plot

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "server" / "samples"
TRACES = ROOT / "eval" / "timelines" / "h200" / "traces.tar"
PROGRAM = "item_small"
PICTURES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "speed_of_light": ("speed_of_light", "h200_kernels", {"kernel": "^transpose_naive"}),
    "roofline": (
        "roofline", "h200_kernels",
        {"kernel": "fma_sweep", "datatype": "f32", "ceiling_source": "theoretical", "kernels": 8},
    ),
    "occupancy": ("occupancy", "clover", {}),
    "timeline": ("timeline", PROGRAM, {}),
}  # fmt: skip
"""Name of the file -> kind of picture, workload, options of the tool plot."""
REPORT = "report"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WINDOW = (1280, 1010)
"""Pixels of the report that are shown: its answer, the bars of its time, and its timeline."""
COLOURS = 64


def main() -> None:
    """Draw them all."""
    target = Path(__file__).parent / "pictures"
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = _filled(Path(folder))
        for name, (kind, workload, options) in PICTURES.items():
            drawn = plot(store, kind, workload, **options)  # type: ignore[arg-type]
            _save(Path(drawn.png_path), target / f"{name}.png")
        _save(_photographed_report(store, Path(folder)), target / f"{REPORT}.png")


def _save(drawn: Path, target: Path) -> None:
    with Image.open(drawn) as picture:
        # Coverage rather than frequency: a thin line keeps its colour.
        few = picture.convert("RGB").quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE)
    few.save(target, optimize=True)
    print(target)


def _photographed_report(store: Store, folder: Path) -> Path:
    """The first screen of the report of the timeline, as a browser shows it."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit("The picture of the report needs Chromium, which is not on PATH")
    page, picture = folder / "report.html", folder / "report.png"
    subprocess.run([sys.executable, "-m", "rooflens", "report", PROGRAM, "-o", str(page), "--store", str(store.root)],
                   check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    # A taller window than the picture: Chromium paints the last rows of a page late.
    options = (
        "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=4000",
        f"--window-size={WINDOW[0]},{2 * WINDOW[1]}", f"--user-data-dir={folder / 'browser'}",
        f"--screenshot={picture}",
    )  # fmt: skip
    subprocess.run([browser, *options, page.as_uri()], check=True, stderr=subprocess.DEVNULL, timeout=120)
    with Image.open(picture) as whole:
        whole.crop((0, 0, *WINDOW)).save(picture)
    return picture


def _filled(folder: Path) -> Store:
    store = Store(folder / "store")
    with tarfile.open(TRACES) as traces:
        packed = traces.extractfile(f"{PROGRAM}.record.gz")
        assert packed is not None
        record = folder / f"{PROGRAM}.record"
        record.write_bytes(gzip.decompress(packed.read()))
    import_profile(store, str(record), name=PROGRAM)
    for name in {workload for _, workload, _ in PICTURES.values()} - {PROGRAM}:
        import_profile(store, str(SAMPLES / name), name=name)
    return store


if __name__ == "__main__":
    main()
