"""The stages of the pipeline: upload, filter, peaks, noise."""

import torch


def upload(chunk, device):
    """A chunk (channels, samples) on the device."""
    return chunk.to(device, non_blocking=True)


def spectrum(signal, length):
    """The transform of a signal that is filled up with zeros."""
    return torch.fft.fft(signal, n=length)


def matched(chunk, template):
    """The chunk correlated with a template at every lag, (channels, samples)."""
    samples = chunk.shape[-1]
    length = samples + len(template) - 1
    product = spectrum(chunk, length) * spectrum(template, length).conj()
    return torch.fft.ifft(product)[..., :samples]


def peaks(filtered):
    """The greatest magnitude of every channel, and its place."""
    values, places = filtered.abs().max(dim=-1)
    return values.float(), places


def noise_level(chunk):
    """The median magnitude of every channel."""
    return [chunk[channel].abs().median().item() for channel in range(chunk.shape[0])]
