"""Tags of a stored workload, the only thing about one that changes: figures never depend on them."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.problems import BadArgument, NotFound, near
from ...analysis.store import Manifest, Store
from ...analysis.text import counted
from ..import_profile import TAG_LIMIT, checked_labels


def tagged(store: Store, manifest: Manifest, add: Sequence[str], remove: Sequence[str]) -> Manifest:
    """The workload with ``add`` behind its tags and without ``remove``.

    Raises BadArgument for a tag that cannot be used or one too many, NotFound for one to remove that it does not have.
    """
    for tag in remove:
        if tag not in manifest.tags:
            raise NotFound(f"{manifest.name} ({manifest.id}) has no tag {tag!r}", near(tag, manifest.tags))
    kept = [tag for tag in manifest.tags if tag not in remove]
    _, given = checked_labels(None, list(add))
    tags = list(dict.fromkeys([*kept, *given]))
    if len(tags) > TAG_LIMIT or len(add) > TAG_LIMIT:
        raise BadArgument(f"{manifest.id} would have {counted(len(tags), 'tag')}", fix=f"{TAG_LIMIT} are allowed")
    return manifest if tags == manifest.tags else store.retag(manifest, tags)
