"""Stand-in for AMD's rocprofv3, for tests: arguments and job files as strictly as that version takes them."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from . import library
from .extra import Refused
from .options import JOB_KEYS, TRACES, VERSIONS, parser
from .setting import Setting

Options = dict[str, Any]


def main(setting: Setting, argv: list[str]) -> int:
    """Parse, merge the job file, and run the program once per job; the exit status of the last that failed."""
    own, app = argv, []
    if "--" in argv:
        own, app = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    given = parser(setting.version).parse_args(own)
    if getattr(given, "version", False):
        print(_version_text(setting))
        return 0
    if given.list_avail if hasattr(given, "list_avail") else given.list_metrics:
        print(library.listing(setting.target) + _sampling_methods(setting), end="")
        return 0
    job = _job(given.input) if given.input else {}
    if setting.version > (1, 0, 0) and getattr(given, "pmc", None):
        if len(given.pmc) > 1 or job.get("pmc"):
            _fatal(setting, "the stand-in makes one pass in each call, as rooflens asks for no more")
        given.pmc = given.pmc[0]
    return _run(setting, _merge(given, job), app)


def _run(setting: Setting, options: Options, app: list[str]) -> int:
    """One application run: the environment that the script hands to the library, then the program."""
    pid = int(options["pid"]) if options.get("pid") else None
    if not app and pid is None:
        _fatal(setting, "No application provided")
    for option in ("truncate_kernels", "mangled_kernels"):
        if options.get(option):
            _fatal(setting, f"the stand-in does not write names as {option} would have them")
    traces = [t for t in TRACES if options.get(t)]
    for group, members in _GROUPS.items():
        if options.get(group):
            traces += [m for m in members if options.get(m) is not False]
    if not traces and not options.get("pmc") and not options.get("pmc_groups"):
        for option in ("stats", "summary", "summary_per_domain", "summary_groups", "summary_output_file"):
            if options.get(option):
                _fatal(setting, f"No tracing options were enabled for --{option.replace('_', '-')} option.")
    env = dict(os.environ)
    folder = Path(options.get("output_directory") or Path.cwd())
    if options.get("pmc") and options.get("sub_directory"):
        folder = folder / f"{options['sub_directory']}1"
    env["ROCPROF_OUTPUT_PATH"] = str(folder)
    if options.get("output_file"):
        env["ROCPROF_OUTPUT_FILE_NAME"] = options["output_file"]
    formats = options.get("output_format") or (["rocpd"] if setting.version >= (1, 0, 0) else ["csv"])
    inherited = env.get("ROCPROF_OUTPUT_FORMAT")
    env["ROCPROF_OUTPUT_FORMAT"] = ",".join([inherited, *formats] if inherited else formats)
    for trace in traces:
        env[f"ROCPROF_{trace.upper()}"] = "1"
    _optional(env, options)
    if options.get("pc_sampling_beta_enabled"):
        env["ROCPROF_PC_SAMPLING_METHOD"] = _sampling(setting, options)
    elif any(options.get(f"pc_sampling_{word}") for word in ("method", "unit", "interval")):
        _fatal(setting, "PC sampling is a beta: it needs --pc-sampling-beta-enabled")
    if options.get("pmc"):
        env["ROCPROF_COUNTER_COLLECTION"] = "1"
        env["ROCPROF_COUNTERS"] = f"pmc: {' '.join(options['pmc'])}"
    if options.get("pmc_groups"):
        if options.get("pmc"):
            _fatal(setting, "Cannot specify both --pmc and (input file) pmc_groups")
        env["ROCPROF_COUNTER_GROUPS"] = "\n".join(f"pmc: {' '.join(group)}" for group in options["pmc_groups"])
        env["ROCPROF_COUNTER_GROUPS_INTERVAL"] = str(options.get("pmc_group_interval") or 1)
    if pid is not None:
        env["ROCPROF_ATTACH_DURATION"] = str(options.get("attach_duration_msec") or 0)
    if options.get("replay_mode") == "kernel":
        _replays(setting, options)
        env["ROCPROF_KERNEL_REPLAY"] = "1"
    try:
        status = library.profile(setting, env, app) if pid is None else library.attached(setting, env, pid)
    except Refused as error:
        _fatal(setting, str(error))
    if status < 0:
        # The script replaces itself by the program: its fate is the program's.
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


_GROUPS = {
    "sys_trace": TRACES,
    "runtime_trace": ("hip_runtime_trace", "marker_trace", "kernel_trace", "memory_copy_trace"),
    "hip_trace": ("hip_runtime_trace", "hip_compiler_trace"),
    "hsa_trace": ("hsa_core_trace", "hsa_amd_trace", "hsa_image_trace", "hsa_finalizer_trace"),
}


def _replays(setting: Setting, options: Options) -> None:
    """What kernel replay of 1.4.1 needs and refuses; the switch for the beta alone replays nothing."""
    if not options.get("kernel_replay_beta_enabled"):
        _fatal(setting, "--replay-mode kernel is a beta: it needs --kernel-replay-beta-enabled")
    if not options.get("pmc") and not options.get("pmc_groups"):
        _fatal(setting, "--replay-mode kernel requires counter collection (--pmc or pmc_groups)")
    for service in ("advanced_thread_trace", "pc_sampling_beta_enabled", "spm"):
        if options.get(service):
            _fatal(setting, f"--replay-mode kernel cannot be combined with {service}")


_SAMPLED = {"host_trap": ("time", "gfx90a gfx942 gfx950"), "stochastic": ("cycles", "gfx942 gfx950")}


def _sampling_methods(setting: Setting) -> str:
    """The methods of PC sampling of the target, as ``--list-avail`` prints them from 0.6 on."""
    known = [(m, unit) for m, (unit, targets) in _SAMPLED.items() if setting.target in targets.split()]
    return "".join(
        f"   Method              :{method}\n   Unit                :{unit.removesuffix('s')}\n"
        f"   Min_Interval        :{65536 if unit == 'cycles' else 1}\n   Max_Interval        :{2**31}\n"
        for method, unit in known
        if setting.version >= (0, 6, 0)
    )


def _sampling(setting: Setting, options: Options) -> str:
    """The method of PC sampling, where unit, interval and target go with it."""
    method, interval = options.get("pc_sampling_method"), int(options.get("pc_sampling_interval") or 0)
    unit, targets = _SAMPLED.get(str(method), ("", ""))
    least = 65536 if unit == "cycles" else 1
    if options.get("pc_sampling_unit") != unit or setting.target not in targets.split() or interval < least:
        _fatal(setting, "Given PC sampling configuration is not supported on any of the agents")
    if unit == "cycles" and interval & (interval - 1):
        _fatal(setting, "Given PC sampling configuration is not supported on any of the agents: interval pow2")
    return str(method)


def _optional(env: dict[str, str], options: Options) -> None:
    words = {
        "kernel_include_regex": "ROCPROF_KERNEL_FILTER_INCLUDE_REGEX",
        "kernel_exclude_regex": "ROCPROF_KERNEL_FILTER_EXCLUDE_REGEX",
    }
    for option, variable in words.items():
        if options.get(option):
            env[variable] = options[option]
    if options.get("kernel_iteration_range"):
        env["ROCPROF_KERNEL_FILTER_RANGE"] = ", ".join(options["kernel_iteration_range"])
    if options.get("extra_counters") is not None:
        env["ROCPROF_EXTRA_COUNTERS_CONTENTS"] = Path(options["extra_counters"]).read_text(encoding="utf-8")


def _job(path: str) -> Options:
    """The only job of an input file; rooflens writes JSON, and asks for one pass in each call."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"Fatal error: {error}")
    if not isinstance(content, dict) or set(content) != {"jobs"} or len(content["jobs"]) != 1:
        sys.exit(f"Fatal error: 'jobs' of {path}: the stand-in takes a map with a list of one job and nothing else")
    (job,) = content["jobs"]
    _check_job(job)
    return {**job, "sub_directory": "pass_"}


