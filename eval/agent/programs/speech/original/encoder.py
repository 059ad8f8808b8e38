"""The speech encoder and what it says about a batch."""

from dataclasses import dataclass

import torch
from transformers import Wav2Vec2BertConfig, Wav2Vec2BertModel
from weights import load

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass
class Encoded:
    """Hidden states of a batch, how many of its places count, and the attention maps if they were asked for."""

    states: torch.Tensor
    lengths: torch.Tensor
    attention: tuple | None = None

    def focus(self):
        """How much of the attention of the last layer goes to its strongest place, on average, for each recording."""
        if not self.attention:
            return None
        return self.attention[-1].amax(-1).mean((1, 2)).tolist()


class Encoder:
    """A Wav2Vec2-BERT encoder on a device."""

    def __init__(self, case, settings, device):
        self.settings, self.device = settings, device
        if settings.precision not in PRECISIONS:
            raise ValueError(f"no precision {settings.precision}")
        config = Wav2Vec2BertConfig(
            **case["model"],
            output_hidden_states=settings.keep_layers,
            output_attentions=settings.keep_attention,
            attn_implementation=settings.attention,
        )
        model = Wav2Vec2BertModel(config)
        model.to(device)
        load(model, case["seed"], device)
        self.model = model.to(PRECISIONS[settings.precision]).eval()

    @property
    def width(self):
        return self.model.config.hidden_size

    def __call__(self, features, mask):
        features = features.to(self.device, PRECISIONS[self.settings.precision])
        mask = mask.to(self.device)
        out = self.model(input_features=features, attention_mask=mask)
        states = out.hidden_states[self.settings.layer] if self.settings.keep_layers else out.last_hidden_state
        return Encoded(states, mask.sum(-1), out.attentions)
