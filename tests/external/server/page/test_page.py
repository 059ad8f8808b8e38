"""The page in a real browser: it loads, answers clicks and keys, obeys its policy, and nothing in a profile acts."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server.mcp.toolbox import functions
from rooflens.server.page.build import pack_document, page
from rooflens.tests.support import recordings, rooflines, timelines
from rooflens.tests.support.browser import PROGRAM, READY, Browser
from rooflens.tools.base.results import table
from rooflens.tools.report.collect import collect

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs Chromium (apt-get install chromium)")
KERNELS, SOME, LAUNCHES = 200, 120, 8_000
HOSTILE = (
    "</script><script>alert('one')</script>",
    "<img src=x onerror=alert('two')>",
    "\"' onmouseover=alert('three') x='",
    "javascript:alert('four')//${alert(5)}`",
    "\u05e7\u05e8\u05e0\u05dc \u202eevil",
    "n" * 10_000,
    "y" * 120 + "<img src=x onerror=alert('six')>",
)
FIRST = "document.querySelector('#kernels tbody tr').innerText"
ROWS = "document.querySelectorAll('#kernels tbody tr').length"
SORTED = "document.querySelector('#kernels th').getAttribute('aria-sort')"
PAPER, DARK = "getComputedStyle(document.body).backgroundColor", "rgb(20, 23, 26)"
BEFORE = "document.querySelectorAll('#roofline .point.before').length"
POINTS = "document.querySelectorAll('#roofline .point').length"
TICKS = "[...document.querySelectorAll('#roofline svg text.soft')].map((t) => t.textContent).join()"
ARROWS = "Number(document.querySelector('#timeline canvas').dataset.arrows)"
SUMS = "document.querySelector('#timeline .sums')"
SPAN = "Number(document.querySelector('#timeline canvas').dataset.span)"
Pages = Callable[..., Path]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Many kernels with all counters, hostile ones, two versions of one kernel, and a long timeline."""
    made = Store(tmp_path_factory.mktemp("store"))
    counters = rooflines.counters("gfx90a")

    def row(name: str, number: int, scale: float = 1.0) -> dict[str, Any]:
        counted = {c: float((number * 7 + n * 13) % 997 + 1) * 100 for n, c in enumerate(counters)}
        return {"kernel": name, "duration_ns": (1_000 + 10.0 * number) * scale, **counted}

    many = [row(f"void kernel_{n}<float, Policy<{n}>>(float const*, int)", n) for n in range(KERNELS)]
    rooflines.publish(made, many, name="many")
    rooflines.publish(made, many[-SOME:], name="some")
    rooflines.publish(made, [row(name, n) for n, name in enumerate(HOSTILE)], name="<b>hostile</b>")
    rooflines.publish(made, [row("k", 5), row("other", 1)], name="before")
    recordings.stored(made, recordings.KERNELS, "nvidia")
    lds = [c for c in rooflines.counters("gfx90a") if "LDS" in c]
    rooflines.publish(made, [row("k", 5)], without=lds, name="few counters")
    steps = timelines.Made()
    steps.host("hipInit", 0, 50_000_000)
    for n in range(12):
        at = 60_000_000 + n * 1_000_000
        steps.range("step", at, at + 900_000)
        steps.launch("k", (at, at + 1_000), (at + 2_000, at + 800_000))
    timelines.publish(made, steps, name="steps")
    rooflines.publish(made, [row("k", 5, 0.5), row("other", 1, 0.5)], name="after")
    timeline, at = timelines.Made(), 0
    for n in range(LAUNCHES):
        length = 500 + n * 7919 % 3_000
        timeline.launch(f"busy_{n % KERNELS}", (at, at + 900), (at + 1_000, at + 1_000 + length))
        timeline.range(f"step{n % 9}", at, at + 1_200, depth=n % 3)
        at += 1_500 + length
    timelines.publish(made, timeline, name="long")
    return made


