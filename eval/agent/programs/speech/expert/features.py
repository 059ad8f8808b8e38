"""Log-mel features of recordings, as the encoder was trained on, computed for a batch on the device."""

import torch
from transformers import SeamlessM4TFeatureExtractor

WINDOW, HOP, TRANSFORM, EMPHASIS, FLOOR = 400, 160, 512, 0.97, 1.192092955078125e-07


def frames_of(samples):
    """How many frames a recording has."""
    return 1 + (samples - WINDOW) // HOP


class Collator:
    """Makes the inputs of the encoder for a list of numbers of recordings."""

    def __init__(self, archive, settings, device):
        self.archive, self.settings, self.device = archive, settings.features, device
        extractor = SeamlessM4TFeatureExtractor(
            feature_size=self.settings.mel_bins,
            num_mel_bins=self.settings.mel_bins,
            sampling_rate=settings.audio.sampling_rate,
            stride=self.settings.stride,
        )
        self.filters = torch.as_tensor(extractor.mel_filters, dtype=torch.float32, device=device)
        self.window = torch.as_tensor(extractor.window, dtype=torch.float32, device=device)
        self.places = [frames_of(length) // self.settings.stride for length in archive.lengths]

    def __call__(self, numbers):
        """Features, and how many places of each recording count."""
        stride = self.settings.stride
        waves = self.archive.waveforms(numbers) * 32768.0
        frames = waves.unfold(1, WINDOW, HOP)
        frames = frames - frames.mean(-1, keepdim=True)
        frames = torch.cat([frames[..., :1] * (1 - EMPHASIS), frames[..., 1:] - EMPHASIS * frames[..., :-1]], -1)
        power = torch.fft.rfft(frames * self.window, TRANSFORM).abs().square()
        mels = (power @ self.filters).clamp(min=FLOOR).log()
        counts = torch.tensor([frames_of(self.archive.lengths[n]) for n in numbers]).to(self.device)
        counts = counts[:, None, None]
        outside = torch.arange(mels.shape[1], device=self.device)[None, :, None] >= counts
        centred = mels - mels.masked_fill(outside, 0.0).sum(1, keepdim=True) / counts
        centred.masked_fill_(outside, 0.0)
        mels = centred / (centred.square().sum(1, keepdim=True) / (counts - 1) + 1e-7).sqrt()
        places = max(self.places[n] for n in numbers)
        rows = -(-places // 8) * 8 * stride  # aligned for the kernels of attention
        mels = torch.nn.functional.pad(mels, (0, 0, 0, max(0, rows - mels.shape[1])))[:, :rows]
        return mels.reshape(len(numbers), rows // stride, -1), [self.places[n] for n in numbers]
