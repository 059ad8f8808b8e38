"""Bounded output: beginning and end are kept, secrets are not."""

from __future__ import annotations

from pathlib import Path

from rooflens.tools.running.child import Capture
from rooflens.tools.running.command import HIDDEN


def test_of_long_output_beginning_and_end_are_kept_and_the_gap_is_counted(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "log", [])
    text = b"".join(f"{n:09d}\n".encode() for n in range(100_000))
    for start in range(0, len(text), 7777):
        capture.feed(text[start : start + 7777])
    kept = capture.text
    assert kept.startswith("000000000\n000000001\n") and kept.endswith("000099999\n")
    told = kept.split("[... ")[1].split(" bytes")[0]
    gap = int(told.replace(",", ""))
    assert len(kept) - len(f"\n[... {told} bytes omitted ...]\n") + gap == len(text)
    capture = Capture(tmp_path / "log", [])
    capture.feed(b"a" * 5_000_000 + b"end")
    assert len(capture.text) < 160_000 and capture.text.endswith("end")


def test_a_secret_is_hidden_wherever_it_falls(tmp_path: Path) -> None:
    secret = "s3cr3t-" * 4
    for before in (0, 16_384 - 10, 16_384, 16_384 + 131_072, 400_000):
        capture = Capture(tmp_path / "log", [secret])
        for piece in (b"x" * before, secret[:5].encode(), secret[5:].encode(), b"y" * 131_060):
            capture.feed(piece)
        assert "s3cr3t" not in capture.text.replace(HIDDEN, "")
