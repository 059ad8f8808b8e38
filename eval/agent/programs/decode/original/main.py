"""Generate tokens for a batch of prompts."""

import torch
from model import Decoder
from sampling import sample


@torch.no_grad()
def run(case, device):
    """The generated tokens, (batch, steps)."""
    config = case["config"]
    model = Decoder(config, case["weights"], device)
    tokens = case["prompts"].to(device)
    logits, position, chosen = model.logits(tokens, 0), tokens.shape[1], []
    for step in range(config["steps"]):
        token = sample(logits, case["uniform"][step], config["top_k"], config["temperature"])
        chosen.append(token)
        logits = model.logits(token[:, None], position)
        position += 1
    return {"tokens": torch.stack(chosen, dim=1)}
