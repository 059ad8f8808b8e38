"""Which profiles are asked, and what: every format and architecture, the shipped samples first.

Left out are answers that depend on the machine or on what runs on it: list_devices, run_peak_benchmarks, check_counters
and profile_command (their tests are in tests/system/tools, with stand-ins for devices and profilers). Of get_run and
cancel_run only the refusals are here, as a store without runs has no others. Of plot the words beside the picture
count: what is drawn is held by tests/unit/analysis/plot, and pixels differ with the fonts of a machine.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflens.tests import ROOT
from rooflens.tests.cases.answers import made

SAMPLES = ROOT / "server" / "samples"
SHARED = ROOT.parent / "shared"

Question = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


@dataclass(frozen=True)
class Profile:
    """A profile that is shipped, lies in ../shared, or is written by a function into a folder that it gets."""

    place: Path | Callable[[Path], Path]
    name: str | None = None
    """The name that it is imported by; None for the one that it has."""

    @property
    def lacks(self) -> str:
        """Why it cannot be read here, or nothing."""
        if not isinstance(self.place, Path):
            return ""
        if not self.place.exists():
            return "needs the recorded profiles in ../shared, which the project does not ship"
        if ".ncu-rep" in self.place.name and importlib.util.find_spec("ncu_report") is None:
            return "needs the package ncu-report"
        return ""


@dataclass(frozen=True)
class Case:
    """Profiles that are imported into a store of their own, in this order, and what is then asked of it."""

    name: str
    profiles: Sequence[Profile]
    questions: Sequence[Question]

    @property
    def lacks(self) -> str:
        """Why it cannot be asked here, or nothing."""
        return next((profile.lacks for profile in self.profiles if profile.lacks), "")


def _of_latest(*questions: Question) -> tuple[Question, ...]:
    return tuple((tool, {"workload": "latest", **arguments}) for tool, arguments in questions)


_MUCH = 10_000
LAUNCHES = _of_latest(("list_workloads", {}), ("list_workloads", {"by": "launch", "limit": 40}))
COUNTED = (
    *LAUNCHES,
    *_of_latest(
        ("query_counters", {"sql": "SELECT * FROM counters ORDER BY dispatch_id LIMIT 2"}),
        ("compute_metrics", {"metrics": ["*"], "detail": "full", "limit": _MUCH}),
        ("compute_metrics", {"by_kernel": True, "aggregation": "mean"}),
        ("compute_roofline", {"detail": "full", "limit": 12}),
        ("compute_roofline", {"ceiling_source": "theoretical", "by": "launch"}),
        ("compute_roofline", {"kind": "instruction", "limit": 12}),
        ("compute_occupancy", {}),
        ("diagnose_bottleneck", {"top_n": 12, "detail": "full"}),
        ("diagnose_bottleneck", {}),
    ),
)
TIMELINE = _of_latest(
    (
        "query_counters",
        {"sql": "SELECT kind, category, count(*), sum(end_ns - start_ns) FROM events GROUP BY ALL ORDER BY ALL"},
    ),
    ("compute_timeline", {"top_n": 20}),
    ("compute_timeline", {"steady": False}),
)
TRACED = (*LAUNCHES, *TIMELINE, *_of_latest(("compute_metrics", {}), ("diagnose_bottleneck", {})))
LINES = _of_latest(
    ("find_hotspots", {"detail": "full", "top_n": 20}),
    ("find_hotspots", {"by": "instruction", "top_n": 40}),
)
SAMPLED = (*LAUNCHES, *LINES)
ALL = (*COUNTED, *TIMELINE, *LINES)
"""What does not fit a profile is refused, which is an answer too."""
ASKED_OTHERWISE = _of_latest(
    ("compute_metrics", {"normalization": "per_wave"}),
    ("compute_metrics", {"metrics": ["*"], "dispatches": "1"}),
    ("compute_roofline", {"by": "dispatch", "levels": ["hbm", "l2"]}),
    ("compute_occupancy", {"mode": "compiler"}),
    ("diagnose_bottleneck", {"by": "launch", "kernel": "#1"}),
)
"""Other values of arguments that most cases leave alone."""
PLOTTED = _of_latest(
    ("plot", {"kind": "roofline"}), ("plot", {"kind": "speed_of_light"}), ("plot", {"kind": "occupancy"})
)
COMPARED: tuple[Question, ...] = (
    ("compare_workloads", {"baseline": "before", "candidate": "after", "detail": "full"}),
    ("compare_workloads", {"baseline": "before", "candidate": "after"}),
    ("compare_workloads", {"baseline": "before", "candidate": ["after", "before"]}),
)


def _sample(name: str) -> Path:
    """A shipped sample: a folder, or the one file that is its profile."""
    return next((SAMPLES / name).glob("*.csv.gz"), SAMPLES / name)


def _one(name: str, place: Path | Callable[[Path], Path], questions: Sequence[Question]) -> Case:
    return Case(name, (Profile(place),), questions)


def _two(name: str, before: Path, after: Path, questions: Sequence[Question] = COMPARED) -> Case:
    return Case(name, (Profile(before, "before"), Profile(after, "after")), questions)


def _shared(place: str, questions: Sequence[Question]) -> Case:
    name = place.replace("/", "-")
    for ending in (".gz", ".json", ".csv"):
        name = name.removesuffix(ending)
    return _one(name, SHARED / place, questions)


_TARGETS = ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1151", "sm_80", "sm_90", "cpu")
_PROFILERS = (("gfx908", "rocprof"), ("gfx90a", "rocprofv3"), ("gfx942", "rocprofv3"), ("gfx942", "rocprofv2"),
              ("gfx950", "rocprofv3"), ("gfx1151", "rocprofv3"), ("sm_90", "ncu"), ("cpu", "perf"))  # fmt: skip
CATALOGUE: tuple[Question, ...] = (
    ("list_workloads", {}),
    ("get_run", {"run_id": "none"}),
    ("cancel_run", {"run_id": "none"}),
    ("import_profile", {"path": "/no/such/profile"}),
    ("compute_metrics", {"workload": "none"}),
    ("query_counters", {"sql": "DESCRIBE"}),
    *(("search_metrics", {"gpu": target, "limit": _MUCH}) for target in _TARGETS),
    *(("search_metrics", {"query": query}) for query in ("bandwidth", "17.3", "TCC_HIT", "vl1d hit rate", "lds")),
    *(
        ("plan_profile", {"gpu": gpu, "profiler": profiler, "command": ["./app"], **more})
        for gpu, profiler in _PROFILERS
        for more in ({"metrics": ["diagnosis"]}, {"detail": "full"})
    ),
    *(
        ("compute_occupancy", {"gpu": gpu, "vgprs": vgprs, "lds_bytes": lds, "workgroup_size": size})
        for gpu in _TARGETS[:-1]
        for vgprs, lds, size in ((32, 0, 256), (100, 20_000, 192), (250, 60_000, 1024))
    ),
    *(
        ("compute_occupancy", {"gpu": "gfx90a", "vgprs": 90, "agprs": 30, "sgprs": 90, "workgroup_size": 256, **more})
        for more in ({}, {"mode": "compiler"})
    ),
)
_DECODE = "public/decodebench/flashinfer_paged_decode__gqa_bf16_b64_ctx4k_p32.ncu.csv.gz"
_BERT = "public/tracelens/bert_mi300/gaunernst_bert-small-uncased__1016001.json.gz"
CASES = (
    Case("catalogue", (), CATALOGUE),
    *(_one(f"sample-{name}", _sample(name), COUNTED) for name in ("clover", "h200_copies", "matmul_fp64")),
    _one("sample-h200_kernels", _sample("h200_kernels"), (*ALL, *ASKED_OTHERWISE, *PLOTTED)),
    _one("sample-yax_before", _sample("yax_before"), (*ALL, *ASKED_OTHERWISE, *PLOTTED)),
    _one("sample-h200_lines", _sample("h200_lines"), (*SAMPLED, *_of_latest(("compute_metrics", {})))),
    _one("sample-four_ranks", _sample("four_ranks"), (*ALL, *_of_latest(("plot", {"kind": "timeline"})))),
    _two("pair-yax", _sample("yax_before"), _sample("yax_after"), (*COMPARED, (
        "plot", {"kind": "compare", "workload": "before", "candidate": "after"}))),
    _two("pair-other-gpus", _sample("h200_kernels"), _sample("yax_before")),
    *(_one(f"made-{function.__name__}", function, ALL) for function in made.PROFILES),
    _shared("workloads/synth_a/MI100", COUNTED),
    _shared("workloads/synth_a/MI200", (*COUNTED, *ASKED_OTHERWISE)),
    _shared("workloads/synth_a/MI350", COUNTED),
    _shared("workloads/vcopy/MI300X_A1_rocpd", COUNTED),
    _shared("workloads/mixbench/MI200", COUNTED),
    _shared("workloads/ipblocks_TCC/MI100", COUNTED),
    _shared("workloads/mem_levels_HBM/MI200", COUNTED),
    _shared("workloads38/vcopy__RDNA35_HALO", COUNTED),
    _shared("workloads38/ipblocks_CU__RDNA35_HALO", COUNTED),
    _shared("workloads38/torch_trace__MI300X_A1", (*LAUNCHES, *_of_latest(("compute_metrics", {"by": "operator"})))),
    _shared("workloads38/vcopy_iteration_multiplexing__MI350", COUNTED),
    _shared("workloads38/vcopy_pc_sampling_only__MI300A_A1", SAMPLED),
    _shared("rocprofv3/sys_trace", TRACED),
    _shared("rocprofv3/two_process", TRACED),
    _shared("rocprofv3/kernel_trace_truncated", TRACED),
    _shared("rocprofv3/rocprof_sys_mi350x.db", TRACED),
    _shared("ncu/small.ncu-rep", (*COUNTED, *LINES)),
    _shared("pc_sampling/pc_sampling_host_trap.csv", SAMPLED),
    _shared("pc_sampling/pc_sampling_stochastic_debug.csv", SAMPLED),
    _shared("traces/gpu_bound.json.gz", TRACED),
    _shared("public/hta/sampled_rank-0.json.gz", TRACED),
    _shared(_BERT, TRACED),
    _shared("public/tracelens/sglang_decode/sglang_Qwen3-8B_decode.json.gz", TRACED),
    _shared(_DECODE, COUNTED),
    _shared("public/ncu_rtx/rtx2060s_PS1.ncu-rep.gz", COUNTED),
    _shared("public/ncu_rtx/rtx3070_2020.3.ncu-rep", SAMPLED),
    _shared("public/hipkittens", COUNTED),
    _two("pair-launches", SHARED / "workloads/dispatch_0_1/MI200", SHARED / "workloads/vcopy/MI200"),
    _two("pair-fast_math", SHARED / "rocprofv3/mi300x_fast_math/baseline.db",
         SHARED / "rocprofv3/mi300x_fast_math/optimized.db"),
    _two("pair-traces", SHARED / "traces/dataloader.json.gz", SHARED / "traces/pageable.json.gz"),
)  # fmt: skip
