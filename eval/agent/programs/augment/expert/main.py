"""Augment whole batches: bytes are copied, every step is a few launches for all images, in FP32."""

import math

import torch
import torch.nn.functional as F

LUMA = (0.299, 0.587, 0.114)
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RADIUS = 12


def _column(hows, name, device):
    return torch.tensor([how[name] for how in hows], device=device, dtype=torch.float32)


def _equalise(images):
    count = len(images)
    luma = images.new_tensor(LUMA).view(1, 3, 1, 1)
    brightness = (images * luma).sum(1).clamp(0, 255).long().flatten(1)
    flat = brightness + 256 * torch.arange(count, device=images.device)[:, None]
    histogram = torch.bincount(flat.flatten(), minlength=256 * count).view(count, 256)
    table = 255.0 * histogram.cumsum(1) / brightness.shape[1]
    factor = table.float().gather(1, brightness) / brightness.clamp(min=1)
    return (images * factor.view(count, 1, *images.shape[2:])).clamp(0, 255)


def _crop(images, hows, size):
    rows = []
    for how in hows:
        turn, scale = math.radians(how["angle"]), how["scale"]
        cos, sin = scale * math.cos(turn), scale * math.sin(turn)
        rows.append([[cos, -sin, how["centre"][0]], [sin, cos, how["centre"][1]]])
    matrices = torch.tensor(rows, device=images.device, dtype=torch.float32)
    grid = F.affine_grid(matrices, [len(hows), 3, size, size], align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def _jitter(images, hows):
    contrast, saturation = (_column(hows, name, images.device).view(-1, 1, 1, 1) for name in ("contrast", "saturation"))
    mean = images.mean((1, 2, 3), keepdim=True)
    images = (images - mean) * contrast + mean
    brightness = (images * images.new_tensor(LUMA).view(1, 3, 1, 1)).sum(1, keepdim=True)
    return (brightness + (images - brightness) * saturation).clamp(0, 255)


def _blur(images, hows):
    """Two convolutions of one dimension, with every channel of every image as a group of its own weights."""
    count, _, height, width = images.shape
    places = torch.arange(-RADIUS, RADIUS + 1, device=images.device)
    weights = torch.exp(-0.5 * (places / _column(hows, "blur", images.device)[:, None]) ** 2)
    weights = (weights / weights.sum(1, keepdim=True)).repeat_interleave(3, 0)
    x = F.pad(images, (RADIUS,) * 4, mode="reflect").view(1, 3 * count, height + 2 * RADIUS, width + 2 * RADIUS)
    x = F.conv2d(x, weights.view(3 * count, 1, 1, -1), groups=3 * count)
    return F.conv2d(x, weights.view(3 * count, 1, -1, 1), groups=3 * count).view(count, 3, height, width)


@torch.no_grad()
def run(case, device):
    """``means`` of every output image, and ``images``, the last batch."""
    means, last = [], None
    for images, hows in zip(case["batches"], case["hows"], strict=True):
        x = images.to(device).permute(0, 3, 1, 2).float()
        x = _blur(_jitter(_crop(_equalise(x), hows, case["size"]), hows), hows)
        mean, deviation = (x.new_tensor(values).view(1, 3, 1, 1) for values in (MEAN, DEVIATION))
        last = (x / 255 - mean) / deviation
        means.append(last.mean((1, 2, 3)))
    return {"means": torch.cat(means).cpu(), "images": last}
