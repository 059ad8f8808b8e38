"""Train for all batches; samples are on the device, and nothing is read back before the end."""

import torch
from data import decoded
from model import Network, loss_of


def run(case, device):
    """``losses`` of all steps, and ``parameters`` at the end, in the order of their names."""
    torch.set_float32_matmul_precision("high")
    network = Network(case).to(device)
    parameters = list(network.parameters())
    optimiser = torch.optim.SGD(parameters, lr=case["rate"], momentum=0.9, foreach=True)
    events, labels = decoded(case, device), torch.tensor(case["labels"], device=device)
    batches, losses = torch.tensor(case["batches"], device=device), []
    for batch in batches:
        loss = loss_of(network, events[batch], labels[batch])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.detach())
    state = network.state_dict()
    return {"losses": torch.stack(losses).cpu(), "parameters": {name: state[name] for name in sorted(state)}}
