"""The peer of `ulmfit_lm.py`: fastai's AWD_LSTM on the same tokens; runs in an environment that has fastai.

python fastai_peer.py FOLDER     # with tokens.npy and settings.json; writes weights.npz under our names

After each epoch, everything is kept in FOLDER/state.pt, and the same command goes on from there.
"""

from __future__ import annotations

import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fastai.callback.all import GradientClip
from fastai.callback.core import Callback, CancelValidException
from fastai.callback.rnn import rnn_cbs
from fastai.data.core import DataLoaders
from fastai.learner import Learner
from fastai.losses import CrossEntropyLossFlat
from fastai.optimizer import Adam
from fastai.text.data import LMDataLoader
from fastai.text.models.awdlstm import AWD_LSTM, awd_lstm_lm_config
from fastai.text.models.core import get_language_model


class Slanted(Callback):
    """The slanted triangular schedule, and the loss along it."""

    def __init__(self, rate: float, steps: int, warmup: float = 0.1, ratio: float = 32.0) -> None:
        self.rate, self.steps, self.ratio, self.rise = rate, steps, ratio, math.ceil(steps * warmup)
        self.step = 0
        self.along: dict[int, float] = {}

    def before_batch(self) -> None:
        low = 1 / self.ratio
        if self.step < self.rise:
            factor = low + (1 - low) * self.step / self.rise
        else:
            factor = low + (1 - low) * (1 - (self.step - self.rise) / max(self.steps - self.rise, 1))
        self.opt.set_hyper("lr", self.rate * factor)

    def before_validate(self) -> None:
        """Both sides are timed without a look at other text."""
        raise CancelValidException

    def after_batch(self) -> None:
        self.step += 1
        if self.step % 10 == 0:
            self.along[self.step] = math.exp(min(float(self.loss_func(self.pred, *self.yb)), 700))


def trained(learner: Learner, schedule: Slanted, given: dict[str, Any], kept: Path) -> float:
    """Train the epochs that are left; gives the seconds of all."""
    done, seconds = 0, 0.0
    if kept.is_file():
        state = torch.load(kept, weights_only=True)
        learner.create_opt()
        learner.model.load_state_dict(state["model"])
        learner.opt.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["random"])
        done, seconds, schedule.step, schedule.along = (state[name] for name in ("epochs", "seconds", "step", "along"))
    for epoch in range(done + 1, given["epochs"] + 1):
        started = time.perf_counter()
        with learner.no_bar(), learner.no_logging():
            learner.fit(1, given["rate"])
        seconds += time.perf_counter() - started
        optimizer = {name: [dict(one) for one in parts] for name, parts in learner.opt.state_dict().items()}
        state = {"model": learner.model.state_dict(), "optimizer": optimizer}
        state |= {"random": torch.get_rng_state(), "epochs": epoch, "seconds": seconds}
        state |= {"step": schedule.step, "along": schedule.along}
        torch.save(state, kept.with_suffix(".staging"))
        kept.with_suffix(".staging").replace(kept)
        print(f"epoch {epoch}: {seconds:.0f} seconds", file=sys.stderr, flush=True)
    return seconds


def main(folder: Path) -> None:
    """Train, and write the weights."""
    given = json.loads((folder / "settings.json").read_text())
    tokens = torch.from_numpy(np.load(folder / "tokens.npy"))
    loader = LMDataLoader([tokens], bs=given["batch"], seq_len=given["bptt"], shuffle=False)
    config = {**awd_lstm_lm_config, "emb_sz": given["embedding_size"], "n_hid": given["hidden_size"]}
    config |= {"n_layers": given["num_layers"], "pad_token": given["pad"]}
    torch.manual_seed(0)
    model = get_language_model(AWD_LSTM, given["vocab_size"], config=config)
    steps = len(loader) * given["epochs"]
    schedule = Slanted(given["rate"], steps)
    learner = Learner(
        DataLoaders(loader, loader),
        model,
        loss_func=CrossEntropyLossFlat(),
        opt_func=lambda params, lr, **_: Adam(params, lr, mom=0.7, sqr_mom=0.99, wd=0.01),
        cbs=[schedule, GradientClip(given["clip"]), *rnn_cbs(alpha=2.0, beta=1.0)],
    )
    seconds = trained(learner, schedule, given, folder / "state.pt")
    state = model.state_dict()
    weights = {"awd_lstm.embeddings.weight": state["0.encoder.weight"], "decoder.weight": state["1.decoder.weight"]}
    weights["decoder.bias"] = state["1.decoder.bias"]
    for layer in range(given["num_layers"]):
        for name in ("weight_ih_l0", "bias_ih_l0", "bias_hh_l0"):
            weights[f"awd_lstm.layers.{layer}.{name}"] = state[f"0.rnns.{layer}.module.{name}"]
        weights[f"awd_lstm.layers.{layer}.weight_hh_l0"] = state[f"0.rnns.{layer}.weight_hh_l0_raw"]
    np.savez(folder / "weights.npz", **{name: tensor.numpy() for name, tensor in weights.items()})
    print(json.dumps({"seconds": seconds, "steps": steps, "along": schedule.along}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
