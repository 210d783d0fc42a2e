"""Checkpoints of BERT that TensorFlow wrote, imported without it: the same outputs as the weights they were made from.

Models of transformers are saved by TensorFlow under Google's names, of BERT-base's size and tiny, with and without
heads, in one data file and in several; `warmstart import` reads them, and their outputs are compared. Then checkpoints
are damaged in twenty ways, each of which must be refused with the file and the place.

    proofs/import_checkpoints.py --tensorflow PYTHON [--samples FOLDER]

Without an environment that has TensorFlow, the tiny checkpoints kept in tests/samples/tensorflow are imported alone.
"""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from common import arguments, finish, write_page
from warmstart.errors import WarmstartError
from warmstart.models.tensorflow.import_bert import import_bert

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "tests" / "samples" / "tensorflow"
TINY = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "vocab_size": 40}
TINY |= {"max_position_embeddings": 20}
BASE = {"vocab_size": 30_522}
CASES = {
    "tiny": ("BertForPreTraining", TINY, 1),
    "tiny-encoder": ("BertModel", TINY, 1),
    "tiny-masked": ("BertForMaskedLM", TINY, 1),
    "tiny-shards": ("BertForPreTraining", TINY, 3),
    "base": ("BertForPreTraining", BASE, 1),
    "base-encoder": ("BertModel", BASE, 1),
    "base-shards": ("BertForPreTraining", BASE, 4),
}
"""The class, the config and the data files of each."""


def google_names(model: transformers.PreTrainedModel) -> Iterator[tuple[str, np.ndarray]]:
    """The weights under the names and in the shapes that Google's code saved them with, and some of an optimizer."""
    prefix = "" if any(name.startswith("bert.") for name in model.state_dict()) else "bert."
    for name, tensor in model.state_dict().items():
        if ".decoder." in name:  # those of the embeddings
            continue
        key, array = (prefix + name).replace(".layer.", ".layer_").replace(".", "/"), tensor.numpy()
        if "LayerNorm" in key:
            key = key.replace("/weight", "/gamma").replace("/bias", "/beta")
        elif key.endswith("embeddings/weight"):
            key = key.removesuffix("/weight")
        elif key.startswith("cls/seq_relationship"):
            key = key.replace("/weight", "/output_weights").replace("/bias", "/output_bias")
        elif key == "cls/predictions/bias":
            key = "cls/predictions/output_bias"
        elif key.endswith("/weight"):
            key, array = key.replace("/weight", "/kernel"), array.T
        yield key, np.ascontiguousarray(array)
        if key == "bert/pooler/dense/bias":
            yield f"{key}/adam_m", array
            yield "global_step", np.array(7, dtype=np.int64)


def build(name: str, folder: Path, python: str) -> transformers.PreTrainedModel:
    """Write a checkpoint by TensorFlow, with the files that come with it; gives the model it was made from."""
    kind, sizes, shards = CASES[name]
    torch.manual_seed(len(name))
    config = transformers.BertConfig(**sizes)
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # biases and norms would be all alike
                parameter.add_(torch.randn_like(parameter) * 0.1)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "tensors.npz"
        np.savez(file, **dict(google_names(model)))
        command = [python, str(Path(__file__).with_name("write_tensorflow.py")), str(file)]
        subprocess.run([*command, str(folder / "bert_model.ckpt"), str(shards)], check=True, capture_output=True)
    (folder / "checkpoint").unlink(missing_ok=True)
    known = transformers.BertConfig().to_dict().keys() & {*TINY, "type_vocab_size", "hidden_act", "initializer_range"}
    (folder / "bert_config.json").write_text(json.dumps({key: getattr(config, key) for key in sorted(known)}, indent=1))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = special + [f"w{number}" for number in range(config.vocab_size - len(special))]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    return model


