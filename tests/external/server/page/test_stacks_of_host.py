"""The stacks of the host in a real browser: the icicle is walked, enlarged and searched, and paths are shortened."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server.mcp.toolbox import functions
from rooflens.server.page.build import page
from rooflens.tests.support import timelines
from rooflens.tests.support.browser import PROGRAM, Browser
from rooflens.tools.report.collect import collect

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs Chromium (apt-get install chromium)")
MS = 1_000_000
HOSTILE = "<img/src=x/onerror=alert(1)>"
SPAWN = "<string>(1): <module>/multiprocessing/spawn.py(122): spawn_main/app/train.py(9): main"
CANVAS = "document.querySelector('#host_stacks canvas')"
STATUS = "document.querySelector('#host_stacks [role=status]').innerText"
TABLE = "document.querySelector('#host_stacks table').innerText"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a program with certain steps, a library in two packages, a second thread, and a hostile function."""
    made = timelines.Made()
    load = made.stack("main train.py:9", "read lib/torch/data.py:3", "open lib/image.py:7", "decode lib/image.py:8")
    call, evil = (
        made.stack("main train.py:10", "forward model.py:5"),
        made.stack("<module> train.py:1", f"{HOSTILE} train.py:2"),
    )
    made.host("hipInit", 0, 10 * MS)
    made.range("main", 55 * MS, 75 * MS, path=SPAWN, source="user", depth=1)
    for n in range(6):
        at = (30 + 40 * n) * MS
        made.range("step", at, at + 38 * MS)
        made.launch("k", (at + 10 * MS, at + 11 * MS), (at + 12 * MS, at + 22 * MS))
        made.sample(load, at - 15 * MS, at + 8 * MS)
        made.sample(call, at + 8 * MS, at + 25 * MS)
        made.sample(evil, at, at + 40 * MS, thread=2)
    store = Store(tmp_path_factory.mktemp("store"))
    timelines.publish(store, made, name="training")
    target = tmp_path_factory.mktemp("pages") / "training.html"
    target.write_text(page(collect(store, functions(), ["training"]), "training"), encoding="utf-8")
    return target


def data(browser: Browser) -> dict[str, Any]:
    """What the picture says of itself."""
    browser.settle()
    stated: dict[str, Any] = json.loads(browser.evaluate(f"JSON.stringify({{...{CANVAS}.dataset}})"))
    return stated


def press(browser: Browser, *keys: str) -> None:
    browser.evaluate(f"{CANVAS}.focus()")
    for key in keys:
        browser.key(key)


def test_the_icicle_is_walked_by_keyboard_and_libraries_open(browser: Browser, training: Path) -> None:
    browser.open(training)
    assert browser.problems == [] and data(browser)["boxes"] == "4", "two lines of main, a library, and forward"
    press(browser, "ArrowRight")
    assert "main:9" in browser.evaluate(STATUS) and "/app/train.py:9" in browser.evaluate(STATUS)
    assert "GPU idle" in browser.evaluate(STATUS) and "% of the idle time" in browser.evaluate(STATUS)
    press(browser, "ArrowDown")
    assert "lib: 2 functions of the library in one box" in browser.evaluate(STATUS)
    press(browser, "Enter")
    assert data(browser)["boxes"] == "6", "the frames of the library"
    assert "main:9" in browser.evaluate(STATUS), "what calls it is selected"
    press(browser, "ArrowDown", "ArrowDown", "ArrowDown")
    assert "decode:8" in browser.evaluate(STATUS)
    press(browser, "ArrowUp")
    assert "open:7" in browser.evaluate(STATUS)
    press(browser, "Enter")
    assert data(browser)["zoomed"] and data(browser)["boxes"] == "4", "the callers of open, open itself, and decode"
    press(browser, "Escape")
    assert data(browser)["boxes"] == "4" and data(browser)["zoomed"] == "" and browser.evaluate(STATUS) == ""
    press(browser, "ArrowRight", "ArrowRight")
    assert "main:10" in browser.evaluate(STATUS)


