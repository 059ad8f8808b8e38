"""Which workloads are meant: by reference, by labels, or all."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ...analysis.base.problems import BadArgument, NotFound, near
from ...analysis.base.text import count_text
from ...analysis.store.store import Manifest, Store
from ..base.arguments import TAG_LIMIT, checked_labels
from ..base.progress import report


def labels(manifest: Manifest) -> frozenset[str]:
    """Its tags, and what is known of where it comes from as labels of the same form: branch=main, host=node7."""
    known = {"commit": manifest.commit, "branch": manifest.branch, "host": manifest.host, "name": manifest.name}
    return frozenset([*manifest.tags, *(f"{key}={value}" for key, value in known.items() if value)])


def choose_workloads(
    store: Store, references: Sequence[str], tags: Sequence[str] = (), every: bool = False
) -> list[Manifest]:
    """The workloads of these references (each id, unique id prefix, name or latest), else of all that have every tag.

    Oldest first, each once. BadArgument where nothing was named; NotFound where nothing fits.
    """
    if bool(references) + bool(tags or every) != 1:
        raise BadArgument("Say which workloads", "by their names or ids, by --tag, or --all", "One of the three")
    if references:
        named_workloads = [store.resolve(reference) for reference in references]
        return list({m.id: m for m in named_workloads}.values())
    manifests = store.scan()[0]
    fitting = [m for m in manifests if labels(m).issuperset(tags)]
    if not fitting:
        every_label = sorted({label for m in manifests for label in labels(m)})
        if not manifests:
            raise NotFound(_nothing(store), fix="Name another store, or import a profile into it")
        raise NotFound(f"No workload of {store.address} has {' and '.join(tags)}", near(tags[0], every_label))
    return fitting


def _nothing(store: Store) -> str:
    """Why a store has no workload."""
    if store.address == str(store.root) and not store.root.exists():
        return f"There is no store at {store.address}"
    return f"The store {store.address} is empty"


def change_tags(store: Store, manifest: Manifest, add: Sequence[str], remove: Sequence[str]) -> Manifest:
    """The workload with ``add`` behind its tags and without ``remove``.

    Raises BadArgument for a tag that cannot be used or one too many, NotFound for one to remove that it does not have.
    """
    for tag in remove:
        if tag not in manifest.tags:
            raise NotFound(f"{manifest.name} ({manifest.id}) has no tag {tag!r}", near(tag, manifest.tags))
    remaining = [tag for tag in manifest.tags if tag not in remove]
    _, added = checked_labels(None, list(add))
    tags = list(dict.fromkeys([*remaining, *added]))
    if len(tags) > TAG_LIMIT or len(add) > TAG_LIMIT:
        raise BadArgument(f"{manifest.id} would have {count_text(len(tags), 'tag')}", fix=f"{TAG_LIMIT} are allowed")
    return manifest if tags == manifest.tags else store.retag(manifest, tags)


@dataclass(frozen=True)
class TransferredWorkload:
    """One workload, and whether it was not there before."""

    manifest: Manifest
    new: bool


def transfer(source: Store, target: Store, manifests: Sequence[Manifest]) -> list[TransferredWorkload]:
    """Copy workloads under their ids; what is there already is left, so that it can be repeated at will.

    Raises StoreProblem where a place refuses, or holds another workload of an id.
    """
    if source.address == target.address:
        raise BadArgument("Both stores are the same", source.address, "Name another with --store")
    new = target.add(source, manifests, report)
    return [TransferredWorkload(*pair) for pair in zip(manifests, new, strict=True)]


_DAY_S = 86_400
_UNITS_S = {"h": 3600, "d": _DAY_S, "w": 7 * _DAY_S, "y": 365 * _DAY_S}
_AGE = re.compile(r"(\d{1,5})([hdwy])")


@dataclass(frozen=True)
class RetentionRules:
    """What is kept: workloads younger than ``younger_s``, the ``last`` of each name, and those with one of ``tags``."""

    younger_s: float | None = None
    last: int | None = None
    tags: Sequence[str] = ()

    @classmethod
    def parse(cls, keep: str | None, last: int | None, tags: Sequence[str]) -> RetentionRules:
        """As a person writes them: ``90d``, ``12w``, ``6h``, ``2y``. BadArgument where nothing is to be kept."""
        younger = None
        if keep is not None:
            match = _AGE.fullmatch(keep.strip())
            if not match:
                raise BadArgument(f"{keep!r} is no age", "it is a whole number and h, d, w or y", "Such as --keep 90d")
            younger = int(match[1]) * _UNITS_S[match[2]]
            if not younger:
                raise BadArgument(f"--keep {keep} keeps nothing", "everything would go", "Such as --keep 90d")
        if last is not None and last < 1:
            raise BadArgument(f"--keep-last {last} keeps nothing", "everything would go", "Give 1 or more")
        if younger is None and last is None and not tags:
            what = "No rule says what to keep"
            raise BadArgument(what, "everything would go", "Give --keep AGE, --keep-last N or --keep-tag TAG")
        return cls(younger, last, tags)


def expired_workloads(
    manifests: Sequence[Manifest], rules: RetentionRules, now_ns: int | None = None
) -> list[Manifest]:
    """The workloads that no rule keeps, oldest first. What claims to be of the future is young.

    Raises NotFound, with near names, for a label to keep that nothing has.
    """
    there = {label for m in manifests for label in labels(m)}
    for tag in rules.tags:
        if manifests and tag not in there:
            raise NotFound(f"No workload has {tag}", near(tag, sorted(there)), "list_workloads shows tags")
    now = time.time_ns() if now_ns is None else now_ns
    count_by_name: dict[str, int] = {}
    going = []
    for manifest in sorted(manifests, key=lambda m: (m.created_ns, m.id), reverse=True):
        newer = count_by_name[manifest.name] = count_by_name.get(manifest.name, 0) + 1
        young = rules.younger_s is not None and now - manifest.created_ns < rules.younger_s * 1e9
        among_last = rules.last is not None and newer <= rules.last
        if not (young or among_last or not labels(manifest).isdisjoint(rules.tags)):
            going.append(manifest)
    return going[::-1]
