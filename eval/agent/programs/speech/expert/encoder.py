"""The speech encoder and what it says about a batch."""

from dataclasses import dataclass

import torch
from attention import DistanceAttention
from transformers import Wav2Vec2BertConfig, Wav2Vec2BertModel
from weights import load

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass
class Encoded:
    """Hidden states of a batch, and how many of its places count."""

    states: torch.Tensor
    lengths: list


class Encoder:
    """A Wav2Vec2-BERT encoder on a device."""

    def __init__(self, case, settings, device):
        self.settings, self.device = settings, device
        if settings.precision not in PRECISIONS:
            raise ValueError(f"no precision {settings.precision}")
        config = Wav2Vec2BertConfig(**case["model"], attn_implementation="sdpa")
        with torch.device("meta"):
            model = Wav2Vec2BertModel(config)
        model = load(model.to_empty(device=device), case["seed"], device)
        for layer in model.encoder.layers:
            layer.self_attn = DistanceAttention(layer.self_attn)
        self.model = model.to(PRECISIONS[settings.precision]).eval()

    @property
    def width(self):
        return self.model.config.hidden_size

    def __call__(self, features, lengths):
        """Encode a batch; lengths are on the host."""
        counts = torch.tensor(lengths).to(self.device)
        mask = torch.arange(features.shape[1], device=self.device) < counts[:, None]
        out = self.model(input_features=features.to(PRECISIONS[self.settings.precision]), attention_mask=mask.long())
        return Encoded(out.last_hidden_state, lengths)
