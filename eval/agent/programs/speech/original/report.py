"""What a run says about itself."""

import logging
import time
from contextlib import contextmanager

log = logging.getLogger("speech")


class Report:
    """Times of stages, and the focus of attention of recordings for plots."""

    def __init__(self, settings):
        log.setLevel(settings.level.upper())
        self.settings = settings
        self.stages, self.focus = {}, {}

    @contextmanager
    def stage(self, name):
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - begin

    def note_focus(self, numbers, focus):
        """Keep the focus of the recordings of a batch."""
        if focus is not None:
            self.focus.update(zip(numbers, focus, strict=True))

    def summary(self, archive, segments, purity, precision):
        """Log times, sizes and quality, and the keywords that are found worst."""
        for name, seconds in self.stages.items():
            log.info("%s: %.2f s", name, seconds)
        log.info("%d recordings, %.2f h, %d segments", len(archive), archive.hours(), len(segments))
        log.info("purity %.3f, precision %.3f", purity, precision.mean())
        if log.isEnabledFor(logging.INFO):
            by_keyword = {}
            for segment, share in zip(segments, precision.tolist(), strict=True):
                by_keyword.setdefault(segment.keyword, []).append(share)
            means = sorted((sum(shares) / len(shares), keyword) for keyword, shares in by_keyword.items())
            for mean, keyword in means[: self.settings.worst]:
                log.info("keyword %d: precision %.3f", keyword, mean)
