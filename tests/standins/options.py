"""The options of rocprofv3 by the version that first knows them, and its parser."""

from __future__ import annotations

import argparse
import os
from typing import Any

Version = tuple[int, int, int]
VERSIONS: dict[str, str] = {
    "0.4.0": "6.2.0",
    "0.5.0": "6.3.0",
    "0.6.0": "6.4.0",
    "1.0.0": "7.0.0",
    "1.3.2": "7.15.0",
    "1.3.5": "10.0.0",
    "1.4.1": "10.1.0",
}
"""Versions that the stand-in can be -> ROCm release. 1.3.2 is the one of mid-2026; 1.4.1 replays single kernels."""

_V04, _V05, _V06, _V10, _V13 = (0, 4, 0), (0, 5, 0), (0, 6, 0), (1, 0, 0), (1, 1, 0)
_V132, _V135, _V14 = (1, 3, 2), (1, 3, 5), (1, 4, 1)
_FORMATS = {_V04: ("csv", "json", "pftrace"), _V05: ("csv", "json", "pftrace", "otf2"),
            _V10: ("csv", "json", "pftrace", "otf2", "rocpd")}  # fmt: skip

# first version, flags
_BOOLS: list[tuple[Version, tuple[str, ...]]] = [
    (_V04, ("--hip-trace",)), (_V04, ("--marker-trace",)), (_V04, ("--kernel-trace",)),
    (_V04, ("--memory-copy-trace",)), (_V04, ("--scratch-memory-trace",)), (_V04, ("--hsa-trace",)),
    (_V04, ("--hip-runtime-trace",)), (_V04, ("--hip-compiler-trace",)), (_V04, ("--hsa-core-trace",)),
    (_V04, ("--hsa-amd-trace",)), (_V04, ("--hsa-image-trace",)), (_V04, ("--hsa-finalizer-trace",)),
    (_V04, ("-s", "--sys-trace")), (_V04, ("--stats",)), (_V04, ("-M", "--mangled-kernels")),
    (_V04, ("-T", "--truncate-kernels")), (_V04, ("--kernel-rename",)),
    (_V05, ("-r", "--runtime-trace")), (_V05, ("-S", "--summary")), (_V05, ("-D", "--summary-per-domain")),
    (_V05, ("--memory-allocation-trace",)), (_V05, ("--rccl-trace",)), (_V05, ("--kokkos-trace",)),
    (_V05, ("--pc-sampling-beta-enabled",)), (_V06, ("--echo",)), (_V06, ("--advanced-thread-trace", "--att")),
    (_V10, ("--group-by-queue",)), (_V10, ("--selected-regions",)), (_V10, ("--output-config",)),
    (_V10, ("--rocdecode-trace",)), (_V10, ("--rocjpeg-trace",)), (_V10, ("--disable-signal-handlers",)),
    (_V13, ("--process-sync",)), (_V13, ("--kfd-trace",)), (_V13, ("--spm-beta-enabled",)),
    (_V13, ("--attach-children",)), (_V132, ("--attach-sync-output",)), (_V13, ("--selected-regions-ref-count",)),
    (_V132, ("--kfd-page-migration-trace",)), (_V132, ("--kfd-page-mapping-trace",)), (_V132, ("--kfd-queue-trace",)),
    (_V132, ("--kfd-dropped-events-trace",)), (_V135, ("--hip-graph-trace",)), (_V135, ("--hipfile-trace",)),
    (_V135, ("--rocshmem-trace",)), (_V14, ("--kernel-replay-beta-enabled",)), (_V14, ("--hip-event-trace",)),
    (_V14, ("--att-no-intercept",)), (_V14, ("--att-no-detail",)), (_V10, ("--att-serialize-all",)),
    (_V10, ("--suppress-marker-preload",)),
]  # fmt: skip
_WORDS: list[tuple[Version, tuple[str, ...]]] = [
    (_V04, ("--kernel-include-regex",)), (_V04, ("--kernel-exclude-regex",)),
    (_V05, ("-E", "--extra-counters")), (_V05, ("--summary-output-file",)),
    (_V05, ("--pc-sampling-unit",)), (_V05, ("--pc-sampling-method",)), (_V05, ("--pc-sampling-interval",)),
    (_V10, ("--rocm-root",)), (_V10, ("--sdk-version",)), (_V10, ("-A", "--agent-index")),
    (_V10, ("--minimum-output-data",)), (_V13, ("--sdk-soversion",)), (_V13, ("--profile-mpi-ranks",)),
    (_V13, ("--mpi-world-rank-variable",)), (_V13, ("--mpi-world-size-variable",)),
    (_V13, ("-p", "--pid", "--attach")), (_V13, ("--attach-duration-msec",)),
    (_V10, ("--att-target-cu",)), (_V10, ("--att-simd-select",)), (_V10, ("--att-buffer-size",)),
    (_V10, ("--att-shader-engine-mask",)), (_V10, ("--att-gpu-index",)), (_V10, ("--att-consecutive-kernels",)),
    (_V10, ("--att-perfcounters",)), (_V10, ("--att-perfcounter-ctrl",)), (_V10, ("--att-activity",)),
    (_V132, ("--spm-sample-interval",)), (_V132, ("--spm-sample-interval-unit",)),
]  # fmt: skip
_LISTS: list[tuple[Version, tuple[str, ...]]] = [
    (_V04, ("--kernel-iteration-range",)), (_V04, ("--preload",)), (_V05, ("--summary-groups",)),
    (_V10, ("--att-library-path",)), (_V132, ("--spm",)), (_V132, ("--ompt-trace",)),
]  # fmt: skip
TRACES = ("hip_runtime_trace", "hip_compiler_trace", "hsa_core_trace", "hsa_amd_trace", "hsa_image_trace",
          "hsa_finalizer_trace", "marker_trace", "rccl_trace", "kernel_trace", "memory_copy_trace",
          "memory_allocation_trace", "scratch_memory_trace")  # fmt: skip
