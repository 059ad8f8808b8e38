"""Recordings: samples as they were stored, on the host and on the device."""

from dataclasses import dataclass

import numpy as np
import torch


@dataclass
class Clip:
    """One recording with the keyword that its speaker was asked for."""

    number: int
    samples: np.ndarray
    keyword: int

    def seconds(self, rate):
        return len(self.samples) / rate


class Archive:
    """The recordings of a case, in the order in which they arrived, and all samples in one row on the device."""

    def __init__(self, case, settings, device):
        self.settings, self.device = settings, device
        if case["sampling_rate"] != settings.sampling_rate:
            raise ValueError(f"recordings have {case['sampling_rate']} samples per second")
        self.clips = [
            Clip(number, samples, int(keyword))
            for number, (samples, keyword) in enumerate(zip(case["clips"], case["keywords"], strict=True))
        ]
        for clip in self.clips:
            if clip.samples.dtype != np.int16 or clip.samples.ndim != 1:
                raise ValueError(f"recording {clip.number} is not a row of 16-bit samples")
        self.lengths = [len(clip.samples) for clip in self.clips]
        self.begins = np.concatenate([[0], np.cumsum(self.lengths)])[:-1]
        self.row = torch.from_numpy(np.concatenate([clip.samples for clip in self.clips])).to(device)

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, number):
        return self.clips[number]

    def waveforms(self, numbers):
        """The levelled samples of recordings, padded with zeros."""
        longest = max(self.lengths[number] for number in numbers)
        facts = torch.tensor([[self.begins[n], self.lengths[n]] for n in numbers]).to(self.device)
        place = torch.arange(longest, device=self.device)
        at = (facts[:, :1] + place).clamp(max=len(self.row) - 1)
        values = self.row[at].float().div_(32768.0).masked_fill_(place >= facts[:, 1:], 0.0)
        return values * (self.settings.peak / values.abs().amax(1, keepdim=True).clamp(min=1e-4))

    def hours(self):
        return sum(clip.seconds(self.settings.sampling_rate) for clip in self.clips) / 3600
