"""The import of a profile into the store: read it, judge its figures, publish the workload."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...analysis.launches import device_clocks
from ...analysis.store.store import Manifest, Store
from ..base.profile_files import WORK, database, unreadable_as_bad_input
from ..base.untrusted_text import plain_text
from ..base.workload_labels import NAME_LIMIT
from .checks.counter_checks import doubts_of_readers, faults
from .merging.gather import gather
from .merging.merge import MergedProfile
from .merging.rank_table import write_ranks
from .registry import ranks_of, reader_for
from .samples.missing_line_info import missing_line_info
from .samples.sample_tables import kernels_in


def import_to_store(
    store: Store,
    source: Path,
    format: str,
    amend: Callable[[Manifest, MergedProfile], None],
    samples: Sequence[Mapping[str, Any]] = (),
    code: Sequence[Path] = (),
) -> tuple[Manifest, MergedProfile]:
    """Read the profile at ``source`` into a new workload.

    ``amend`` may correct what the reader found about the profile as a whole, before its figures are judged;
    ``samples`` of the device's sensors are kept beside them; ``code`` may hold the code of sampled kernels.
    """
    with unreadable_as_bad_input(source):
        ranks = ranks_of(source, format)
        reader = ranks[0] if ranks else reader_for(source, format)
    with store.draft() as folder:
        work = folder / WORK
        work.mkdir()
        with unreadable_as_bad_input(source), database(source, work) as con:
            if ranks:
                manifest, merged = gather(con, source, folder, ranks[1], partial(reader.read, code=code))
            else:
                manifest, merged = reader.read(con, source, folder, code)
            manifest.sampled = merged.sampled
            write_ranks(con, folder, manifest, merged)
            amend(manifest, merged)
            check_results = faults(con, folder, manifest, merged)
            manifest.doubts = [
                *doubts_of_readers(merged.warnings),
                *(doubt for one in check_results for doubt in one.doubts),
            ]
            merged.warnings += [one.note for one in check_results]
            merged.warnings += missing_line_info(con, folder, manifest, merged)
            device_clocks.save(con, folder, samples)
            merged.kernels = merged.kernels or kernels_in(con, folder)
        shutil.rmtree(work)
        manifest.name = plain_text(manifest.name, NAME_LIMIT) or "profile"
        manifest.dispatches, manifest.kernels, manifest.events = merged.dispatches, merged.kernels, merged.events
        manifest.samples = merged.samples
        manifest.counters, manifest.warnings = merged.counters, merged.warnings
        return store.publish(folder, manifest), merged
