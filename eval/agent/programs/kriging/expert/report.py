"""A summary of the maps, for the log; nothing is read from the device where the log does not want it."""

import logging

log = logging.getLogger("kriging")


def show(settings, survey, fits, maps, validation, plan):
    log.setLevel(settings.level.upper())
    if not log.isEnabledFor(logging.INFO):
        return
    off = (validation.mean - survey.stacked("values", validation.mean.device)).abs() / validation.variance.sqrt()
    worst = off.topk(settings.worst)
    for n, (field, share) in enumerate(zip(survey, maps.share_above(), strict=True)):
        told = {name: value[n].item() for name, value in validation.scores.items()}
        start = fits.chosen[n].item()
        log.info(
            f"{field.name}: {len(field)} sites, start {start} of {len(field.starts)}, loss "
            f"{fits.losses[n, start, -1].item():.4f}, drift {fits.drifts[n].item():.3f}, RMSE {told['rmse']:.3f}, "
            f"NLPD {told['nlpd']:.3f}, coverage {told['coverage']:.2f}, {100 * share:.1f} % above the limit"
        )
        for number, deviations in zip(worst.indices[n].tolist(), worst.values[n].tolist(), strict=True):
            log.info(f"  site {number} is off by {deviations:.1f} standard deviations")
    log.info(f"{len(plan.chosen)} sensors, the first at {plan.chosen[:5].tolist()}")
