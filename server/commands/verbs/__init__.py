"""The commands that are tools: which words of the command line are which arguments, as data.

All other arguments follow from the declaration of the tool: `key=value`, or `--key value`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["required", "optional", "several", "list", "text", "program"]


@dataclass(frozen=True)
class Positional:
    """One argument that is given without its name.

    ``optional`` ones get the words that no ``required`` one needs, from the left. The others take all remaining words:
    ``several`` (at least one) or a ``list`` (perhaps none), as one ``text``, or as the ``program`` behind ``--``.
    """

    name: str
    kind: Kind = "required"

    @property
    def usage(self) -> str:
        """Its place in a usage line: WORKLOAD, [KERNEL], METRICS..."""
        word = self.name.upper()
        shown = {
            "optional": f"[{word}]",
            "several": f"{word} ...",
            "list": f"[{word} ...]",
            "text": f"[{word} ...]",
            "program": f"-- {word} ...",
        }
        return shown.get(self.kind, word)


@dataclass(frozen=True)
class Verb:
    """A command that calls one tool."""

    name: str
    tool: str
    help: str
    example: str
    """What follows `rooflens` in an example."""
    positionals: tuple[Positional, ...] = ()
    table: str = ""
    """The main table of the answer, which --csv prints; empty if the answer has none."""

    @property
    def usage(self) -> str:
        """The usage line of the command."""
        words = [one.usage for one in self.positionals if one.kind != "program"]
        program = [one.usage for one in self.positionals if one.kind == "program"]
        return " ".join(["rooflens", self.name, *words, "[KEY=VALUE ...]", "[OPTIONS]", *program])


_WORKLOAD, _KERNEL = Positional("workload", "optional"), Positional("kernel", "optional")
_NEEDED = Positional("workload")
_PROGRAM = Positional("command", "program")

VERBS = (
    Verb(
        "import",
        "import_profile",
        "read profiles into the store: files, folders, patterns, or folders that contain many profiles",
        "import results/ --name before",
        (Positional("path", "several"),),
    ),
    Verb("ls", "list_workloads", "list the workloads of the store, newest first", "ls limit=50", table="table"),
    Verb(
        "show",
        "list_workloads",
        "show one workload: its device, when and how it was taken, and its kernels by time",
        "show latest",
        (_NEEDED,),
        "table",
    ),
    Verb(
        "diagnose",
        "diagnose_bottleneck",
        "say what limits the kernels, with evidence, advice and an upper bound of the gain",
        "diagnose latest '#1'",
        (_WORKLOAD, _KERNEL),
    ),
    Verb(
        "timeline",
        "compute_timeline",
        "say where the wall time goes: GPU, copies, idle time by cause",
        "timeline latest",
        (_WORKLOAD,),
        "split",
    ),
    Verb(
        "metrics",
        "compute_metrics",
        "compute metrics of a workload, overall or for one kernel",
        "metrics latest memory l2.hit_rate_pct kernel='#1'",
        (_NEEDED, Positional("metrics", "list")),
        "table",
    ),
    Verb(
        "roofline",
        "compute_roofline",
        "place kernels on the roofline, and say what limits them",
        "roofline latest levels=hbm,l2",
        (_NEEDED, _KERNEL),
        "points",
    ),
    Verb(
        "occupancy",
        "compute_occupancy",
        "compute the occupancy of kernels and what limits it, also from numbers alone",
        "occupancy gpu=MI300X vgprs=64 workgroup_size=256",
        (_WORKLOAD, _KERNEL),
        "kernels",
    ),
    Verb(
        "hotspots",
        "find_hotspots",
        "find the source lines and instructions that take the time",
        "hotspots latest '#1'",
        (_WORKLOAD, _KERNEL),
        "hotspots",
    ),
    Verb(
        "compare",
        "compare_workloads",
        "decide whether a change helped, and whether both versions did the same work",
        "compare before after",
        (Positional("baseline"), Positional("candidate", "several")),
        "kernels",
    ),
    Verb(
        "plot",
        "plot",
        "draw a roofline, speed of light, occupancy, a timeline, or two workloads, as PNG and SVG",
        "plot roofline latest",
        (Positional("kind"), _NEEDED, Positional("candidate", "optional")),
    ),
    Verb(
        "sql",
        "query_counters",
        "answer a question with one SELECT over one workload or the whole store",
        "sql latest 'SELECT kernel, count(*) FROM dispatches GROUP BY kernel'",
        (_WORKLOAD, Positional("sql")),
        "table",
    ),
    Verb(
        "search",
        "search_metrics",
        "explain metrics: meaning, formula, counters, GPUs",
        "search l2 hit rate gpu=MI300X",
        (Positional("query", "text"),),
        "table",
    ),
    Verb("devices", "list_devices", "list the GPUs and profilers of this machine", "devices"),
    Verb(
        "plan",
        "plan_profile",
        "plan the profiler commands for another machine; --write makes scripts for bash and sbatch of them",
        "plan --gpu MI300X --metrics overview --write job -- ./app input.dat",
        (_PROGRAM,),
        "passes",
    ),
    Verb(
        "round",
        "profile_command",
        "check the results of a program, profile it, compare it with a baseline, and say what to try next",
        "round check=./check.sh baseline=v0 change='wider loads' -- ./app input.dat",
        (_PROGRAM,),
    ),
    Verb(
        "profile",
        "profile_command",
        "run a program under the profiler and store what it measures",
        "profile --metrics overview -- ./app input.dat",
        (_PROGRAM,),
        "kernels",
    ),
    Verb(
        "benchmarks",
        "run_peak_benchmarks",
        "measure what the GPU or the processor of this machine can reach",
        "benchmarks mode=quick",
        table="ceilings",
    ),
    Verb(
        "check-counters",
        "check_counters",
        "run kernels of known work and compare the metrics with what they must be",
        "check-counters",
        (Positional("metrics", "list"),),
        "check",
    ),
    Verb(
        "status",
        "get_run",
        "show the state and the result of a run, by default of the newest",
        "status latest",
        (Positional("run_id", "optional"),),
        "kernels",
    ),
    Verb(
        "cancel",
        "cancel_run",
        "end a run and every process that it started",
        "cancel latest",
        (Positional("run_id"),),
        "kernels",
    ),
)
"""The commands in the order of the help; every tool has at least one."""

BY_NAME = {verb.name: verb for verb in VERBS}
BY_TOOL = {verb.tool: verb for verb in reversed(VERBS)}
"""The first verb of each tool. The name of a tool is accepted as a command too."""


def verb_of_call(tool: str, arguments: object) -> Verb:
    """The verb for a call of a tool with these argument names: the first whose required ones are among them."""
    given = set(arguments) if isinstance(arguments, dict) else set()
    fitting = [
        verb
        for verb in VERBS
        if verb.tool == tool and {one.name for one in verb.positionals if one.kind == "required"} <= given
    ]
    return max(fitting, key=lambda verb: len(given & {one.name for one in verb.positionals}), default=BY_TOOL[tool])
