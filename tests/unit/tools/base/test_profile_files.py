"""Files of a profile are read in time proportional to their size, however they are compressed."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from rooflens.analysis.base.problems import BadInput
from rooflens.tests.support.waiting import at_most
from rooflens.tools.base.profile_files import check_text, head, open_text


def _read(path: Path) -> bytes:
    with open_text(path) as file:
        return b"".join(iter(lambda: file.read(1 << 20), b""))


@pytest.mark.parametrize("read", [_read, check_text, lambda path: head(path, 100)], ids=["text", "csv", "head"])
@pytest.mark.parametrize("content", [b"", b"a,b\n"], ids=["empty", "tiny"])
def test_a_gzip_of_countless_small_members_is_refused_at_once(tmp_path: Path, read, content: bytes) -> None:
    path = tmp_path / "e.csv.gz"
    path.write_bytes(gzip.compress(content) * 40_000)
    if content and "lambda" in repr(read):
        assert read(path) == (content * 25)[:100], "the beginning is enough"
        return
    with at_most(2.0), pytest.raises(BadInput, match="gzip members"):
        read(path)


def test_members_of_usual_size_are_read_completely_and_zeros_after_them_are_padding(tmp_path: Path) -> None:
    chance = random.Random(1)
    parts = [chance.randbytes(2_000) for _ in range(1050)]
    path = tmp_path / "blocks.gz"
    path.write_bytes(b"".join(gzip.compress(part, 1) for part in parts) + b"\0" * 40_000)
    assert _read(path) == b"".join(parts)
