r"""AutoGluon: MultiModalPredictor on the same encoder, all else by its defaults.

Classifies single texts only. It needs a venv of its own, with torch pinned and first, as a looser request pulls a CUDA
build of gigabytes:

    python3.11 -m venv VENV
    echo torch==2.13.0 > pins.txt
    VENV/bin/pip install -c pins.txt torch==2.13.0
    VENV/bin/pip install -c pins.txt autogluon.multimodal==1.6.3
    VENV/bin/python studies/peers/autogluon_peer.py JOB.json
"""

from __future__ import annotations

import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pandas as pd
from autogluon.multimodal import MultiModalPredictor

import job


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """Fine-tune the encoder, predict the test rows."""
    if work.task != "classify" or work.train.pairs is not None:
        sys.exit("this peer is asked about single texts: neither scores nor pairs")
    rows = pd.DataFrame({"text": work.train.texts, "label": work.train.labels})
    settings = {
        "model.names": ["hf_text"],
        "model.hf_text.checkpoint_name": work.model,
        "model.hf_text.max_text_len": work.max_tokens,
        "env.num_gpus": 0,
        "env.num_workers": 0,
        "env.num_workers_inference": 0,
    }
    with tempfile.TemporaryDirectory() as folder:
        predictor = MultiModalPredictor(label="label", path=f"{folder}/model", verbosity=0)
        predictor.fit(rows, column_types={"text": "text"}, hyperparameters=settings, seed=work.seed)
        answers = predictor.predict(pd.DataFrame({"text": work.test.texts}))
    return [str(label) for label in answers], "AutoGluon's MultiModalPredictor with its defaults on the same encoder"


if __name__ == "__main__":
    job.run(answer, ("autogluon.multimodal", "transformers", "torch"))
