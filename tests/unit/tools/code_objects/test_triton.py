"""Where Triton's kernels were written: its first intermediate form states it, as public dumps of it show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rooflens.tests.support.waiting import at_most
from rooflens.tools.code_objects import triton
from rooflens.tools.code_objects.triton import TritonSource, caches, sources

TTIR = """#loc = loc("{file}":{line}:0)
#loc1 = loc(unknown)
#loc25 = loc("{file}":65:29)
module {{
  tt.func public @{name}(%in_ptr0: !tt.ptr<f32> {{tt.divisibility = 16 : i32}} loc("{file}":{line}:0)) {{
"""
BEGAN = 1_800_000_000.0


def _compiled(cache: Path, entry: str, name: str, file: str, line: int, when: float = BEGAN - 9) -> None:
    place = cache / entry / f"{name}.ttir"
    place.parent.mkdir(parents=True)
    place.write_text(TTIR.format(file=file, line=line, name=name))
    os.utime(place, (when, when))


def test_a_kernel_is_found_by_its_name_among_those_of_a_cache(tmp_path: Path) -> None:
    _compiled(tmp_path, "AAA", "_attn_fwd", "/app/attention.py", 31)
    _compiled(tmp_path, "BBB", "_attn_fwd", "/app/attention.py", 31)
    _compiled(tmp_path, "CCC", "other", "/app/other.py", 7)
    names = ["void at::native::reduce_kernel<4>(int)", "_attn_fwd", "absent", "../CCC/other"]
    assert sources(names, [tmp_path, tmp_path / "nowhere"], BEGAN) == [
        TritonSource("_attn_fwd", "/app/attention.py", 31)
    ]


def test_of_two_graphs_kernels_of_one_name_the_run_tells_or_nobody_does(tmp_path: Path) -> None:
    _compiled(tmp_path, "AAA", "triton_poi_fused_add_0", "/tmp/torchinductor_u/aa/ca.py", 18)
    _compiled(tmp_path, "BBB", "triton_poi_fused_add_0", "/tmp/torchinductor_u/bb/cb.py", 18)
    assert sources(["triton_poi_fused_add_0"], [tmp_path], BEGAN) == []
    _compiled(tmp_path, "CCC", "triton_poi_fused_add_0", "/tmp/torchinductor_u/cc/cc.py", 20, BEGAN + 5)
    assert [s.file for s in sources(["triton_poi_fused_add_0"], [tmp_path], BEGAN)] == ["/tmp/torchinductor_u/cc/cc.py"]


def test_what_is_no_such_file_tells_nothing_and_a_large_cache_costs_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "AAA" / "k.ttir").mkdir(parents=True)
    (tmp_path / "BBB").mkdir()
    (tmp_path / "BBB" / "k.ttir").write_bytes(b"\x1f\x8bnot gzip")
    (tmp_path / "CCC").mkdir()
    (tmp_path / "CCC" / "k.ttir").write_text("module {\n}\n")
    assert sources(["k"], [tmp_path], 0) == []
    monkeypatch.setattr(triton, "_ENTRIES", 300)
    for i in range(400):
        (tmp_path / f"E{i}").mkdir()
    with at_most(1):
        assert sources([f"k{i}" for i in range(5)], [tmp_path], 0) == []


def test_the_caches_are_where_the_variables_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inductor" / "triton" / "0").mkdir(parents=True)
    environment = {"HOME": "/home/u", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    assert caches(environment) == [Path("/home/u/.triton/cache"), tmp_path / "inductor" / "triton" / "0"]
    assert caches({**environment, "TRITON_CACHE_DIR": "/c"})[0] == Path("/c")