"""What counts as tracing, by the name of the parsed option."""

JOB_KEYS = {
    "pmc", "kernel_include_regex", "kernel_exclude_regex", "kernel_iteration_range", "hip_trace", "hip_runtime_trace",
    "hip_compiler_trace", "marker_trace", "kernel_trace", "memory_copy_trace", "memory_allocation_trace",
    "scratch_memory_trace", "stats", "hsa_trace", "hsa_core_trace", "hsa_amd_trace", "hsa_finalize_trace",
    "hsa_image_trace", "sys_trace", "runtime_trace", "mangled_kernels", "truncate_kernels", "output_file",
    "output_directory", "output_format", "list_avail", "list_metrics", "log_level", "preload", "extra_counters",
    "pc_sampling_unit", "pc_sampling_method", "pc_sampling_interval", "pmc_groups", "pmc_group_interval",
    "disable_signal_handlers",
}  # fmt: skip
"""Keys of a job in an input file. The real program ignores any other silently; the stand-in refuses it."""


def _truth(text: Any) -> bool:
    if isinstance(text, bool):
        return text
    if str(text).lower() in ("y", "yes", "t", "true", "on", "1"):
        return True
    if str(text).lower() in ("n", "no", "f", "false", "off", "0"):
        return False
    raise argparse.ArgumentTypeError(f"invalid truth value {text!r}")


def parser(version: Version) -> argparse.ArgumentParser:
    """The parser of this version: it refuses what came later, and abbreviations from 1.0 on."""
    said = argparse.ArgumentParser(
        prog="rocprofv3",
        usage="%(prog)s [options] -- <application> [application options]",
        description="Stand-in for rocprofv3, written for tests; not AMD's program.",
        allow_abbrev=version < _V10,
    )
    env = os.environ
    said.add_argument("-i", "--input", help="job file (JSON, YAML) or counters (TXT)")
    said.add_argument("-o", "--output-file", default=env.get("ROCPROF_OUTPUT_FILE_NAME"), help="name of the files")
    said.add_argument("-d", "--output-directory", default=env.get("ROCPROF_OUTPUT_PATH"), help="folder of the files")
    format_flags = ("-f", "--output-format") if version >= _V10 else ("--output-format",)
    formats = _FORMATS[max(v for v in _FORMATS if v <= version)]
    said.add_argument(*format_flags, nargs="+", choices=formats, type=str.lower, help=", ".join(formats))
    levels = ("fatal", "error", "warning", "info", "trace", "env", "config")
    said.add_argument("--log-level", choices=levels, type=str.lower)
    if version >= _V10:
        said.add_argument("-v", "--version", action="store_true", help="print the version")
    if version >= _V13:
        said.add_argument("--pmc", nargs="*", action="append", help="counters of one application replay")
    elif version >= _V05:
        said.add_argument("--pmc", nargs="*", help="counters of one run")
    listing = ("-L", "--list-avail") if version >= _V05 else ("-L", "--list-metrics")
    for since, flags in [*_BOOLS, (_V04, listing)]:
        if version >= since:
            said.add_argument(*flags, nargs="?", const=True, type=_truth, metavar="BOOL")
    for since, flags in _WORDS:
        if version >= since:
            said.add_argument(*flags)
    for since, flags in _LISTS:
        if version >= since:
            said.add_argument(*flags, nargs="+")
    if version >= _V14:
        said.add_argument("--replay-mode", choices=("kernel", "application"), help="repeat the program or the kernel")
    if version >= _V06:
        said.add_argument("-P" if version >= _V10 else "-p", "--collection-period", nargs="+")
        said.add_argument("--collection-period-unit", nargs=1, default="sec" if version < _V10 else ["sec"])
    return said
