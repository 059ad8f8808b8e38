"""Maps air pollutants from scattered sites: fits, maps, cross-validation and a plan for new sensors."""

import numpy as np
import settings as configuration
from model import NAMES
from placement import Planner
from prediction import Predictor
from report import Report
from survey import Survey
from training import Trainer
from validation import Validator


def stacked(records, names):
    """One array for each name, one row a record."""
    return {name: np.array([record[name] for record in records]) for name in names}


def run(case, device):
    """Everything for one survey; see program.toml for what is returned."""
    settings = configuration.read()
    survey = Survey(case, settings)
    report = Report(settings.report)
    trainer = Trainer(settings, case["steps"], device)
    predictor = Predictor(settings.prediction, device)
    validator = Validator(predictor, settings.validation, device)

    losses, chosen, models, maps, validations = [], [], [], [], []
    for field in survey:
        fits, best = trainer.best(field)
        losses.append([fit.monitor.losses for fit in fits])
        chosen.append(best)
        models.append(fits[best].model)
        maps.append(predictor.map(field, models[-1], survey))
        validations.append(validator(field, models[-1]))
        report.field(field, fits, best, maps[-1], validations[-1])

    plan = Planner(models, survey, settings.placement, device).plan(case["sensors"])
    report.plan(plan)
    report.show()
    return {
        "losses": np.array(losses),
        "chosen": np.array(chosen),
        "hyperparameters": stacked([model.hyperparameters() for model in models], NAMES),
        "mean": np.stack([drawn.mean for drawn in maps]),
        "variance": np.stack([drawn.variance for drawn in maps]),
        "exceedance": np.stack([drawn.exceedance for drawn in maps]),
        "held_out_mean": np.stack([validation.mean for validation in validations]),
        "held_out_variance": np.stack([validation.variance for validation in validations]),
        "scores": stacked([validation.scores for validation in validations], ("rmse", "nlpd", "coverage", "crps")),
        "sensors": np.array(plan.chosen),
        "sensor_scores": np.array(plan.scores),
        "remaining": plan.remaining,
    }
