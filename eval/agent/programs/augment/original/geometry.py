"""Rotation and crop."""

import numpy as np
import torch
import torch.nn.functional as F


def rotation(angle, centre, scale):
    """The affine matrix from output to input coordinates, which reach from -1 to 1."""
    turn = np.deg2rad(angle)
    matrix = np.array([[np.cos(turn), -np.sin(turn), centre[0]], [np.sin(turn), np.cos(turn), centre[1]]])
    matrix[:, :2] *= scale
    return torch.from_numpy(matrix)


def crop(image, angle, centre, scale, size):
    """An image (3, H, W) rotated about a centre and sampled at size x size places."""
    matrix = rotation(angle, centre, scale).to(image.device)
    grid = F.affine_grid(matrix[None], [1, 3, size, size], align_corners=False)
    sampled = F.grid_sample(
        image[None].to(grid.dtype), grid, mode="bilinear", padding_mode="reflection", align_corners=False
    )
    return sampled[0]
