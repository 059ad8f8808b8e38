"""Generate tokens for a batch of prompts; on a GPU, a step is one replay of a graph."""

import torch
from model import Decoder
from sampling import sample


@torch.no_grad()
def run(case, device):
    """The generated tokens, (batch, steps)."""
    config = case["config"]
    prompts = case["prompts"].to(device)
    batch, length = prompts.shape
    model = Decoder(config, case["weights"], device, batch)
    uniform = case["uniform"].to(device)
    logits = model.logits(prompts, torch.arange(length, device=device))
    state = {
        "logits": logits.clone(),
        "position": torch.full((1,), length, device=device),
        "step": torch.zeros(1, dtype=torch.long, device=device),
        "tokens": torch.zeros(batch, config["steps"], dtype=torch.long, device=device),
    }

    def step():
        now = uniform.index_select(0, state["step"])[0]
        token = sample(state["logits"], now, config["top_k"], config["temperature"])
        state["tokens"].index_copy_(1, state["step"], token[:, None])
        state["logits"].copy_(model.logits(token[:, None], state["position"]))
        state["position"] += 1
        state["step"] += 1

    if device == "cpu":
        for _ in range(config["steps"]):
            step()
        return {"tokens": state["tokens"]}
    kept = {name: value.clone() for name, value in state.items()}
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    for name, value in kept.items():
        state[name].copy_(value)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(config["steps"]):
        graph.replay()
    return {"tokens": state["tokens"]}
