"""Engines: which there are, what they refuse, and how `auto` chooses the fastest."""

import sys
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import warmstart
from processes import finish
from small import reviews
from warmstart.deploy.export.compare_answers import compare_answers
from warmstart.errors import ModelError, RecipeError
from warmstart.inference import engine_selection
from warmstart.inference import engine_trial as trial
from warmstart.inference.batching import count_tokens
from warmstart.inference.engines import base
from warmstart.inference.engines.base import ModelSource
from warmstart.inference.exported_model import ExportedModel
from warmstart.inference.predictor import Predictor
from warmstart.models.loading import load_config

TEXTS = [text for text, _ in reviews(90)]


@pytest.mark.parametrize(
    ("engine", "precision"), [("onnx", "fp32"), ("openvino", "fp32"), ("onnx", "int8"), ("openvino", "bf16")]
)
def test_every_engine_answers(exported, engine, precision):
    predictor = warmstart.load(exported, precision, engine)
    assert (predictor.engine.name, predictor.engine.precision) == (engine, precision)
    found = compare_answers(warmstart.load(exported).predict(TEXTS), predictor.predict(TEXTS))
    assert found.differ == 0
    assert found.worst < (1e-4 if precision == "fp32" else 0.2)


SIGNALLED = """
import faulthandler, gc, os, signal, sys
from pathlib import Path
from warmstart.inference.engines.openvino import OpenVinoEngine
faulthandler.enable()
signal.signal(signal.SIGUSR1, lambda *given: print("handled"))
opened = [OpenVinoEngine(Path(sys.argv[1])) for _ in range(2)]
while opened:
    opened.pop(0)
    gc.collect()
os.kill(os.getpid(), signal.SIGUSR1)
"""


def test_a_signal_after_openvino_was_closed_twice_is_handled(exported):
    done = finish([sys.executable, "-c", SIGNALLED, exported / "onnx"])
    assert (done.returncode, done.stdout) == (0, "handled\n"), done.stderr


@pytest.mark.parametrize(
    ("engine", "precision", "said"),
    [
        ("tensorrt", "fp32", "engine: found 'tensorrt'"),
        ("torch", "int8", "--engine onnx"),
        ("onnx", "bf16", "--engine openvino or torch"),
        ("openvino", "fp16", "--engine torch"),
        ("onnx", "fp8", "precision: found 'fp8'"),
    ],
)
def test_what_there_is_not_is_refused(exported, engine, precision, said):
    with pytest.raises(RecipeError, match=said):
        warmstart.load(exported, precision, engine)


def test_an_engine_that_answers_otherwise_is_not_used(exported, monkeypatch):
    engines = {"onnx": {}, "openvino": {"refused": "openvino answers 3 of 9 test rows differently from PyTorch"}}
    monkeypatch.setattr(base, "open_export", lambda folder: ExportedModel(exported / "onnx", engines))
    with pytest.raises(ModelError, match="3 of 9"):
        warmstart.load(exported, engine="openvino")
    source = ModelSource(exported / "model", load_config(str(exported / "model")), lambda: None)
    tried = engine_selection.load_engine(source, "auto", "fp32").candidates
    assert [str(one) for one in tried] == ["torch fp32", "onnx fp32"]


def test_auto_takes_the_fastest(exported):
    predictor = Predictor.load(exported, engine="auto", precision="auto")
    answers = predictor.predict(TEXTS)
    speeds = predictor.trial["texts_per_second"]
    assert {"torch fp32", "onnx fp32", "onnx int8", "openvino fp32"} <= set(speeds)
    assert f"{predictor.engine.name} {predictor.engine.precision}" == max(speeds, key=speeds.get)
    assert compare_answers(Predictor.load(exported).predict(TEXTS), answers).differ == 0


def test_auto_tries_nothing_on_a_few_texts(exported, run):
    predictor = Predictor.load(exported, engine="auto")
    predictor.predict(TEXTS[:3])
    assert predictor.trial == {"engine": "torch", "precision": "fp32", "why": "a trial takes 64 texts, and there are 3"}
    predictor.predict(TEXTS)  # enough of them at last
    assert "texts_per_second" in predictor.trial
    alone = Predictor.load(run.folder, engine="auto")
    alone.predict(TEXTS)
    assert "nothing else to try" in alone.trial["why"]


class Slow:
    """An engine that takes a known time for each text."""

    gives_vectors, precision = False, "fp32"

    def __init__(self, name, seconds):
        self.name, self.seconds = name, seconds

    def compute(self, inputs):
        time.sleep(self.seconds * len(inputs["input_ids"]))
        return {}


def test_a_trial_keeps_to_its_time(monkeypatch):
    monkeypatch.setattr(trial, "SECONDS", 0.5)
    sides = [
        trial.EngineCandidate(name, "fp32", lambda n=name, s=s: Slow(n, s)) for name, s in (("a", 0.005), ("b", 0.0025))
    ]
    started = time.perf_counter()
    features = [{"input_ids": [1] * (64 + number)} for number in range(100)]
    batch = lambda some: {"input_ids": torch.zeros(len(some), 1)}  # noqa: E731
    engine, told = trial.settle(trial.UndecidedEngine(sides), features, batch)
    assert engine.name == "b"
    assert told["texts_per_second"]["b fp32"] == pytest.approx(400, rel=0.3)
    assert time.perf_counter() - started < 2


class Lengthy:
    """An engine whose time for a text is known by its length."""

    gives_vectors, precision = False, "fp32"

    def __init__(self, name, seconds):
        self.name, self.seconds, self.tried = name, seconds, 0

    def compute(self, inputs):
        self.tried += 1
        time.sleep(sum(map(self.seconds, inputs["lengths"])))
        return {}


def test_a_trial_weighs_long_texts_by_what_they_cost():
    """Nine of ten texts are short, but most of the time goes into the long ones, which decide."""
    sides = [
        Lengthy("short", lambda length: 1e-5 * length if length < 50 else 9e-5 * length),
        Lengthy("long", lambda length: 2e-5 * length),
        Lengthy("never", lambda length: 9e-5 * length),
    ]
    tried = trial.UndecidedEngine([trial.EngineCandidate(one.name, "fp32", lambda one=one: one) for one in sides])
    features = [{"input_ids": [1] * (10 if number % 10 else 500)} for number in range(200)]
    engine, told = trial.settle(tried, features, lambda some: {"lengths": [len(one["input_ids"]) for one in some]})
    assert engine is sides[1]
    assert max(told["texts_per_second"], key=told["texts_per_second"].get) == "long fp32"
    seconds = sum(2e-5 * len(one["input_ids"]) for one in features)
    assert told["texts_per_second"]["long fp32"] == pytest.approx(200 / seconds, rel=0.3)
    # Once to warm up, once to see that there is no hope.
    assert sides[2].tried == 2 < sides[1].tried


@given(st.lists(st.integers(1, 600), min_size=64, max_size=200))
def test_a_trial_is_made_of_groups_of_like_length(lengths):
    shares = trial.spread([{"input_ids": [0] * length} for length in lengths], 512)
    assert len(shares) == trial.GROUPS
    assert sum(texts for texts, _ in shares) == len(lengths)
    groups = [some for _, some in shares]
    assert all(groups)
    assert [max(map(count_tokens, one)) for one in groups] == sorted(max(map(count_tokens, one)) for one in groups)


def test_openvino_comes_without_its_telemetry(exported):
    warmstart.load(exported, engine="openvino")
    assert "openvino" in sys.modules
    assert "openvino_telemetry" not in sys.modules
