"""The parameters that several tools take, each with its meaning: a client reads it in the schema of every tool."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

WorkloadName = Annotated[str, Field(description='stored workload: id, unique id prefix, name, or "latest"')]
KernelName = Annotated[
    str | None,
    Field(description='regular expression searched in the kernel\'s name, or rank by total time: "#1", "#1,#3"'),
]
Dispatches = Annotated[
    list[int] | str | None, Field(description='only these dispatch ids: [0, 2] or "0,2,5-9"; default: all')
]
Datatype = Annotated[
    str | None,
    Field(
        description="operations counted: default all floating point together; iop (integers), one type (f16, i8), one "
        "pipe's type (matrix.bf16), or all (a point each)"
    ),
]
CeilingSource = Annotated[
    Literal["empirical", "theoretical"],
    Field(description="measured ceilings (theory where none were measured), or theory: units x rate x clock"),
]
CeilingValues = Annotated[
    dict[str, float],
    Field(description='ceilings stated by hand, before measured ones, GB/s or GFLOP/s: {"hbm.bw": 1390}'),
]
Detail = Annotated[Literal["summary", "full"], Field(description="full: everything, at several times the length")]
Metrics = Annotated[
    list[str],
    Field(
        description="names (l2.hit_rate_pct), ids (17.3.7), tables (17.3), panels (17), subsystems (l2), presets "
        "(overview, memory, compute, diagnosis, roofline, ...) or *"
    ),
]
Offset = Annotated[int, Field(ge=0, description="rows to skip: where the previous page ended")]
WaitSeconds = Annotated[
    float, Field(ge=0, description="seconds to wait for the run before answering with its state; it goes on meanwhile")
]
ProfilerName = Annotated[str, Field(description="auto, or rocprofv3, rocprof, rocprofv2, ncu, perf: the one to drive")]
Replay = Annotated[
    Literal["auto", "application", "kernel"],
    Field(description="how passes repeat: the whole program per pass, or each kernel within one run"),
]
HypothesisText = Annotated[
    str | None, Field(description="what the change was expected to do; kept in the experiment log (SQL table log)")
]
ChangeText = Annotated[str | None, Field(description="what was changed in the code, in a sentence; kept in the log")]
Tags = Annotated[list[str], Field(description='labels of the workload, for SQL and list_workloads: ["v2", "tuned"]')]
