"""Recordings: samples as they were stored, and levelled ones."""

from dataclasses import dataclass

import numpy as np


@dataclass
class Clip:
    """One recording with the keyword that its speaker was asked for."""

    number: int
    samples: np.ndarray
    keyword: int

    def seconds(self, rate):
        return len(self.samples) / rate


def levelled(samples, peak):
    """Samples as floats whose largest magnitude is the peak."""
    values = samples.astype(np.float32) / 32768.0
    return values * np.float32(peak / max(float(np.abs(values).max()), 1e-4))


class Archive:
    """The recordings of a case, in the order in which they arrived."""

    def __init__(self, case, settings):
        self.settings = settings
        if case["sampling_rate"] != settings.sampling_rate:
            raise ValueError(f"recordings have {case['sampling_rate']} samples per second")
        self.clips = [
            Clip(number, samples, int(keyword))
            for number, (samples, keyword) in enumerate(zip(case["clips"], case["keywords"], strict=True))
        ]
        for clip in self.clips:
            if clip.samples.dtype != np.int16 or clip.samples.ndim != 1:
                raise ValueError(f"recording {clip.number} is not a row of 16-bit samples")

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, number):
        return self.clips[number]

    def waveform(self, number):
        """The levelled samples of one recording."""
        return levelled(self.clips[number].samples, self.settings.peak)

    def hours(self):
        return sum(clip.seconds(self.settings.sampling_rate) for clip in self.clips) / 3600
