"""Select workloads: by reference, by labels, or all."""

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
    """Return its tags, and what is known about its origin as labels of the same form: branch=main, host=node7."""
    known = {"commit": manifest.commit, "branch": manifest.branch, "host": manifest.host, "name": manifest.name}
    return frozenset([*manifest.tags, *(f"{key}={value}" for key, value in known.items() if value)])


def choose_workloads(
    store: Store, references: Sequence[str], tags: Sequence[str] = (), every: bool = False
) -> list[Manifest]:
    """Return the workloads with these references (id, unique id prefix, name or latest), else all that have every tag.

    Oldest first, each once. Raises BadArgument if nothing is named, and NotFound if nothing matches.
    """
    if bool(references) + bool(tags or every) != 1:
        raise BadArgument("No workloads are selected", "give names or ids, --tag, or --all", "Use one of the three")
    if references:
        named_workloads = [store.resolve(reference) for reference in references]
        return list({m.id: m for m in named_workloads}.values())
    manifests = store.scan()[0]
    fitting = [m for m in manifests if labels(m).issuperset(tags)]
    if not fitting:
        every_label = sorted({label for m in manifests for label in labels(m)})
        if not manifests:
            missing = store.address == str(store.root) and not store.root.exists()
            what = f"There is no store at {store.address}" if missing else f"The store {store.address} is empty"
            raise NotFound(what, fix="Name another store, or import a profile into it")
        raise NotFound(f"No workload of {store.address} has {' and '.join(tags)}", near(tags[0], every_label))
    return fitting


def change_tags(store: Store, manifest: Manifest, add: Sequence[str], remove: Sequence[str]) -> Manifest:
    """Add the tags ``add`` to a workload and remove those in ``remove``.

    Raises BadArgument for an invalid tag or too many tags, and NotFound for a tag to remove that it does not have.
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
    """One workload, and whether it is new in the target store."""

    manifest: Manifest
    new: bool


def transfer(source: Store, target: Store, manifests: Sequence[Manifest]) -> list[TransferredWorkload]:
    """Copy workloads under their ids; existing ones are skipped, so the copy can be repeated.

    Raises StoreProblem if a store cannot be read or written, or contains another workload with the same id.
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
    """What to keep: workloads younger than ``younger_s``, the ``last`` of each name, and those with one of ``tags``."""

    younger_s: float | None = None
    last: int | None = None
    tags: Sequence[str] = ()

    @classmethod
    def parse(cls, keep: str | None, last: int | None, tags: Sequence[str]) -> RetentionRules:
        """Parse ages such as ``90d``, ``12w``, ``6h``, ``2y``. Raises BadArgument if nothing would be kept."""
        younger = None
        if keep is not None:
            match = _AGE.fullmatch(keep.strip())
            if not match:
                raise BadArgument(f"{keep!r} is not an age", "give a number and h, d, w or y", "Such as --keep 90d")
            younger = int(match[1]) * _UNITS_S[match[2]]
            if not younger:
                raise BadArgument(f"--keep {keep} keeps nothing", "nothing would be left", "For example --keep 90d")
        if last is not None and last < 1:
            raise BadArgument(f"--keep-last {last} keeps nothing", "nothing would be left", "Give 1 or more")
        if younger is None and last is None and not tags:
            what = "No rule says what to keep"
            raise BadArgument(what, "nothing would be left", "Give --keep AGE, --keep-last N or --keep-tag TAG")
        return cls(younger, last, tags)


def expired_workloads(
    manifests: Sequence[Manifest], rules: RetentionRules, now_ns: int | None = None
) -> list[Manifest]:
    """Return the workloads that no rule keeps, oldest first. Workloads dated in the future count as young.

    Raises NotFound with similar labels for a label to keep that no workload has.
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
