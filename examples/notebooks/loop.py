"""An optimisation loop in Python: diagnose a version, change it, compare, keep it or not.

python examples/notebooks/loop.py        # with the shipped profiles of one kernel, before and after a change

On a machine with a profiler, profile() below would be store.profile(["./app"], ["diagnosis"], name=version).
"""

from __future__ import annotations

import tempfile

import rooflens


def optimise(store: rooflens.OpenStore, versions: list[str]) -> str:
    """Walk through the versions; the name of the one that is to be kept."""
    kept = profile(store, versions[0])
    for version in versions[1:]:
        verdict = kept.diagnose().df().iloc[0]
        print(f"{kept.name}: {verdict['subsystem']} ({verdict['bound']}), confidence {verdict['confidence']:.2f}")
        candidate = profile(store, version)
        found = store.compare(kept, candidate, change=version)
        print(f"{version}: {found.verdict}, same work: {found.same_work}")
        print(found.df("metrics")[["metric", "baseline", "candidate", "unit"]].head(3).to_string(index=False))
        if found.verdict == "improved" and found.same_work == "yes":
            kept = candidate
        else:
            print(f"{kept.name} is kept: {found.answer}")
    return kept.name


def profile(store: rooflens.OpenStore, version: str) -> rooflens.OpenWorkload:
    """The workload of one version."""
    return store.import_profile(rooflens.samples()[version], name=version)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        optimise(rooflens.open(folder), ["yax_before", "yax_after"])
