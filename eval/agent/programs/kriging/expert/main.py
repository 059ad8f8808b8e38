"""Maps air pollutants from scattered sites: fits, maps, cross-validation and a plan for new sensors."""

import report
import settings as configuration
from placement import plan
from prediction import Posterior, draw
from survey import Survey
from training import Trainer
from validation import validate


def run(case, device):
    """Everything for one survey; see program.toml for what is returned."""
    settings = configuration.read()
    survey = Survey(case, settings)
    fits = Trainer(settings, case["steps"], device).best(survey)
    posterior = Posterior(fits.model)
    maps = draw(posterior, survey, settings.prediction, device)
    validation = validate(posterior, survey, settings.validation, device)
    planned = plan(posterior, survey, settings.placement, case["sensors"], device)
    report.show(settings.report, survey, fits, maps, validation, planned)
    return {
        "losses": fits.losses,
        "chosen": fits.chosen,
        "hyperparameters": fits.model.hyperparameters(),
        "mean": maps.mean,
        "variance": maps.variance,
        "exceedance": maps.exceedance,
        "held_out_mean": validation.mean,
        "held_out_variance": validation.variance,
        "scores": validation.scores,
        "sensors": planned.chosen,
        "sensor_scores": planned.scores,
        "remaining": planned.remaining,
    }
