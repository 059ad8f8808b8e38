"""Profiles with samples of instructions and thread traces of AMD, whole to begin with and then spoilt."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from hypothesis import strategies as st

from rooflens.tests.fuzz.mutations import Draw, octets, packed, table, tree
from rooflens.tests.fuzz.profiles import Spoilt
from rooflens.tests.made import rocprofv3_samples as made_samples
from rooflens.tests.made.rocprofv3_samples import CODE_OBJECT
from rooflens.tests.unit.tools.profiles.rocprofv3 import test_att as traces


@cache
def _document() -> str:
    with tempfile.TemporaryDirectory() as folder:
        few = [made_samples.At(1, 0x1D68, "s_waitcnt vmcnt(0)", "/a.hip:16", "WAITCNT", 2)]
        file = made_samples.as_json(Path(folder) / "1_results.json", samples=few)
        return file.read_text()


@st.composite
def pc_json(draw: Draw) -> Spoilt:
    text = json.dumps(tree(draw, json.loads(_document())), ensure_ascii=draw(st.booleans()))
    files = {"1_results.json": octets(draw, text.encode("utf-8", "surrogatepass"))}
    if draw(st.booleans()):
        files["1_code_object_id_1.out"] = octets(draw, CODE_OBJECT.read_bytes(), 1)
    return Spoilt(files)


@st.composite
def pc_csv(draw: Draw) -> Spoilt:
    head = ["Sample_Timestamp", "Exec_Mask", "Dispatch_Id", "Instruction", "Instruction_Comment", "Correlation_Id",
            "Wave_Issued_Instruction", "Instruction_Type", "Stall_Reason", "Wave_Count"]  # fmt: skip
    row = ["1", "3", "1", "s_nop 0", "/a.hip:3 -> /b.hip:4", "1", "0", "X", f"{made_samples.REASON}WAITCNT", "4"]
    return Spoilt({"7_pc_sampling_stochastic.csv": packed(draw, table(draw, [head, row, row]))})


@st.composite
def thread_trace(draw: Draw) -> Spoilt:
    with tempfile.TemporaryDirectory() as folder:
        ui = traces.written(Path(folder))
        files = {f"{ui.name}/{f.name}": f.read_bytes() for f in sorted(ui.iterdir())}
    for name in draw(st.sets(st.sampled_from([n for n in sorted(files) if n.endswith(".json")]), min_size=1)):
        files[name] = octets(draw, json.dumps(tree(draw, json.loads(files[name]))).encode("utf-8", "surrogatepass"))
    return Spoilt(files)


READERS: dict[str, Callable[[], st.SearchStrategy[Spoilt]]] = {
    "PC samples as JSON": pc_json, "PC samples as CSV": pc_csv, "thread trace": thread_trace,
}  # fmt: skip
