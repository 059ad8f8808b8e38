"""Gaussian processes of many fields in one batch."""

import gpytorch
import kernels
import torch
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean

NAMES = ("constant", "outputscale", "lengthscale", "trend_scale", "trend_lengthscale", "noise")


class FieldModels(gpytorch.models.ExactGP):
    """Exact Gaussian processes with constant means, one for each row of inputs and targets."""

    def __init__(self, inputs, targets, settings):
        batch = inputs.shape[:1]
        super().__init__(inputs, targets, GaussianLikelihood(batch_shape=batch))
        self.settings = settings
        self.mean_module = ConstantMean(batch_shape=batch)
        self.covar_module = kernels.build(settings, batch)
        self.to(inputs)

    def forward(self, inputs):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))

    def start(self, values):
        """Set the hyperparameters, one row a process."""
        rough, smooth = self.covar_module.kernels
        self.mean_module.constant = values["constant"]
        rough.outputscale = values["outputscale"]
        rough.base_kernel.lengthscale = values["lengthscale"][:, None]
        smooth.outputscale = values["trend_scale"]
        smooth.base_kernel.lengthscale = values["trend_lengthscale"][:, None, None]
        self.likelihood.noise = values["noise"][:, None]
        return self

    def hyperparameters(self):
        """The hyperparameters by name, as tensors with one row a process."""
        rough, smooth = self.covar_module.kernels
        found = {
            "constant": self.mean_module.constant,
            "outputscale": rough.outputscale,
            "lengthscale": rough.base_kernel.lengthscale[:, 0],
            "trend_scale": smooth.outputscale,
            "trend_lengthscale": smooth.base_kernel.lengthscale[:, 0, 0],
            "noise": self.likelihood.noise[:, 0],
        }
        return {name: value.detach() for name, value in found.items()}

    @torch.no_grad()
    def rows(self, numbers):
        """The processes of some rows."""
        made = FieldModels(self.train_inputs[0][numbers], self.train_targets[numbers], self.settings)
        for new, old in zip(made.parameters(), self.parameters(), strict=True):
            new.copy_(old[numbers])
        return made

    def covariance(self, ones, others):
        """Covariances between places, as a tensor."""
        return self.covar_module(ones, others).to_dense()
