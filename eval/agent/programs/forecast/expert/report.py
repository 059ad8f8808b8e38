"""What a run tells at its end."""

import logging

log = logging.getLogger("forecast")


def summary(history):
    """Lines on the losses and the evaluations."""
    lines = [f"loss {history.losses[0]:.4f} at first, {history.losses[-1]:.4f} at last"]
    for step, one in zip(history.steps, history.evaluations, strict=True):
        worst = max(one["by_series"], key=one["by_series"].get)
        lines.append(f"step {step}: pinball loss {one['loss']:.4f}, root of mean square {one['rmse']:.2f}")
        lines.append(f"  worst series {worst} with {100 * one['by_series'][worst]:.1f} %")
        for name, share in one["coverage"].items():
            lines.append(f"  quantile {name}: {100 * share:.1f} % below, loss {one['by_quantile'][name]:.4f}")
    return lines


def tell(history):
    """Log the summary."""
    for line in summary(history):
        log.info("%s", line)