def outputs(model: transformers.PreTrainedModel) -> dict[str, torch.Tensor]:
    """What a model computes for two texts, one of them padded."""
    ids = torch.randint(5, model.config.vocab_size, (2, 12), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    with torch.no_grad():
        return {key: value for key, value in model.eval()(ids, mask).items() if torch.is_tensor(value)}


def difference(folder: Path, expected: transformers.PreTrainedModel, out: Path) -> tuple[float, float]:
    """The largest difference of the outputs after the import, and the seconds that it took."""
    start = time.perf_counter()
    imported = import_bert(folder, out, lower_case=True)
    seconds = time.perf_counter() - start
    opened = getattr(transformers, imported.model).from_pretrained(out)
    assert type(opened) is type(expected)
    here, there = outputs(opened), outputs(expected)
    return max(float((here[key] - there[key]).abs().max()) for key in there), seconds


Damage = Callable[[Path], object]


def edit(file: str, change: Callable[[bytes], bytes]) -> Damage:
    """A damage to one file of a folder."""
    return lambda folder: (folder / file).write_bytes(change((folder / file).read_bytes()))


def flip(place: int) -> Callable[[bytes], bytes]:
    """One bit of a byte turned over; from the end where the place is negative."""

    def change(data: bytes) -> bytes:
        at = place % len(data)
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    return change


def config_with(**values: object) -> Damage:
    """A config with some values replaced; None leaves one out."""

    def change(data: bytes) -> bytes:
        kept = {**json.loads(data), **values}
        return json.dumps({key: value for key, value in kept.items() if value is not None}).encode()

    return edit("bert_config.json", change)


def words_with(old: bytes, new: bytes) -> Damage:
    """A vocabulary with a word replaced."""
    return edit("vocab.txt", lambda data: data.replace(old, new))


INDEX, DATA = "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"
DAMAGES: dict[str, tuple[Damage, str]] = {
    "index missing": (lambda folder: (folder / INDEX).unlink(), r"expected one file \*\.index"),
    "two indexes": (lambda folder: shutil.copy(folder / INDEX, folder / f"b{INDEX}"), "expected one file"),
    "index empty": (edit(INDEX, lambda data: b""), rf"{INDEX}: found 0 bytes"),
    "index cut short": (edit(INDEX, lambda data: data[:-1]), rf"{INDEX}: byte \d+: found no end of a table"),
    "index without its beginning": (edit(INDEX, lambda data: data[9:]), rf"{INDEX}: .*(checksum|block|number)"),
    "first byte of the index": (edit(INDEX, flip(0)), rf"{INDEX}: the checksum of the block at byte 0 is wrong"),
    "middle of the index": (edit(INDEX, flip(700)), rf"{INDEX}: the checksum of the block at byte \d+ is wrong"),
    "footer of the index": (edit(INDEX, flip(-48)), rf"{INDEX}: "),
    "magic number": (edit(INDEX, flip(-1)), rf"{INDEX}: byte \d+: found no end of a table"),
    "zeros for an index": (edit(INDEX, lambda data: bytes(len(data))), rf"{INDEX}: byte"),
    "data missing": (lambda folder: (folder / DATA).unlink(), rf"{DATA}: found no such file, which holds \S+"),
    "data cut short": (edit(DATA, lambda data: data[:-8]), rf"{DATA}: \S+: found [\d,]+ bytes, expected at least"),
    "first byte of the data": (edit(DATA, flip(0)), rf"{DATA}: \S+: the checksum of the [\d,]+ bytes at byte [\d,]+"),
    "middle of the data": (edit(DATA, flip(9000)), rf"{DATA}: \S+: the checksum of the [\d,]+ bytes"),
    "data of another": (edit(DATA, lambda data: data[::-1]), rf"{DATA}: \S+: the checksum"),
    "config missing": (lambda folder: (folder / "bert_config.json").unlink(), "bert_config.json: found no such file"),
    "config that is no JSON": (edit("bert_config.json", lambda data: data[:40]), "bert_config.json"),
    "another hidden size": (config_with(hidden_size=32), r"\S+: found the shape \[.*16.*\], expected \[.*32"),
    "one layer more": (config_with(num_hidden_layers=3), r"lacks \d+ of the model's weights: bert\.encoder\.layer\.2"),
    "one layer fewer": (config_with(num_hidden_layers=1), r"bert\.encoder\.layer\.1\S+: not a weight"),
    "a size left out": (config_with(vocab_size=None), "bert_config.json: vocab_size: found 'None'"),
    "vocabulary missing": (lambda folder: (folder / "vocab.txt").unlink(), "vocab.txt: found no such file"),
    "a word fewer": (words_with(b"w3\n", b""), "vocab.txt: found 39 lines, expected 40"),
    "a word twice": (words_with(b"w3\n", b"w2\n"), r"vocab\.txt:9: found 'w2' again"),
    "no mask token": (words_with(b"[MASK]", b"w99"), r"vocab\.txt: found no \[MASK\]"),
}
"""Ways to damage a checkpoint, and what the refusal must say."""


def refusals(sample: Path, count: int) -> tuple[int, list[str]]:
    """How many damages were tried, and those that were not refused by name and place."""
    wrong = []
    tried = list(DAMAGES.items())[:count]
    for name, (damage, said) in tried:
        with tempfile.TemporaryDirectory() as place:
            folder, out = Path(place) / "checkpoint", Path(place) / "out"
            shutil.copytree(sample, folder)
            damage(folder)
            try:
                import_bert(folder, out, lower_case=True)
                wrong.append(f"{name}: taken")
            except WarmstartError as error:
                if not re.search(said, str(error)):
                    wrong.append(f"{name}: {error}")
            if out.exists():
                wrong.append(f"{name}: a folder was left")
    return len(tried), wrong


def main() -> None:
    """Prove and report."""
    import argparse

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--tensorflow", default="")
    parser.add_argument("--samples", default="")
    own, rest = parser.parse_known_args()
    sys.argv[1:] = rest
    args = arguments(__doc__ or "", len(DAMAGES), "damages")
    worst: dict[str, float] = {}
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        if own.tensorflow:
            for name in CASES:
                folder = Path(own.samples or place) / name
                expected = build(name, folder, own.tensorflow)
                if own.samples:
                    expected.save_pretrained(folder / "expected")
                worst[name], seconds[name] = difference(folder, expected, Path(place) / f"{name}-out")
                if own.samples and name == "tiny-shards":
                    break
        else:
            for folder in sorted(SAMPLES.glob("tiny*")):
                kind = getattr(transformers, CASES[folder.name][0])
                expected = kind.from_pretrained(folder / "expected")
                worst[folder.name], seconds[folder.name] = difference(folder, expected, Path(place) / folder.name)
    tried, wrong = refusals(SAMPLES / "tiny", args.n)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures: dict[str, Any] = {
        "checkpoints": len(worst),
        "largest_difference": max(worst.values()),
        "damages": tried,
        "not_refused_by_name_and_place": len(wrong),
    }
    if wrong:
        figures["wrong"] = wrong
    if args.write:
        write_page("import", "Checkpoints of TensorFlow", "make proof-import", _page(figures, worst, seconds, peak))
    finish(figures)


def _page(figures: dict[str, Any], worst: dict[str, float], seconds: dict[str, float], peak: float) -> str:
    rows = "\n".join(
        f"| {name} | {CASES[name][0]} | {CASES[name][2]} | {value:.1e} | {seconds[name]:.1f} |"
        for name, value in worst.items()
    )
    return (
        f"Checkpoints that TensorFlow wrote are imported without it, and the outputs differ by at most "
        f"**{figures['largest_difference']:.1e}** from those of the weights that they were made from.\n\n"
        "| checkpoint | class | data files | largest difference | seconds |\n| --- | --- | ---: | ---: | ---: |\n"
        f"{rows}\n\n"
        f"**{figures['not_refused_by_name_and_place']} of {figures['damages']}** damaged checkpoints were not refused "
        f"with the file and the place: {', '.join(DAMAGES)}.\n\nThe highest memory of the process was {peak:,.0f} MB, "
        "with the models to compare."
    )


if __name__ == "__main__":
    main()
