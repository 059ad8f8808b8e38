"""Covariance of fields: a rough part in space and a smooth trend with altitude, for a batch of fields."""

from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior

ALTITUDE = 2


def spatial(settings, batch):
    """A Matern kernel with a length for each of the three directions."""
    base = MaternKernel(
        nu=settings.smoothness,
        ard_num_dims=3,
        batch_shape=batch,
        lengthscale_prior=GammaPrior(*settings.lengthscale_prior),
    )
    return ScaleKernel(base, batch_shape=batch, outputscale_prior=GammaPrior(*settings.outputscale_prior))


def trend(batch):
    """A smooth function of altitude alone."""
    return ScaleKernel(RBFKernel(active_dims=[ALTITUDE], batch_shape=batch), batch_shape=batch)


def build(settings, batch):
    """The kernel that the settings describe."""
    if not settings.trend:
        raise ValueError("kernels without a trend are not implemented")
    return spatial(settings, batch) + trend(batch)
