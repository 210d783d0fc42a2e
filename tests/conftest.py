"""Fixtures for all tests: tiny encoders, small data, and no file outside the test's own folders."""

from __future__ import annotations

import csv
import gc
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings

import warm
from proving import figures
from small import FAST, reviews
from tiny import declare_mean_pooling, save_tiny

# A deadline measures the machine, which may be busy with other tests.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Rows read by the tests are cached in the tests' folder, not in the user's."""
    os.environ["WARMSTART_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module", autouse=True)
def frozen_libraries():
    """What libraries hold for good is not looked through again: each training collects garbage when it ends."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def real_data_or_skip(request):
    """Tests marked `real` need the real data beside the checkout."""
    if request.node.get_closest_marker("real") and not SHARED.is_dir():
        pytest.skip("no ../shared with real data beside the checkout")


@pytest.fixture(scope="session")
def shared():
    return SHARED


@pytest.fixture(scope="session")
def commands():
    """A folder with `warmstart` and `python`, which have the heavy libraries already imported."""
    # A socket's path must be short, which pytest's folders are not.
    with tempfile.TemporaryDirectory(prefix="warm-") as short, warm.start(Path(short) / "s") as folder:
        yield folder


@pytest.fixture
def prove(commands):
    """Gives the figures that a small sample of a proof ends with."""
    return partial(figures, commands / "python", "proofs")


@pytest.fixture
def sample(commands, tmp_path):
    """Gives the figures that a small sample of a benchmark ends with, which begins anew."""
    return partial(figures, commands / "python", "benchmarks", WARMSTART_BENCH_CACHE=str(tmp_path))


@pytest.fixture(scope="session")
def encoder(tmp_path_factory) -> str:
    """A tiny BERT without a head, as a pretrained encoder's folder."""
    return str(save_tiny(tmp_path_factory.mktemp("encoder") / "tiny-bert"))


@pytest.fixture(scope="session")
def sentences(encoder, tmp_path_factory) -> str:
    """An encoder whose folder says that its tokens are pooled by their mean."""
    folder = tmp_path_factory.mktemp("sentences") / "encoder"
    shutil.copytree(encoder, folder)
    declare_mean_pooling(folder)
    return str(folder)


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> dict[str, str]:
    """Small data files: `train` and `test` (text, label), `pairs` (text, other, label), `scores`, `many`."""
    folder = tmp_path_factory.mktemp("data")
    train, test = reviews(64), reviews(24, start=1000)
    tables = {
        "train": [("text", "label"), *train],
        "test": [("text", "label"), *test],
        "pairs": [("text", "other", "label"), *((a, f"it was {b}", b) for a, b in train)],
        "scores": [("text", "label"), *((a, str(4.5 if b == "pos" else 1.25)) for a, b in train)],
        "many": [("text", "label"), *((a, f"{b}|film" if n % 3 else b) for n, (a, b) in enumerate(train))],
    }
    for name, rows in tables.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    return {name: str(folder / f"{name}.csv") for name in tables}


@pytest.fixture(scope="session")
def run(encoder, files, tmp_path_factory):
    """A finished tiny run of `classify`, with test rows of its own."""
    import warmstart

    out = tmp_path_factory.mktemp("runs") / "reviews"
    return warmstart.fit(model=encoder, train=files["train"], test=files["test"], out=out, **FAST)
