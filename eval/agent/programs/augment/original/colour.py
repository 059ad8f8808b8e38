"""Equalisation, jitter and normalisation."""

import torch

LUMA = (0.299, 0.587, 0.114)
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def equalise(image):
    """Map the brightness of an image (3, H, W; 0 to 255) by its cumulative histogram, keeping ratios of colours."""
    weights = torch.tensor(LUMA, device=image.device).view(3, 1, 1)
    brightness = (image * weights).sum(0).clamp(0, 255).long()
    histogram = torch.bincount(brightness.flatten(), minlength=256).tolist()
    table, so_far, total = [], 0, sum(histogram)
    for count in histogram:
        so_far += count
        table.append(255.0 * so_far / total)
    wanted = torch.tensor(table, device=image.device)[brightness]
    return (image * (wanted / brightness.clamp(min=1))).clamp(0, 255)


def jitter(image, contrast, saturation):
    """Change contrast about the mean, and saturation about the brightness."""
    image = (image - image.mean()) * contrast + image.mean()
    weights = torch.tensor(LUMA, device=image.device, dtype=image.dtype).view(3, 1, 1)
    brightness = (image * weights).sum(0, keepdim=True)
    return (brightness + (image - brightness) * saturation).clamp(0, 255)


def normalise(image):
    """Values as networks expect them."""
    mean, deviation = (torch.tensor(x, device=image.device, dtype=image.dtype).view(3, 1, 1) for x in (MEAN, DEVIATION))
    return (image / 255 - mean) / deviation
