"""Loaders of a run."""

import lightning.pytorch as pl
from torch.utils.data import DataLoader
from windows import Windows


class LoadsModule(pl.LightningDataModule):
    """Training batches in the order of the case, and windows to evaluate with."""

    def __init__(self, case, panel, settings):
        super().__init__()
        self.case, self.panel, self.settings = case, panel, settings
        self.training = self.evaluation = None

    def setup(self, stage=None):
        places = [place for batch in self.case["batches"] for place in batch]
        self.training = Windows(self.panel, places, self.case, self.settings)
        self.evaluation = Windows(self.panel, self.case["evaluation"], self.case, self.settings)

    def train_dataloader(self):
        size = len(self.case["batches"][0])
        return DataLoader(self.training, batch_size=size, num_workers=self.settings.loader.num_workers)

    def val_dataloader(self):
        size = self.settings.loader.evaluation_batch
        return DataLoader(self.evaluation, batch_size=size, num_workers=self.settings.loader.num_workers)
