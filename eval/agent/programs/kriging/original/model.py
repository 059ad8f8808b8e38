"""The Gaussian process of one field."""

import gpytorch
import kernels
import torch
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean

NAMES = ("constant", "outputscale", "lengthscale", "trend_scale", "trend_lengthscale", "noise")


class FieldModel(gpytorch.models.ExactGP):
    """An exact Gaussian process with a constant mean."""

    def __init__(self, inputs, targets, settings):
        super().__init__(inputs, targets, GaussianLikelihood())
        self.settings = settings
        self.mean_module = ConstantMean()
        self.covar_module = kernels.build(settings)

    def forward(self, inputs):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))

    def parts(self):
        """The kernel in space and the trend (None where there is none)."""
        return tuple(self.covar_module.kernels) if self.settings.trend else (self.covar_module, None)

    def start(self, values):
        """Set the hyperparameters."""
        rough, smooth = self.parts()
        self.mean_module.constant = values["constant"]
        rough.outputscale = values["outputscale"]
        rough.base_kernel.lengthscale = torch.as_tensor(values["lengthscale"]).to(rough.outputscale)
        if smooth is not None:
            smooth.outputscale = values["trend_scale"]
            smooth.base_kernel.lengthscale = values["trend_lengthscale"]
        self.likelihood.noise = values["noise"]
        return self

    def hyperparameters(self):
        """The hyperparameters by name."""
        rough, smooth = self.parts()
        return {
            "constant": self.mean_module.constant.item(),
            "outputscale": rough.outputscale.item(),
            "lengthscale": [length.item() for length in rough.base_kernel.lengthscale[0]],
            "trend_scale": smooth.outputscale.item() if smooth is not None else 0.0,
            "trend_lengthscale": smooth.base_kernel.lengthscale.item() if smooth is not None else 1.0,
            "noise": self.likelihood.noise.item(),
        }

    def prior_variance(self):
        """The variance of the field where nothing is known."""
        return sum(part.outputscale.item() for part in self.parts() if part is not None)


def make(inputs, targets, settings, device):
    """A model of some sites on a device."""
    inputs = torch.as_tensor(inputs, device=device)
    targets = torch.as_tensor(targets, device=device)
    return FieldModel(inputs, targets, settings).to(inputs)


def like(model, inputs, targets):
    """A model with the same hyperparameters for other sites."""
    made = FieldModel(inputs, targets, model.settings).to(inputs)
    made.load_state_dict(model.state_dict())
    return made
