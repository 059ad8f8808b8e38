"""A summary of the maps, for the log."""

import logging

log = logging.getLogger("kriging")


class Report:
    """Collects what is known of each field."""

    def __init__(self, settings):
        self.settings = settings
        log.setLevel(settings.level.upper())
        self.lines = []

    def field(self, field, fits, chosen, drawn, validation):
        told = validation.scores
        self.lines.append(
            f"{field.name}: {len(field)} sites, start {chosen} of {len(fits)}, loss {fits[chosen].loss:.4f}, "
            f"drift {fits[chosen].monitor.drift():.3f}, RMSE {told['rmse']:.3f}, NLPD {told['nlpd']:.3f}, "
            f"coverage {told['coverage']:.2f}, {100 * drawn.share_above():.1f} % above the limit"
        )
        off = abs(validation.mean - field.values) / validation.variance**0.5
        for number in off.argsort()[::-1][: self.settings.worst]:
            self.lines.append(f"  site {number} is off by {off[number]:.1f} standard deviations")

    def plan(self, plan):
        self.lines.append(f"{len(plan.chosen)} sensors, the first at {plan.chosen[:5]}")

    def show(self):
        for line in self.lines:
            log.info(line)
