"""Train a potential, evaluate it, and relax structures with it."""

import logging

import settings as configuration
from evaluation import evaluate
from model import build, described
from relaxation import relax
from report import tell
from training import fit

log = logging.getLogger("molecules")


def run(case, device):
    """Losses by step, errors, weights by name, and the path of every relaxation."""
    settings = configuration.load()
    model = build(case, settings, device)
    log.info("%s", described(model))
    history = fit(case, settings, device, model)
    errors = evaluate(case, settings, device, model)
    paths = relax(case, settings, device, model)
    tell(history, errors, paths)
    return {
        "losses": history.losses,
        "errors": errors,
        "parameters": {name: value.detach() for name, value in model.named_parameters()},
        "energies": [path.energies for path in paths],
        "largest_forces": [path.largest for path in paths],
        "positions": [path.positions for path in paths],
    }
