"""Log-mel features of recordings, as the encoder was trained on."""

from transformers import SeamlessM4TFeatureExtractor


class Processor:
    """Turns waveforms into a padded batch of features and its mask."""

    def __init__(self, settings, rate):
        self.settings, self.rate = settings, rate
        self.extractor = SeamlessM4TFeatureExtractor(
            feature_size=settings.mel_bins,
            num_mel_bins=settings.mel_bins,
            sampling_rate=rate,
            stride=settings.stride,
        )

    def __call__(self, waveforms):
        return self.extractor(
            waveforms,
            sampling_rate=self.rate,
            padding=self.settings.padding,
            pad_to_multiple_of=self.settings.stride,
            return_attention_mask=True,
            return_tensors="pt",
        )


class Collator:
    """Makes the inputs of the encoder for a list of numbers of recordings."""

    def __init__(self, archive, settings):
        self.archive, self.settings = archive, settings

    def __call__(self, numbers):
        processor = Processor(self.settings.features, self.settings.audio.sampling_rate)
        waveforms = [self.archive.waveform(number) for number in numbers]
        made = processor(waveforms)
        return made["input_features"], made["attention_mask"]
