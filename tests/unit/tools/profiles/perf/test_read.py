"""Every form of perf stat gives the same runs: counts without modifiers, times in ns, NULL where nothing counted."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from rooflens.analysis.base.problems import BadInput, LimitExceeded

PUBLISHED = """
 Performance counter stats for './matrix-add -m 8192':

          3,691.58 msec task-clock:u              #    1.000 CPUs utilized
                 0      context-switches:u        #    0.000 /sec
                 0      cpu-migrations:u          #    0.000 /sec
             2,547      page-faults:u             #  689.949 /sec
    11,573,436,803      cycles:u                  #    3.135 GHz                      (83.32%)
       211,027,746      stalled-cycles-frontend:u #    1.82% frontend cycles idle     (83.32%)
         7,090,183      stalled-cycles-backend:u  #    0.06% backend cycles idle      (83.3%)
    11,355,480,740      instructions:u            #    0.98  insn per cycle
                                                  #    0.02  stalled cycles per insn  (83.32%)
     2,280,658,033      branches:u                #  617.801 M/sec                    (83.3%)
            27,428      branch-misses:u           #    0.00% of all branches          (83.3%)

       3.693409405 seconds time elapsed

       3.576172000 seconds user
       0.116005000 seconds sys
"""
needs_perf = pytest.mark.skipif(shutil.which("perf") is None, reason="needs perf of Linux")
EVENTS = "duration_time,task-clock,page-faults:u,cycles"


def stored(bench, done):
    """One dictionary per row of the table counters."""
    names = ["kernel", "duration_ns", *bench.manifest(done).counters]
    columns = ", ".join('"' + name + '"' for name in names)
    return [dict(zip(names, row, strict=True)) for row in bench.rows(done, "counters", columns)]


def load(bench, text, name="stat.txt"):
    (bench.folder / name).write_text(text)
    return bench.load(bench.folder / name)


def test_the_published_listing_is_read_as_it_stands(bench):
    done = load(bench, PUBLISHED)
    assert (done.format, done.arch, done.dispatches, done.passes) == ("perf", "cpu", 1, 1)
    (row,) = stored(bench, done)
    assert row["kernel"] == "matrix-add" and bench.manifest(done).command == "./matrix-add -m 8192"
    assert row["duration_ns"] == row["duration_time"] == pytest.approx(3_693_409_405)
    assert row["task-clock"] == pytest.approx(3_691_580_000)
    assert row["user_time"] == pytest.approx(3_576_172_000) and row["system_time"] == pytest.approx(116_005_000)
    assert row["cycles"] == 11_573_436_803 and row["instructions"] == 11_355_480_740
    assert row["stalled-cycles-frontend"] == 211_027_746 and row["stalled-cycles-backend"] == 7_090_183
    assert row["branches"] == 2_280_658_033 and row["branch-misses"] == 27_428
    assert row["page-faults"] == 2547 and row["context-switches"] == row["cpu-migrations"] == 0
    assert row["cycles:running_pct"] == 83.32 and "page-faults:running_pct" not in row
    assert row["instructions"] / row["cycles"] == pytest.approx(0.981167559238)
    assert row["cycles"] / row["task-clock"] == pytest.approx(3.135090341534)
    assert any("cycles:u" in note and "modifier" in note for note in done.notes)


@pytest.mark.parametrize(
    ("thousands", "decimal"),
    [(".", ","), ("\u202f", ","), ("\u00a0", ","), (" ", ","), ("’", "."), ("'", "."), ("", ".")],
)
def test_numbers_of_other_locales_are_the_same_numbers(bench, thousands, decimal):
    translated = PUBLISHED.translate({ord(","): thousands, ord("."): decimal}).replace(f"{decimal}/matrix", "./matrix")
    assert stored(bench, load(bench, translated, "local.txt")) == stored(bench, load(bench, PUBLISHED))


HYBRID = """
 Performance counter stats for './matmul':

            1.100,00 msec task-clock                #    1,000 CPUs utilized
       3.640.000.000      cpu_atom/cycles/          #    3,309 GHz                      (0,68%)
       4.960.000.000      cpu_core/cycles/          #    4,509 GHz                      (78,79%)
       4.800.000.000      cpu_atom/instructions/u   #    1,32  insn per cycle           (0,83%)
      11.050.000.000      cpu_core/instructions/u   #    2,23  insn per cycle           (98,97%)
     <not counted>        cpu_atom/branches/                                            (0,00%)
       1.000.000.000      cpu_core/branches/

       1,100500000 seconds time elapsed
