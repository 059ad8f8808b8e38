"""What a run tells at its end."""

import logging

log = logging.getLogger("molecules")


def summary(history, errors, paths):
    """Lines on the losses, the errors and the relaxations."""
    lines = [f"loss {history.losses[0]:.5f} at first, {history.losses[-1]:.5f} at last"]
    lines.append(f"energy by atom off by {errors['energy']:.4f}, forces by {errors['force']:.4f}")
    lines += [f"  forces on kind {kind}: {error:.4f}" for kind, error in enumerate(errors["force_by_kind"])]
    for number, path in enumerate(paths):
        gained = path.energies[0] - path.energies[-1]
        lines.append(f"relaxation {number}: energy {gained:.4f} lower, largest force {path.largest[-1]:.4f}")
    return lines


def tell(history, errors, paths):
    """Log the summary."""
    for line in summary(history, errors, paths):
        log.info("%s", line)
