"""Tags of a stored workload, the only thing about one that changes: figures never depend on them."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.base.problems import BadArgument, NotFound, near
from ...analysis.base.text import count_text
from ...analysis.store.store import Manifest, Store
from ..base.workload_labels import TAG_LIMIT, checked_labels


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
