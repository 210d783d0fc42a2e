r"""AutoGluon: its few-shot preset, a support vector machine on the mean of the frozen encoder's token vectors.

Classifies single texts only. It needs a venv of its own, with torch pinned, as a looser request pulls a CUDA build of
gigabytes:

    python3.11 -m venv VENV
    echo torch==2.13.0 > pins.txt
    VENV/bin/pip install -c pins.txt torch==2.13.0
    VENV/bin/pip install -c pins.txt autogluon.multimodal==1.6.3
    VENV/bin/python studies/peers/autogluon_peer.py JOB.json

The preset's encoder, all-mpnet-base-v2, is replaced by the job's.
"""

from __future__ import annotations

import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import pandas
import torch

try:
    import torchvision  # noqa: F401
except RuntimeError:
    # A torchvision built for CUDA lacks its operators beside a torch built for CPUs. Two of them are asked for at
    # import, and texts need none.
    OPERATORS = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        OPERATORS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from autogluon.multimodal import MultiModalPredictor

import job


def answer(work: job.Job) -> tuple[job.Answers, str]:
    """Fit the preset, predict the test rows."""
    if work.task != "classify" or work.train.pairs is not None:
        sys.exit("the few-shot preset classifies: it takes neither scores nor pairs")
    settings = {
        "model.hf_text.checkpoint_name": work.model,
        "model.hf_text.max_text_len": work.max_tokens,
        "env.num_gpus": 0,
        "env.num_workers": 0,
        "env.num_workers_inference": 0,
    }
    with tempfile.TemporaryDirectory() as folder:
        predictor = MultiModalPredictor(
            label="label",
            problem_type="few_shot_classification",
            path=f"{folder}/predictor",
            verbosity=0,
            enable_progress_bar=False,
        )
        train = pandas.DataFrame({"text": work.train.texts, "label": work.train.labels})
        # A text that looks like a category or a number is a text all the same.
        predictor.fit(train, hyperparameters=settings, column_types={"text": "text"}, seed=work.seed)
        answers = predictor.predict(pandas.DataFrame({"text": work.test.texts}), as_pandas=False)
    notes = "AutoGluon's few-shot preset: a support vector machine on the frozen encoder"
    return [str(label) for label in answers], notes


if __name__ == "__main__":
    job.run(answer, ("autogluon.multimodal", "scikit-learn", "torch"))
