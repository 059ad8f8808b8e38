"""Gaussian blur."""

import torch
import torch.nn.functional as F

RADIUS = 12


def gaussian(width, device, dtype):
    """The weights of one dimension."""
    places = torch.arange(-RADIUS, RADIUS + 1, device=device, dtype=dtype)
    weights = torch.exp(-0.5 * (places / width) ** 2)
    return weights / weights.sum()


def blur(image, width):
    """An image (3, H, W), reflected at its edges, blurred."""
    weights = gaussian(width, image.device, image.dtype)
    kernel = torch.outer(weights, weights).expand(3, 1, -1, -1).contiguous()
    padded = F.pad(image[None], (RADIUS,) * 4, mode="reflect")
    return F.conv2d(padded, kernel, groups=3)[0]