def test_a_click_enlarges_a_box_and_one_on_its_caller_shows_more(browser: Browser, training: Path) -> None:
    browser.open(training)
    box = f"(() => {{ {CANVAS}.scrollIntoView({{block: 'center'}}); const b = {CANVAS}.getBoundingClientRect()"
    x, y, wide = browser.evaluate(f"{box}; return [b.x, b.y, b.width]; }})()")
    browser.drag((x + wide - 10, y + 27), (x + wide - 10, y + 27))
    assert "forward:5" in browser.evaluate(STATUS) and data(browser)["boxes"] == "2"
    browser.drag((x + 20, y + 9), (x + 20, y + 9))
    assert "main:10" in browser.evaluate(STATUS) and data(browser)["zoomed"].count("/") == 1
    browser.evaluate(
        "[...document.querySelectorAll('#host_stacks button')].find((b) => b.innerText === 'Show all').click()"
    )
    assert data(browser)["boxes"] == "4"


def test_measure_thread_and_step_select_what_is_shown(browser: Browser, training: Path) -> None:
    browser.open(training)
    first, second, third = (f"#host_stacks .controls label:nth-of-type({n}) select" for n in (1, 2, 3))
    assert HOSTILE not in browser.evaluate(TABLE), "the GPU does not wait for it"
    browser.enter(first, "time")
    browser.enter(second, "all")
    assert data(browser)["boxes"] == "6" and HOSTILE in browser.evaluate(TABLE)
    browser.enter(second, "1")
    assert data(browser)["boxes"] == "2" and HOSTILE in browser.evaluate(TABLE)
    before = browser.evaluate(TABLE)
    browser.enter(third, "2")
    assert "step 2" in browser.evaluate(f"document.querySelector('{third}').selectedOptions[0].innerText")
    assert browser.evaluate(TABLE) != before
    assert browser.problems == [], "nothing of the profile acts"


def test_the_search_highlights_functions_and_files(browser: Browser, training: Path) -> None:
    browser.open(training)
    browser.enter("#host_stacks input[type=search]", "MODEL.py")
    assert data(browser)["matching"] == "1"
    browser.enter("#host_stacks input[type=search]", "decode")
    assert data(browser)["matching"] == "1", "a folded library holds it"


def test_it_fits_a_narrow_screen_and_paper(browser: Browser, training: Path) -> None:
    browser.open(training, width=500, dark=True)
    assert browser.evaluate("document.documentElement.scrollWidth") <= 500
    assert browser.evaluate(f"{CANVAS}.getBoundingClientRect().width") <= 500
    assert browser.evaluate(f"{CANVAS}.getBoundingClientRect().height") == 2 * 18 + 1
    assert browser.printed().startswith(b"%PDF")


def test_long_paths_of_calls_show_their_last_element_and_all_on_focus(browser: Browser, training: Path) -> None:
    browser.open(training)
    browser.evaluate("for (const each of document.querySelectorAll('#timeline details')) each.open = true")
    browser.settle()
    cell = "[...document.querySelectorAll('#timeline td')].find((c) => c.innerText === '…/train.py(9): main')"
    browser.wait(f"Boolean({cell})")
    browser.evaluate(f"{cell}.firstChild.focus()")
    assert browser.evaluate("document.querySelector('.tip.fixed').innerText") == SPAWN
    assert not browser.evaluate("document.querySelector('#timeline').innerText").count("spawn_main")


def test_a_page_with_10_000_samples_opens_in_two_seconds(browser: Browser, tmp_path: Path) -> None:
    made, numbers = timelines.Made(), random.Random(48)
    stacks = [
        made.stack(*(f"f{numbers.randrange(12)} own{depth}.py:{numbers.randrange(1, 40)}" for depth in range(18)))
        for _ in range(1500)
    ]
    for n in range(10_000):
        made.sample(numbers.choice(stacks), n * MS, (n + 1) * MS, thread=1 + n % 4)
    for n in range(2_000):
        at = 5 * n * MS
        made.launch(f"k{n % 7}", (at, at + MS), (at + MS, at + 3 * MS))
    store = Store(tmp_path / "store")
    timelines.publish(store, made, name="many")
    target = tmp_path / "many.html"
    target.write_text(page(collect(store, functions(), ["many"]), "many"), encoding="utf-8")
    began = time.monotonic()
    browser.open(target)
    browser.wait(f"{CANVAS} && {CANVAS}.height > 0")
    assert time.monotonic() - began < 2
    assert "f" in browser.evaluate(TABLE)