def _check_job(job: Any) -> None:
    if not isinstance(job, dict):
        sys.exit("Fatal error: a job is no map")
    if unknown := set(job) - JOB_KEYS:
        sys.exit(f"Fatal error: keys of a job that rocprofv3 would ignore: {', '.join(sorted(unknown))}")
    for key, value in job.items():
        kinds: tuple[type, ...] = (bool,)
        if key == "pmc_groups":
            if not (isinstance(value, list) and all(isinstance(g, list) for g in value)):
                sys.exit(f"Fatal error: {key} of a job is no list of lists: {value!r}")
            continue
        if key in ("pmc", "output_format", "preload"):
            kinds = (list,)
        elif key == "kernel_iteration_range":
            kinds = (str, list)
        elif key.startswith(("kernel_", "output_", "log_", "extra_", "pc_")):
            kinds = (str, int)
        elif key == "pmc_group_interval":
            kinds = (int,)
        if not isinstance(value, kinds) or (list in kinds and any(not isinstance(v, str) for v in value)):
            sys.exit(f"Fatal error: {key} of a job has the wrong type: {value!r}")


def _merge(given: argparse.Namespace, job: Options) -> Options:
    """Command line and job as one; the same key with two values is an error, as in the real script."""
    options: Options = {}
    named = {k: v for k, v in vars(given).items() if v is not None}
    for key in {**named, **job}:
        if key in named and job.get(key) is not None and named[key] != job[key]:
            raise RuntimeError(f"conflicting value for {key} : {named[key]} vs {job[key]}")
        options[key] = named.get(key, job.get(key))
    if isinstance(options.get("kernel_iteration_range"), str):
        options["kernel_iteration_range"] = [options["kernel_iteration_range"]]
    return options


def _version_text(setting: Setting) -> str:
    facts = {
        "version": setting.version_text,
        "git_revision": "",
        "library_arch": "x86_64-linux-gnu",
        "system_name": "Linux",
        "rocm_version": VERSIONS[setting.version_text],
    }
    return "\n".join(f"    {key:>16}: {value}" for key, value in facts.items())


def _fatal(setting: Setting, message: str) -> NoReturn:
    start = "[rocprofv3] Fatal error" if setting.version > (1, 0, 0) else "Fatal error"
    sys.stderr.write(f"{start}: {message}\n")
    sys.exit(1)
