"""Train a forecaster of hourly loads, and evaluate its quantiles."""

import logging

import settings as configuration
from report import tell
from series import described, read
from training import fit

log = logging.getLogger("forecast")


def run(case, device):
    """Losses and norms of gradients by step, evaluations at half of the steps and at the end, weights by name."""
    settings = configuration.load()
    panel = read(case, settings.features, device)
    log.info("%s", described(panel))
    model, history = fit(case, panel, settings, device)
    tell(history)
    return {
        "losses": history.losses,
        "gradient_norms": history.norms,
        "evaluations": history.evaluations,
        "best_step": history.best(),
        "parameters": {name: value.detach() for name, value in model.network.named_parameters()},
    }
