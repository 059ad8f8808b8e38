"""rooflens report: where the page is written, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflens.analysis.store.store import Store
from rooflens.server.cli import main
from rooflens.server.page.build import OPENING


def call(store: Store, *words: str) -> int:
    """The exit status of the command line."""
    return main(["report", *words, "--store", str(store.root)])


def test_a_page_is_written_and_replaced(
    samples: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(samples, "yax_before") == 0
    written = tmp_path / "rooflens-yax_before.html"
    assert "rooflens-yax_before.html" in capsys.readouterr().out
    first = written.read_text(encoding="utf-8")
    assert first.startswith(OPENING) and first.endswith("</html>\n")
    assert call(samples, "yax_before", "yax_after", "-o", str(written)) == 0
    assert "yax_before → yax_after" in written.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == [written.name], "no draft stays"


def test_a_file_that_is_no_report_is_left_alone(
    samples: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "thesis.html"
    mine.write_text("years of work")
    assert call(samples, "yax_before", "-o", str(mine)) == 1
    assert "exists and is not a report. Choose a new file" in capsys.readouterr().err
    assert mine.read_text() == "years of work"
    assert call(samples, "yax_before", "-o", str(tmp_path)) == 1


def test_a_dash_writes_to_the_output_and_a_wrong_name_or_folder_gets_advice(
    samples: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(samples, "yax_after", "-o", "-") == 0
    assert capsys.readouterr().out.startswith(OPENING)
    assert call(samples, "yax_aftr") == 1
    assert "Near names: yax_after" in capsys.readouterr().err
    assert call(samples, "yax_after", "-o", str(tmp_path / "none" / "r.html")) == 1
    assert "cannot be written" in capsys.readouterr().err
