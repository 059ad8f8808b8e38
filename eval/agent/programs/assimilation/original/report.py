"""What a run tells at its end."""

import logging

log = logging.getLogger("assimilation")


def summary(result, settings):
    """Lines on windows, gauges and the last analysis."""
    lines = [f"{settings.run.name}: {len(result['courant'])} steps, Courant number up to {result['courant'].max():.3f}"]
    for number, used in enumerate(result["used"]):
        scores = ", ".join(f"{score:.4f}" for score in result["crps"][number])
        lines.append(
            f"window {number}: {used.sum()} of {len(used)} observations, signal {result['signal'][number]:.1f}, misfit "
            f"{result['background'][number]:.3f} before and {result['analysis'][number]:.3f} after, scores {scores}"
        )
    change = result["gauges"][-1] - result["gauges"][0]
    lines.append(f"gauges changed by {abs(change).max():.3f} m at most")
    for name, spread in zip(("height", "u", "v"), result["spread"], strict=True):
        lines.append(f"mean spread of {name}: {spread.mean():.5f}")
    return lines


def tell(result, settings):
    """Log the summary."""
    if settings.run.report:
        for line in summary(result, settings):
            log.info("%s", line)
