"""How long many writers take to fill one shared store, and how long it then takes to list and query it.

`python benchmarks/team_store.py [--workloads 10000] [--writers 50]` starts a PostgreSQL in a temporary folder (its
programs and the extra ``team`` are needed), creates a DuckLake catalogue with its files in a folder, and lets the
writers push copies of a sample at the same time, each as a process of its own. It then checks that every workload is
there exactly once, and prints the times of the commands on a machine that has no copy of anything yet.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rooflens.analysis.store.manifest import MANIFEST, PREFIX
from rooflens.analysis.store.store import Store, new_id
from rooflens.tools.import_profile import import_profile

SAMPLE = Path(__file__).resolve().parents[1] / "server" / "samples" / "yax_before"
_NOBODY = 65534
_QUESTIONS = {
    "list (ls)": ["ls"],
    "SQL: median time of a kernel by commit": [
        "sql",
        "SELECT w.commit, min(w.created) AS created, d.kernel, median(d.duration_ns) AS median_ns FROM dispatches d "
        "JOIN workloads w USING (workload) WHERE d.kernel LIKE '%yax%' GROUP BY w.commit, d.kernel ORDER BY created",
    ],
    "SQL: workloads by branch": ["sql", "SELECT branch, count(*) AS n FROM workloads GROUP BY ALL"],
    "SQL: time of all dispatches": ["sql", "SELECT count(*) AS n, sum(duration_ns) AS ns FROM dispatches"],
}


def start_postgres(home: Path) -> subprocess.Popen[bytes]:
    """Start a PostgreSQL that only this user can reach, through a socket in ``home``."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    initdb = found[-1] if found else Path(shutil.which("initdb") or "initdb")
    other = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    if other:
        os.chown(home, _NOBODY, _NOBODY)
    create = [initdb, "-D", home / "data", "-A", "trust", "-U", "rooflens", "-E", "UTF8", "--locale=C"]
    subprocess.run(create, check=True, capture_output=True, cwd="/", **other)
    log = home / "log"
    with log.open("wb") as out:
        settings = ["-c", "listen_addresses=", "-k", home, "-c", "max_connections=200"]
        server = subprocess.Popen(
            [initdb.with_name("postgres"), "-D", home / "data", *settings], stdout=out, stderr=out, cwd="/", **other
        )
    while "ready to accept connections" not in log.read_text(errors="replace"):
        if server.poll() is not None:
            raise SystemExit(log.read_text(errors="replace"))
        time.sleep(0.1)
    return server


def fill(root: Path, template: Store, number: int, writer: int) -> None:
    """Put ``number`` copies of the only workload of ``template`` into a new local store."""
    sample = template.resolve("latest")
    for n in range(number):
        at = sample.created_ns + (writer * number + n) * 1_000_000_000
        stated = {
            "id": new_id(at),
            "name": f"w{writer}-{n}",
            "created_ns": at,
            "branch": f"b{writer}",
            "commit": f"{n:040x}",
        }
        manifest = sample.model_copy(update=stated)
        folder = root / f"{PREFIX}{manifest.id}"
        shutil.copytree(template.folder(sample), folder)
        (folder / MANIFEST).write_text(manifest.model_dump_json())


def run(words: list[str], cache: Path) -> tuple[float, str]:
    """Run a command of rooflens with its own cache; returns its seconds and output."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "rooflens", *words],
        env=os.environ | {"XDG_CACHE_HOME": str(cache)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{words}: {done.stderr[-2000:]}{done.stdout[-2000:]}")
    return time.perf_counter() - began, done.stdout


def measure(folder: Path, lake: str, workloads: int, writers: int) -> None:
    """Fill the store, check it, and print the times."""
    template = Store(folder / "template")
    import_profile(template, str(SAMPLE), name="sample")
    each = workloads // writers
    stores = [folder / f"writer{n}" for n in range(writers)]
    for n, store in enumerate(stores):
        store.mkdir()
        fill(store, template, each, n)
    print(f"new catalogue: {run(['init', '--store', lake, '--data', str(folder / 'data')], folder / 'cache')[0]:.1f} s")
    began = time.perf_counter()
    pushing = [
        subprocess.Popen(
            [sys.executable, "-m", "rooflens", "--store", str(store), "push", "--all", lake],
            env=os.environ | {"XDG_CACHE_HOME": str(folder / f"cache{n}")},
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        for n, store in enumerate(stores)
    ]  # fmt: skip
    for process in pushing:
        said = process.communicate()[1].decode(errors="replace")
        if process.returncode:
            print(f"a writer failed: {said[-600:]}")
    took = time.perf_counter() - began
    print(f"{each * writers} workloads from {writers} writers: {took:.0f} s, {each * writers / took:.0f} per second")
    listed = [manifest.id for manifest in Store.locate(lake).scan()[0]]
    wanted = {m.id for store in stores for m in Store(store).scan()[0]}
    print(f"in the catalogue: {len(listed)}, twice {len(listed) - len(set(listed))}, lost {len(wanted - set(listed))}")
    for title, words in _QUESTIONS.items():
        times = [run(["--store", lake, *words], folder / "reader")[0] for _ in range(2)]
        print(f"{title}: {times[0]:.1f} s, again {times[1]:.1f} s")


def main() -> None:
    """Parse the arguments, start the server, measure, and end what was started."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workloads", type=int, default=10_000)
    parser.add_argument("--writers", type=int, default=50)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="rooflens-pg-", dir="/tmp"))  # the path of a socket must be short
    folder = Path(tempfile.mkdtemp(prefix="rooflens-team-"))
    server = None
    try:
        server = start_postgres(home)
        measure(
            folder, f"ducklake:postgres:dbname=postgres host={home} user=rooflens", options.workloads, options.writers
        )
    finally:
        if server:
            server.send_signal(signal.SIGINT)
            server.wait()
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
