"""Record the programs of this folder, and say whether the first row of the answer is the cause.

    python eval/host/record.py [--store DIR] [--share S] [--only NAME ...] [--keep DIR]

Needs an NVIDIA GPU, nvcc, PyTorch, rooflens and py-spy. The store keeps one workload for each program, by its name.
With --share, programs take this share of their usual steps, for recordings that are small enough to be kept. --keep
writes the tables that the test of this suite reads, without the folders of this machine.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
_SHOWN = 4
_DEFAULT = re.compile(r'"--steps", type=int, default=(\d+)|atoi\(argv\[2\]\) : (\d+)')


def command(file, folder, share):
    """The command that runs a program; programs in CUDA are compiled into the folder first."""
    source = HERE / "programs" / file
    found = _DEFAULT.search(source.read_text())
    steps = max(3, round(share * int(found[1] or found[2])))
    if source.suffix != ".cu":
        return [sys.executable, str(source), "--steps", str(steps)]
    program = Path(folder) / source.stem
    subprocess.run(["nvcc", "-O0", "-g", "-arch=native", "-o", program, source], check=True)
    return [str(program), "--steps", str(steps)]


def rooflens(store, *words):
    """The answer of a command as JSON."""
    verb, *rest = words
    argv = [sys.executable, "-m", "rooflens", verb, "--store", str(store), "--json", *rest]
    return json.loads(subprocess.run(argv, capture_output=True, text=True, check=False).stdout or "{}")


def keep(store, name, folder, shorter):
    """Write the timeline and the stacks of a workload, with shorter names in place of some beginnings of paths."""
    import duckdb

    (row,) = rooflens(store, "sql", name, "SELECT DISTINCT workload FROM events")["table"]["rows"]
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    for table in ("events", "ranges", "host_samples", "host_stacks"):
        source = store / f"workload={row[0]}" / f"{table}.parquet"
        if source.is_file():
            path = "file"
            for begin, short in shorter.items():
                path = (
                    f"CASE WHEN starts_with(file, '{begin}') THEN '{short}' || file[{len(begin) + 1}:] ELSE {path} END"
                )
            columns = f"* REPLACE ({path} AS file)" if table == "host_stacks" else "*"
            copied = f"COPY (SELECT {columns} FROM '{source}') TO '{target / source.name}'"
            duckdb.execute(f"{copied} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 19)")


def rows(answer):
    """The rows of the table of host code as dictionaries."""
    table = answer.get("code") or {"columns": [], "rows": []}
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def main():
    """Record and judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--store", type=Path, default=Path("recorded"))
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--record-only", action="store_true", help="do not judge the answers")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    programs = tomllib.loads((HERE / "programs.toml").read_text())
    right = 0
    chosen = options.only or list(programs)
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen:
            program = programs[name]
            argv = command(program["file"], folder, options.share)
            begin = time.perf_counter()
            done = rooflens(options.store, "profile", "metrics=timeline", f"name={name}", "wait_s=300", "--", *argv)
            took_s = time.perf_counter() - begin
            if options.keep:
                keep(options.store, name, options.keep, {sys.prefix: "/venv", str(HERE): ""})
            if options.record_only:
                print(f"{name}: {done.get('state')} ({took_s:.1f} s)", flush=True)
                continue
            found = rows(rooflens(options.store, "timeline", name))
            wanted = {program["function"], *program["also"]}
            is_right = bool(found) and found[0]["function"] in wanted
            right += is_right
            print(f"{name}: {'right' if is_right else 'WRONG'} ({took_s:.1f} s)", flush=True)
            if not found:
                print("   ", str(done.get("answer") or done)[:300])
            for row in found[:_SHOWN]:
                told = [
                    row[name]
                    for name in ("function", "place", "idle_ms", "pct", "cause", "kind", "called_by", "source")
                ]
                print("   ", *told, sep=" | ", flush=True)
    print(f"{right} of {len(chosen)}: the first row is the cause")


if __name__ == "__main__":
    main()
