"""Loaders of a run."""

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader
from windows import Windows


class Batches(torch.utils.data.Dataset):
    """Batches that are slices of windows that lie on the device."""

    def __init__(self, windows, size):
        self.windows, self.size = windows, size

    def __len__(self):
        return -(-len(self.windows["series"]) // self.size)

    def __getitem__(self, number):
        return {name: x[number * self.size : (number + 1) * self.size] for name, x in self.windows.items()}


class LoadsModule(pl.LightningDataModule):
    """Training batches in the order of the case, and windows to evaluate with."""

    def __init__(self, case, panel, settings):
        super().__init__()
        self.case, self.settings = case, settings
        self.windows = Windows(panel, case, settings)
        self.training = self.evaluation = None

    def setup(self, stage=None):
        places = torch.as_tensor(self.case["batches"])
        self.training = Batches(self.windows.batch(places.flatten(0, 1)), places.shape[1])
        evaluation = self.windows.batch(torch.as_tensor(self.case["evaluation"]))
        self.evaluation = Batches(evaluation, self.settings.loader.evaluation_batch)

    def train_dataloader(self):
        return DataLoader(self.training, batch_size=None)

    def val_dataloader(self):
        return DataLoader(self.evaluation, batch_size=None)