"""


def test_kinds_of_cores_are_alternatives_weighted_by_the_time_on_each(bench):
    done = load(bench, HYBRID)
    (row,) = stored(bench, done)
    cycles = (3.64e9 * 0.68 + 4.96e9 * 78.79) / (0.68 + 78.79)
    assert row["cycles"] == pytest.approx(cycles) and row["cycles"] / row["task-clock"] == pytest.approx(
        4.4988, abs=1e-4
    )
    assert row["instructions"] == pytest.approx((4.8e9 * 0.83 + 11.05e9 * 98.97) / 99.8)
    assert row["branches"] == 1e9  # the program never was on the other kind
    assert (row["cpu_atom/cycles/"], row["cpu_core/cycles/"]) == (3.64e9, 4.96e9)
    assert row["cycles:running_pct"] == pytest.approx(79.47) and row["instructions:running_pct"] == 99.8
    assert row["cpu_atom/cycles/:running_pct"] == 0.68 and row["cpu_atom/branches/"] is None
    assert any("cycles, instructions" in note and "each kind of core" in note for note in done.notes)


def test_shares_of_one_whole_give_the_sum_of_what_was_really_counted(bench):
    # The example of perf's documentation of hybrid processors.
    text = "233066666,,cpu_core/cycles/,9,0.43,,\n604097080,,cpu_atom/cycles/,9,99.57,,\n"
    (row,) = stored(bench, load(bench, text, "stat.csv"))
    assert row["cycles"] == pytest.approx(233_066_666 * 0.0043 + 604_097_080 * 0.9957)
    assert "cycles:running_pct" not in row


@pytest.mark.parametrize("share", ["", " (45.00%)"])
def test_kinds_of_cores_of_a_whole_system_count_at_once_and_add_up(bench, share):
    text = " Performance counter stats for 'system wide':\n\n"
    text += f" 6,744,979 cpu_core/cycles/{share}\n 1,965,552 cpu_atom/cycles/{share}\n"
    text += " 5 cpu_core/branches/\n <not counted> cpu_atom/branches/\n\n 1.0 seconds time elapsed\n"
    (row,) = stored(bench, load(bench, text))
    assert row["cycles"] == 6_744_979 + 1_965_552 and row["branches"] is None


def test_shares_above_one_whole_say_that_kinds_of_cores_counted_at_once(bench):
    (row,) = stored(
        bench, load(bench, "70,,cpu_core/cycles/,9,100.00,,\n30,,cpu_atom/cycles/,9,100.00,,\n", "stat.csv")
    )
    assert row["cycles"] == 100


def test_kinds_of_cores_without_shares_of_time_have_no_total(bench):
    line = '{{"counter-value" : "{}", "unit" : "", "event" : "cpu_{}/cycles/"}}\n'
    done = load(bench, line.format(70, "core") + line.format(30, "atom"), "stat.json")
    (row,) = stored(bench, done)
    assert row["cycles"] is None and row["cpu_core/cycles/"] == 70
    assert any("without the shares of time it is NULL" in note for note in done.notes)


def test_units_that_are_no_cores_are_not_combined(bench):
    text = "7,,uncore_imc_0/cas/,9,100.00,,\n3,,uncore_imc_1/cas/,9,100.00,,\n5,,cycles,9,100.00,,\n"
    text += "4,,cpu_core/cycles/,9,100.00,,\n"
    (row,) = stored(bench, load(bench, text, "stat.csv"))
    assert "cas" not in row and row["cycles"] == 5


def test_what_is_not_counted_is_null_with_its_reason(bench):
    text = PUBLISHED.replace("11,573,436,803", "<not supported>").replace("27,428", "<not counted>")
    done = load(bench, text)
    (row,) = stored(bench, done)
    assert row["cycles"] is None and row["branch-misses"] is None and row["context-switches"] == 0
    assert any("cycles:u (not supported)" in n and "branch-misses:u (not counted)" in n for n in done.notes)


def test_older_versions_state_the_unit_behind_the_event(bench):
    text = " Performance counter stats for 'a b' (5 runs):\n\n 1234.567890 task-clock (msec) # 0.9 CPUs ( +- 1.25% )\n"
    text += "\n 1.234567890 seconds time elapsed   ( +-  0.29% )\n"
    done = load(bench, text)
    (row,) = stored(bench, done)
    assert row["task-clock"] == pytest.approx(1_234_567_890) and row["task-clock:error_pct"] == 1.25
    assert row["duration_ns"] == pytest.approx(1_234_567_890) and row["duration_time:error_pct"] == 0.29
    assert any("5 runs" in note for note in done.notes)


def test_appended_blocks_are_runs_of_their_own(bench):
    later = PUBLISHED.replace("3.693409405", "3.700000000")
    done = load(bench, f"# started on Fri\n{PUBLISHED}\n# started on Fri\n{later}")
    assert [r["duration_ns"] for r in stored(bench, done)] == pytest.approx([3_693_409_405, 3.7e9])
    assert done.kernels == 1


def test_separated_values_and_json_become_the_same_run(bench):
    csv = "# started on Fri\n\n3693409405,ns,duration_time,3693409405,100.00,,\n"
    csv += "3691.58,msec,task-clock:u,3691580000,100.00,1.0,CPUs utilized\n"
    csv += "11573436803,,cycles:u,3075000000,83.32,3.135,GHz\n<not supported>,,ref-cycles,0,100.00,,\n"
    json = (
        '{"counter-value" : "3693409405.000000", "unit" : "ns", "event" : "duration_time", "pcnt-running" : 100.00}\n'
        '{"counter-value" : "3691.580000", "unit" : "msec", "event" : "task-clock:u", "pcnt-running" : 100.00}\n'
        '{"counter-value" : "11573436803.000000", "unit" : "", "event" : "cycles:u", "pcnt-running" : 83.32}\n'
        '{"counter-value" : "<not supported>", "unit" : "", "event" : "ref-cycles", "pcnt-running" : 100.00}\n'
    )
    (row,) = stored(bench, load(bench, csv, "stat.csv"))
    assert row["duration_ns"] == 3_693_409_405 and row["task-clock"] == pytest.approx(3_691_580_000)
    assert row["cycles"] == 11_573_436_803 and row["cycles:running_pct"] == 83.32 and row["ref-cycles"] is None
    assert row["kernel"] == "stat"
    assert stored(bench, load(bench, csv.replace(",", ";"), "stat.txt")) == [row]
    assert stored(bench, load(bench, json, "stat.json")) == [row]


def test_events_of_a_pmu_with_commas_in_their_name_are_one_event(bench):
    text = "12,,cpu/event=0x3c,umask=0x0/u,900,100.00,,\n5,Joules,power/energy-pkg/,900,100.00,,\n"
    (row,) = stored(bench, load(bench, text, "stat.csv"))
    assert row["cpu/event=0x3c,umask=0x0/"] == 12 and row["power/energy-pkg/"] == 5


def test_an_event_counted_with_two_modifiers_keeps_both(bench):
    text = "1,,cycles:u,9,100.00,,\n2,,cycles:k,9,100.00,,\n3,,sched:sched_switch,9,100.00,,\n"
    (row,) = stored(bench, load(bench, text, "stat.csv"))
    assert (row["cycles:u"], row["cycles:k"], row["sched:sched_switch"]) == (1, 2, 3) and "cycles" not in row


def test_without_elapsed_time_there_is_no_duration_and_a_note_says_how_to_get_it(bench):
    done = load(bench, "1,,cycles,9,100.00,,\n", "stat.csv")
    assert stored(bench, done)[0]["duration_ns"] is None
    assert any("-e duration_time" in note for note in done.notes)


def test_a_command_beside_the_output_names_the_program(bench):
    for n in range(1, 12):
        folder = bench.folder / "out" / f"run_{n}"
        folder.mkdir(parents=True)
        (folder / "stat.csv").write_text(f"{n}000,ns,duration_time,9,100.00,,\n{n},,cycles,9,100.00,,\n")
        (folder / "command.txt").write_text("'/opt/my app/solve' -n 3\n")
    done = bench.load(bench.folder / "out")
    rows = stored(bench, done)
    assert [(r["kernel"], r["cycles"], r["duration_ns"]) for r in rows] == [
        ("solve", n, 1000 * n) for n in range(1, 12)
    ]
    assert done.passes == 1 and bench.manifest(done).command == "'/opt/my app/solve' -n 3"


def test_other_events_of_the_same_command_are_another_pass(bench):
    block = " Performance counter stats for './app':\n\n {} {}\n\n {} seconds time elapsed\n"
    (bench.folder / "out").mkdir()
    (bench.folder / "out" / "a.txt").write_text(block.format(5, "cycles", "1.0"))
    (bench.folder / "out" / "b.txt").write_text(block.format(7, "cache-misses", "1.1"))
    done = bench.load(bench.folder / "out")
    (row,) = stored(bench, done)
    assert done.passes == 2 and (row["cycles"], row["cache-misses"]) == (5, 7)


@pytest.mark.parametrize(
    ("text", "how"),
    [
        (" Performance counter stats for 'system wide':\n\nCPU0   108.99 msec task-clock\n", "per CPU"),
        (" Performance counter stats for 'system wide':\n\nS0     2   205.85 msec task-clock\n", "per CPU"),
        ("#           time             counts unit events\n   0.100227455   1.33 msec task-clock\n", "per interval"),
        ("CPU0,102.92,msec,task-clock,102917995,100.00,1.001,CPUs utilized\n", "per CPU"),
        ("S0,2,214.77,msec,task-clock,214773465,100.00,2.000,CPUs utilized\n", "per CPU"),
        ("     0.100218185,1.07,msec,task-clock,1066066,100.00,0.011,CPUs utilized\n", "interval"),
        ('{"cpu" : "0", "counter-value" : "1", "unit" : "", "event" : "cycles"}\n', "per CPU"),
        ('{"interval" : 0.1, "counter-value" : "1", "unit" : "", "event" : "cycles"}\n', "per interval"),
    ],
)
def test_counts_that_are_no_totals_of_a_run_are_refused_in_words(bench, text, how):
    with pytest.raises(BadInput, match=how):
        load(bench, text, "stat.out")
    assert bench.is_clean()


@pytest.mark.parametrize(
    "text",
    [
        " Performance counter stats for 'true':\n\n\n 0.001 seconds time elapsed of\n",
        '{"counter-value" "event" \n',
        "a,b\n",
    ],
)
def test_output_without_events_is_refused_or_has_none(bench, text):
    (bench.folder / "x.txt").write_text(text)
    try:
        done = bench.load(bench.folder / "x.txt", format="perf")
    except BadInput as problem:
        assert "x.txt" in problem.text
    else:
        assert done.counters <= 1


def test_a_huge_file_is_refused(bench):
    (bench.folder / "big.txt").write_text(PUBLISHED + "x" * (17 << 20))
    with pytest.raises(LimitExceeded, match="larger than 16 MiB"):
        bench.load(bench.folder / "big.txt")


def test_an_unknown_unit_keeps_the_value_and_warns(bench):
    done = load(bench, "7,furlong,speed,9,100.00,,\n", "stat.csv")
    assert stored(bench, done)[0]["speed"] == 7 and any("'furlong'" in w for w in done.warnings)


@needs_perf
@pytest.mark.parametrize("form", [[], ["-x,"], ["-x;"], ["-j"], ["-r", "2"], ["-r", "2", "-x,"], ["-r", "2", "-j"]])
def test_what_the_real_perf_writes_is_read(bench, form):
    file = bench.folder / "real.txt"
    done = subprocess.run(
        ["perf", "stat", *form, "-o", str(file), "-e", EVENTS, "sleep", "0.02"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"perf may not count here: {done.stderr[:80]}")
    found = bench.load(file)
    (row,) = stored(bench, found)
    # On a busy machine perf takes its start time after the program has begun to sleep.
    assert 1e5 < row["duration_ns"] < 5e9 and row["duration_ns"] == row["duration_time"]
    assert 1e5 < row["task-clock"] < 1e9 and row["page-faults"] > 10
    assert ("duration_time:error_pct" in row) == ("-r" in form)
    assert row["kernel"] == ("real" if {"-x,", "-x;", "-j"} & set(form) else "sleep")
