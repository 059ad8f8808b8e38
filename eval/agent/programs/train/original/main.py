"""Train for all batches."""

import torch
from data import loader
from model import Network, loss_of
from optimiser import Momentum


def run(case, device):
    """``losses`` of all steps, and ``parameters`` at the end, in the order of their names."""
    torch.set_float32_matmul_precision("highest")
    network = Network(case).to(device)
    optimiser = Momentum(network.parameters(), case["rate"], 0.9, 1.0)
    losses = []
    for events, labels in loader(case):
        loss = loss_of(network, events.to(device), labels.to(device))
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    state = network.state_dict()
    return {"losses": torch.tensor(losses), "parameters": {name: state[name] for name in sorted(state)}}
