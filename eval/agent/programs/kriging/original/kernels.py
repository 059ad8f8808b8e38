"""Covariance of a field: a rough part in space and a smooth trend with altitude."""

from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior

ALTITUDE = 2


def spatial(settings):
    """A Matern kernel with a length for each of the three directions."""
    base = MaternKernel(
        nu=settings.smoothness,
        ard_num_dims=3,
        lengthscale_prior=GammaPrior(*settings.lengthscale_prior),
    )
    return ScaleKernel(base, outputscale_prior=GammaPrior(*settings.outputscale_prior))


def trend(settings):
    """A smooth function of altitude alone."""
    return ScaleKernel(RBFKernel(active_dims=[ALTITUDE]))


def build(settings):
    """The kernel that the settings describe."""
    kernel = spatial(settings)
    if settings.trend:
        kernel = kernel + trend(settings)
    return kernel
