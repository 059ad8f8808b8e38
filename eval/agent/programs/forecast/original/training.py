"""The trainer of a run."""

import logging
import tempfile
import warnings

import lightning.pytorch as pl
from callbacks import History, Watch
from datamodule import LoadsModule
from lightning.pytorch.loggers import CSVLogger
from model import QuantileForecaster


def quiet():
    """The library's hints belong in no log of ours."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"lightning\..*")


def fit(case, panel, settings, device):
    """Train; returns the module and the history."""
    quiet()
    pl.seed_everything(settings.run.seed, verbose=False)
    model, data, history = QuantileForecaster(case, settings), LoadsModule(case, panel, settings), History()
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            accelerator="gpu" if device == "cuda" else "cpu",
            devices=1,
            logger=CSVLogger(folder, name=settings.run.name),
            callbacks=[history, Watch()],
            val_check_interval=len(case["batches"]) // 2,
            default_root_dir=folder,
            **settings.trainer,
        )
        trainer.fit(model, datamodule=data)
    return model, history
