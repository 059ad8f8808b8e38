"""Delta-coded sequences of events."""

import torch
from torch.utils.data import DataLoader, Dataset, Sampler


class Events(Dataset):
    """Sequences of event numbers, each stored as zigzag-coded differences of seven bits a byte."""

    def __init__(self, blobs, labels, length, vocabulary):
        self.blobs, self.labels, self.length, self.vocabulary = blobs, labels, length, vocabulary

    def __len__(self):
        return len(self.blobs)

    def __getitem__(self, index):
        numbers, value, shift, last = [], 0, 0, 0
        for byte in self.blobs[index]:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                last += (value >> 1) ^ -(value & 1)
                numbers.append(last % self.vocabulary)
                value = shift = 0
        return torch.tensor(numbers[: self.length]), self.labels[index]


class Given(Sampler):
    """The batches that the case states."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)

    def __len__(self):
        return len(self.batches)


def loader(case):
    """A loader of all batches in order."""
    events = Events(case["blobs"], case["labels"], case["length"], case["vocabulary"])
    return DataLoader(events, batch_sampler=Given(case["batches"]), num_workers=0)