@pytest.fixture(scope="module")
def pages(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Pages:
    """Writes the page of some workloads, once."""
    folder, written = tmp_path_factory.mktemp("pages"), dict[tuple[str, ...], Path]()

    def of(*words: str) -> Path:
        if words not in written:
            written[words] = folder / f"{len(written)}.html"
            written[words].write_text(page(collect(store, functions(), words), words[0]), encoding="utf-8")
        return written[words]

    return of


def test_hundreds_of_kernels_and_24000_events_are_shown_at_once_and_ask_for_nothing(
    browser: Browser, pages: Pages
) -> None:
    for words, shown in ((("many",), POINTS), (("long",), "document.querySelectorAll('#timeline canvas').length")):
        path = pages(*words)
        browser.open(path)
        assert browser.problems == []
        assert set(browser.requested) == {path.as_uri()}
        assert browser.evaluate(shown) > 0
        assert browser.evaluate("document.querySelectorAll('*').length") < 6_000, "rows that nobody sees are not made"
        # A fraction of a second; docs/reference/benchmarks.md has it. This only tells an endless loop.
        assert browser.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd") < 20_000


def test_tables_sort_filter_and_show_more_by_mouse_and_keyboard(browser: Browser, pages: Pages) -> None:
    browser.open(pages("some"))
    assert "kernel_199" in browser.evaluate(FIRST), "the longest first"
    rank = "#kernels th[data-at='0'] button"
    browser.click(rank)
    assert browser.evaluate(SORTED) == "descending"
    assert "kernel_80" in browser.evaluate(FIRST)
    browser.evaluate(f'document.querySelector("{rank}").focus()')
    browser.key("Enter")
    assert browser.evaluate(SORTED) == "ascending"
    assert "kernel_199" in browser.evaluate(FIRST)
    assert browser.evaluate(ROWS) == 50
    browser.evaluate("document.querySelector('#kernels .scroll ~ button').click()")
    assert browser.evaluate(ROWS) == SOME
    browser.enter("#kernels input[type=search]", "KERNEL_14 float")
    assert browser.evaluate(ROWS) == 10
    assert "10 of 10 matching rows, 120 rows" in browser.evaluate("document.querySelector('#kernels').innerText")


def test_the_roofline_zooms_switches_and_is_walked_by_keyboard(browser: Browser, pages: Pages) -> None:
    browser.open(pages("before", "after"))
    assert browser.evaluate("document.querySelector('main details.section').id") == "comparison"
    lead = browser.evaluate("document.querySelector('#comparison .lead').innerText")
    assert lead.startswith("Both did the same work: ")
    points, hollow = browser.evaluate(POINTS), browser.evaluate(BEFORE)
    assert points == 2 * hollow > 0, "as many before as after"
    assert browser.evaluate("document.querySelectorAll('#roofline .moved').length") == hollow
    browser.click("#roofline input[value='l2']")
    assert browser.evaluate(POINTS) == points * 3 // 4, "one of four levels is switched off"
    browser.click("#roofline fieldset:last-of-type input[value='0']")
    assert browser.evaluate(BEFORE) == 0
    ticks = browser.evaluate(TICKS)
    x, y = browser.middle("#roofline svg")
    browser.drag((x - 150, y - 80), (x + 150, y + 80))
    assert browser.evaluate(TICKS) != ticks and browser.evaluate("document.querySelector('.select')") is None
    browser.evaluate("document.querySelector('#roofline svg').focus()")
    browser.key("0")
    assert browser.evaluate(TICKS) == ticks
    browser.key("+")
    assert browser.evaluate(TICKS) != ticks
    browser.key("0")
    browser.key("ArrowRight")
    told = browser.evaluate("document.querySelector('#roofline .told').innerText")
    assert told.startswith("after: #1 k\nHBM, floating point: ")
    browser.key("ArrowRight")
    assert browser.evaluate("document.querySelector('#roofline .told').innerText") != told
    assert browser.evaluate("document.querySelectorAll('#roofline .point.chosen').length") == 1
    browser.enter("#roofline select", "instructions")
    assert "instructions per byte" in browser.evaluate("document.querySelector('#roofline svg').textContent")
    assert browser.problems == []


def test_the_timeline_zooms_steps_and_highlights(browser: Browser, pages: Pages) -> None:
    browser.open(pages("long"))
    canvas = "document.querySelector('#timeline canvas')"
    picture = f"{canvas}.toDataURL()"
    whole = browser.evaluate(picture)
    browser.evaluate(f"{canvas}.focus()")
    browser.key("+")
    first = browser.evaluate(SPAN)
    browser.key("+")
    assert 0 < browser.evaluate(SPAN) < first and browser.evaluate(picture) != whole
    browser.key(".")
    told = browser.evaluate("document.querySelector('#timeline .told').innerText")
    assert "kernel, " in told and "GPU 0, stream 7" in told
    browser.key(".")
    assert browser.evaluate("document.querySelector('#timeline .told').innerText") != told
    x, y = browser.middle("#timeline canvas")
    browser.drag((x - 50, y), (x + 50, y))
    assert browser.evaluate(SPAN) < first / 4
    browser.evaluate(f"{canvas}.focus()")
    for _ in range(9):
        browser.key("w")
    assert 0 < browser.evaluate(ARROWS) <= 60, "the few launches in view have arrows"
    sums = browser.evaluate(f"{SUMS}.innerText")
    assert sums.startswith("Visible: ") and "kernel " in sums and "api " in sums
    browser.key("d")
    assert browser.evaluate(f"{SUMS}.innerText") != sums, "totals follow the view"
    browser.evaluate(f"{canvas}.focus()")
    browser.key("0")
    whole = browser.evaluate(picture)
    browser.enter("#timeline input", "busy_199")
    assert browser.evaluate(picture) != whole
    assert browser.problems == []


def test_the_timeline_opens_on_the_analysed_part_and_sums_a_selection(browser: Browser, pages: Pages) -> None:
    browser.open(pages("steps"))
    opened = browser.evaluate(SPAN)
    assert opened < 20_000_000, "without the 50 ms before the first step"
    browser.evaluate("document.querySelector('#timeline canvas').focus()")
    browser.key("0")
    assert browser.evaluate(SPAN) > 60_000_000
    browser.key("1")
    assert browser.evaluate(SPAN) == opened
    x, y = browser.middle("#timeline canvas")
    browser.drag((x - 50, y), (x + 50, y), shift=True)
    assert browser.evaluate(SPAN) == opened, "a selection does not zoom"
    assert browser.evaluate(f"{SUMS}.innerText").startswith("Selected: ")
    browser.key("Escape")
    assert browser.evaluate(f"{SUMS}.innerText").startswith("Visible: ")


def test_a_kernels_row_opens_its_account_its_memory_chart_and_its_findings(browser: Browser, pages: Pages) -> None:
    browser.open(pages("nvidia"))
    heads = browser.evaluate("[...document.querySelectorAll('#kernels th button')].map((b) => b.textContent)")
    assert {"total", "limited by", "gain, at most", "confidence"} <= set(heads)
    assert browser.evaluate("document.querySelector('#kernel-2').open") is False
    browser.click("#kernels a[href='#kernel-2']")
    assert browser.evaluate("document.querySelector('#kernel-2').open") is True
    card = browser.evaluate("document.querySelector('#kernel-2').innerText")
    assert all(part in card for part in ("The lifetime of its warps", "Memory traffic", "Findings"))
    flows = browser.evaluate("[...document.querySelectorAll('#kernel-2 .flow text')].map((t) => t.textContent)")
    assert sum(text.endswith("GB/s") for text in flows) >= 5
    assert browser.problems == []


def test_a_flow_without_a_value_is_dashed_and_says_why_on_focus(browser: Browser, pages: Pages) -> None:
    browser.open(pages("few counters"))
    lost = "document.querySelector('#kernel-1 .flow.lost')"
    assert browser.evaluate(f"{lost}.querySelector('text').textContent") == "–"
    browser.evaluate(f"{lost}.focus()")
    tip = browser.evaluate("document.querySelector('.tip.fixed').innerText")
    assert "no value (not collected)" in tip and "missing" in tip
    browser.key("Escape")
    assert browser.evaluate("document.querySelector('.tip.fixed').hidden") is True
    term = "document.querySelector('#speed_of_light .term')"
    browser.evaluate(f"{term}.focus()")
    assert browser.evaluate("document.querySelector('.tip.fixed').innerText.length") > 40, "the catalogue's description"


def test_charts_without_data_are_left_out_and_the_reason_is_told(browser: Browser, pages: Pages) -> None:
    browser.open(pages("steps"))
    sections = browser.evaluate("[...document.querySelectorAll('details.section')].map((s) => s.id)")
    assert not {"roofline", "speed_of_light", "occupancy", "comparison"} & set(sections)
    warnings = browser.evaluate("document.querySelector('#warnings').innerText")
    reasons = [line for line in warnings.splitlines() if line.startswith("No ") and "speed of light" in line]
    assert len(reasons) == 1 and "roofline of operations" in reasons[0] and "not stated in the profile" in reasons[0]


def test_hot_lines_stand_next_to_the_instructions_made_of_them(browser: Browser, store: Store, tmp_path: Path) -> None:
    report = collect(store, functions(), ["before"])
    lines = table({"line": None, "pct": "%", "why": None}, [["k.cu:12", 71.5, "memory 99 %"], ["k.cu:9", 3.0, None]])
    source = table({"line": None, "text": None}, [[12, "</pre><b>x[i] = y[i];"]])
    code = table(
        {"line": None, "pct": "%", "why": None, "instruction": None},
        [
            ["k.cu:12", 60.0, None, "0x20 FADD R1"],
            ["k.cu:9", 3.0, None, "0x10 LDG R2"],
            ["k.cu:12", 11.5, None, "0x30 X"],
        ],
    )
    answer: dict[str, Any] = {"number": "1", "kernel": "k", "answer": "k.cu:12 takes 71.5 %.", "notes": []}
    tables = {"hotspots": lines, "loops": table({}, []), "source": source}
    answer |= {name: each.model_dump() for name, each in tables.items()}
    called = {"key": "hotspots", "tool": "find_hotspots", "arguments": {}}
    report["workloads"][0]["hotspots"] = [{**called, "answer": answer, "instructions": code.model_dump()}]
    target = tmp_path / "lines.html"
    target.write_text(page(report), encoding="utf-8")
    browser.open(target)
    shown = browser.evaluate("document.querySelector('#kernel-1 .panes').innerText")
    assert "k.cu:12" in shown and "</pre><b>x[i] = y[i];" in shown
    rows = "[...document.querySelectorAll('#kernel-1 .panes > :nth-child(2) tr')]"
    assert browser.evaluate(f"{rows}.map((r) => r.cells[0].textContent)") == ["0x10", "0x20", "0x30"], "by address"
    heat = browser.evaluate(f"{rows}.map((r) => getComputedStyle(r.cells[1]).backgroundColor)")
    assert len(set(heat)) == 3
    browser.click("#kernel-1 .panes [data-line='k.cu:12'] button")
    assert browser.evaluate(f"{rows}.map((r) => r.classList.contains('marked'))") == [False, True, True]
    assert browser.problems == []


def test_hostile_names_are_shown_and_do_nothing(browser: Browser, pages: Pages) -> None:
    browser.open(pages("<b>hostile</b>", "before"))
    browser.enter("header select", browser.evaluate("document.querySelector('select option').value"))
    assert browser.evaluate("document.querySelector('select option').textContent") == "<b>hostile</b>"
    browser.evaluate("document.querySelectorAll('button.name').forEach((b) => b.click())")
    names = browser.evaluate("[...document.querySelectorAll('#kernels .name')].map((e) => e.textContent)")
    assert {*HOSTILE[:4], HOSTILE[-1]} <= set(names)
    assert not any("\u202e" in name for name in names)
    elements = browser.evaluate("[...document.querySelectorAll('*')].map((e) => e.localName)")
    assert not set(elements) & {"img", "iframe", "object", "embed", "link", "base", "form"}
    assert elements.count("script") == 2
    attributes = browser.evaluate("[...document.querySelectorAll('*')].flatMap((e) => e.getAttributeNames())")
    assert not [name for name in attributes if name.startswith("on")]
    assert browser.evaluate("document.documentElement.scrollWidth") <= 1_200, "a long name widens nothing"
    assert browser.problems == [], "no dialog, no error, nothing that the policy had to refuse"


def test_the_policy_refuses_what_the_page_does_not_bring(browser: Browser, pages: Pages) -> None:
    browser.open(pages("before", "after"))
    for attempt in (
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.acted = 1'}))",
        "document.body.insertAdjacentHTML('beforeend', '<i id=bad onclick=\"window.acted = 1\">'); bad.click()",
        "fetch('https://evil.example/').catch(() => 0)",
        "new Image().src = 'https://evil.example/x.png'",
    ):
        browser.problems.clear()
        browser.evaluate(attempt)
        browser.settle()
        assert any("Content Security Policy" in problem for problem in browser.problems), attempt
    assert browser.evaluate("window.acted") is None


def test_narrow_dark_and_printed(browser: Browser, pages: Pages) -> None:
    for words in (("<b>hostile</b>", "before"), ("before", "after")):
        browser.open(pages(*words), width=400, dark=True)
        assert browser.evaluate("document.documentElement.scrollWidth") <= 400, "names of 10,000 characters wrap"
    assert browser.evaluate(PAPER) == DARK
    browser.enter("header label:last-of-type select", "light")
    assert browser.evaluate(PAPER) == "rgb(255, 255, 255)"
    browser.open(pages("some"), dark=True)
    assert browser.evaluate(ROWS) == 50
    assert browser.printed().startswith(b"%PDF")
    assert browser.evaluate(ROWS) == SOME, "paper cannot show more"
    assert browser.evaluate(PAPER) == DARK, "dark again after"


def hosted(folder: Path, **parts: Any) -> Path:
    """A page of a host that shows the app in a frame, with these answers of its own."""
    text = (Path(__file__).parent / "host.html").read_text(encoding="utf-8")
    for name, value in {"PAGE": page(None), **parts}.items():
        text = text.replace(name, json.dumps(value).replace("<", "\\u003c"), 1)
    target = folder / "host.html"
    target.write_text(text, encoding="utf-8")
    return target


INSIDE = "document.querySelector('iframe')?.contentDocument?"


def test_as_an_app_it_reads_the_report_through_its_host(browser: Browser, store: Store, tmp_path: Path) -> None:
    host = hosted(
        tmp_path,
        CAPABILITIES={"serverResources": {}},
        ARGUMENTS={"kind": "compare", "workload": "before", "candidate": "after"},
        RESULT={"content": [{"type": "text", "text": "a picture"}]},
        DATA=base64.b64encode(pack_document(collect(store, functions(), ["before", "after"])).encode()).decode(),
    )
    browser.open(host, ready=READY.replace("document", INSIDE))
    assert "rooflens://report/before/after" in browser.evaluate("said")
    assert "ui/notifications/size-changed" in browser.evaluate("said")
    sections = browser.evaluate(f"[...{INSIDE}.querySelectorAll('details.section')].map((s) => [s.id, s.open])")
    assert sections[0] == ["comparison", True] and not any(opened for _, opened in sections[1:])
    assert browser.evaluate(PAPER.replace("document", INSIDE)) == DARK, "as its host"
    assert browser.problems == []


def test_as_an_app_without_resources_it_shows_what_the_call_answered(
    browser: Browser, store: Store, tmp_path: Path
) -> None:
    from rooflens.tools.compute_roofline import compute_roofline
    from rooflens.tools.rendering.render import structured_content

    host = hosted(
        tmp_path,
        CAPABILITIES={},
        ARGUMENTS={"workload": "before"},
        RESULT={"content": [], "structuredContent": structured_content(compute_roofline(store, "before"))},
        DATA="",
    )
    browser.open(host, ready=f"{INSIDE}.querySelectorAll('.point').length > 0")
    assert "resources/read" not in browser.evaluate("said")
    assert browser.problems == []
