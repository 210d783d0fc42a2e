"""Turning a checkpoint of BERT that TensorFlow wrote into a folder that opens in plain transformers.

import_bert(Path("uncased_L-12_H-768_A-12"), Path("bert"), lower_case=True)
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import transformers

from warmstart.errors import ModelError, RecipeError
from warmstart.models.loading import quiet_transformers
from warmstart.models.security.folder import MAX_VOCABULARY_BYTES, check_folder
from warmstart.models.tensorflow.bert_names import is_of_training, weight_of
from warmstart.models.tensorflow.checkpoint import Checkpoint
from warmstart.storage.artifacts import publish
from warmstart.storage.json_files import JsonObject, read_object, read_text

if TYPE_CHECKING:
    from transformers import BertConfig, PreTrainedModel

CONFIG, VOCABULARY = "bert_config.json", "vocab.txt"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SIZES = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "max_position_embeddings", "type_vocab_size",
)  # fmt: skip
"""Keys of a config without which nothing can be built."""
OTHERS = ("hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")
MAX_SIZE = 1 << 22
_IDEOGRAPH = re.compile("[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff]")


@dataclass(frozen=True)
class Imported:
    """What became of a checkpoint."""

    folder: Path
    model: str
    """The class of the model in transformers."""
    tensors: int
    """How many tensors it has."""
    left_out: tuple[str, ...]
    """Tensors of the checkpoint that it has not: those of the optimizer, and a pooler that no head reads."""
    lower_case: bool
    splits_ideographs: bool
    """Whether the tokenizer makes each Chinese character a word of its own."""


def import_bert(
    folder: Path,
    out: Path,
    lower_case: bool | None = None,
    advance: Callable[[], object] = lambda: None,
) -> Imported:
    """Write a model folder from a folder with a checkpoint, `bert_config.json` and `vocab.txt`.

    Args:
        lower_case: Whether texts are put in lower case, which no file says; None where the vocabulary shows that they
            are not, by words with capitals.
        advance: Called after each tensor that is read.

    Raises:
        ModelError: A file is missing, damaged or does not fit the others, with the file and the place.
    """
    config = _config(folder / CONFIG)
    words = _vocabulary(folder / VOCABULARY, config.vocab_size)
    lower_case = _lower_case(words, lower_case, folder / VOCABULARY)
    splits = not any(len(word) > 1 and _IDEOGRAPH.search(word) for word in words if not word.startswith("##"))
    checkpoint = Checkpoint.find(folder)
    weights, left_out = _weights(checkpoint, advance)
    model, unused = _filled(config, weights, checkpoint)
    tokenizer = transformers.BertTokenizer(
        vocab={word: number for number, word in enumerate(words)},
        do_lower_case=lower_case,
        tokenize_chinese_chars=splits,
        model_max_length=config.max_position_embeddings,
    )
    with publish(out) as staging, quiet_transformers():
        model.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
        check_folder(staging)
    tensors = len(weights) - len(unused)
    return Imported(out, type(model).__name__, tensors, (*left_out, *unused), lower_case, splits)


def _config(path: Path) -> BertConfig:
    """The config in Google's form, of which only sizes, dropouts and the activation are taken."""
    if not path.is_file():
        raise ModelError(f"{path}: found no such file, expected the config that comes with a checkpoint of BERT")
    values = read_object(path, ModelError)
    for key in SIZES:
        if type(values.get(key)) is not int or not 1 <= values[key] <= MAX_SIZE:
            raise ModelError(f"{path}: {key}: found {str(values.get(key))[:40]!r}, expected a number from 1 on")
    known: JsonObject = {key: values[key] for key in (*SIZES, *OTHERS) if key in values}
    for key in ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range"):
        if key in known and not (isinstance(known[key], int | float) and 0 <= known[key] <= 1):
            raise ModelError(f"{path}: {key}: found {str(known[key])[:40]!r}, expected a number from 0 to 1")
    if known.get("hidden_act", "gelu") not in {"gelu", "relu", "tanh"}:
        raise ModelError(f"{path}: hidden_act: found {str(known['hidden_act'])[:40]!r}, expected gelu, relu or tanh")
    if known["hidden_size"] % known["num_attention_heads"]:
        raise ModelError(
            f"{path}: num_attention_heads: found {known['num_attention_heads']}, which does not divide hidden_size, "
            f"{known['hidden_size']}"
        )
    return transformers.BertConfig(**known)


def _vocabulary(path: Path, size: int) -> list[str]:
    """The words of a vocabulary, one a line, as many as the config says."""
    if not path.is_file():
        raise ModelError(f"{path}: found no such file, expected the vocabulary that comes with a checkpoint of BERT")
    lines = read_text(path, ModelError, MAX_VOCABULARY_BYTES).split("\n")
    words = [line.removesuffix("\r") for line in (lines[:-1] if not lines[-1] else lines)]
    if len(words) != size:
        raise ModelError(f"{path}: found {len(words):,} lines, expected {size:,}, the vocab_size of {CONFIG}")
    first: dict[str, int] = {}
    for number, word in enumerate(words, 1):
        if word in first:
            raise ModelError(f"{path}:{number}: found {word[:40]!r} again, which is in line {first[word]} as well")
        first[word] = number
    if missing := [word for word in SPECIAL if word not in first]:
        raise ModelError(f"{path}: found no {', '.join(missing)}, which every vocabulary of BERT has")
    return words


def _lower_case(words: Iterable[str], given: bool | None, path: Path) -> bool:
    """Whether texts are put in lower case; refuses what the vocabulary contradicts, and what nothing says."""
    capital = next((word for word in words if word not in SPECIAL and _has_capital(word)), None)
    if capital is None and given is None:
        raise RecipeError(
            f"{path}: has no word with a capital, so texts may have been put in lower case before training, and no "
            "file says so: add --lower-case or --no-lower-case, as the checkpoint's own page says"
        )
    if capital is not None and given:
        raise RecipeError(f"--lower-case: {path} holds {capital!r}, which such a text never has; leave it out")
    return bool(given)


def _has_capital(word: str) -> bool:
    return not re.fullmatch(r"\[unused\d+\]|\[[A-Z]+\]|<[A-Z]+>", word) and any(
        unicodedata.category(character) == "Lu" for character in word
    )


def _weights(checkpoint: Checkpoint, advance: Callable[[], object]) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
    """The weights by their names in transformers, and the names of the tensors that are left out."""
    left_out = tuple(name for name in checkpoint.entries if is_of_training(name))
    weights: dict[str, torch.Tensor] = {}
    for name in checkpoint.entries:
        if name in left_out:
            continue
        weight = weight_of(name)
        if weight is None:
            raise ModelError(
                f"{checkpoint.index}: {name}: BERT has no such weight; expected a checkpoint of Google's BERT, with "
                "names such as bert/encoder/layer_0/attention/self/query/kernel"
            )
        array = checkpoint.read(name).astype(np.float32)
        weights[weight.name] = torch.from_numpy(np.ascontiguousarray(array.T if weight.transposed else array))
        advance()
    return weights, left_out


def _filled(
    config: BertConfig, weights: dict[str, torch.Tensor], checkpoint: Checkpoint
) -> tuple[PreTrainedModel, tuple[str, ...]]:
    """The model with those heads that the checkpoint has, and the names of weights that it does not use.

    Missing and unfitting weights are refused.
    """
    heads = {name.split(".")[1] for name in weights if name.startswith("cls.")}
    cls = transformers.BertModel
    if "predictions" in heads:
        cls = transformers.BertForPreTraining if "seq_relationship" in heads else transformers.BertForMaskedLM
    no_pooler = cls is transformers.BertForMaskedLM
    unused = tuple(name for name in weights if no_pooler and name.startswith("bert.pooler."))
    prefix = "bert." if cls is transformers.BertModel else ""
    own = {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name not in unused}
    if "cls.predictions.bias" in own:
        own["cls.predictions.decoder.bias"] = own["cls.predictions.bias"]
        own["cls.predictions.decoder.weight"] = own["bert.embeddings.word_embeddings.weight"]
    with torch.device("meta"):
        expected = {name: tuple(tensor.shape) for name, tensor in cls(config).state_dict().items()}
    for name in sorted(own):
        if name not in expected:
            raise ModelError(f"{checkpoint.index}: {name}: not a weight of {cls.__name__} as {CONFIG} describes it")
        if tuple(own[name].shape) != expected[name]:
            raise ModelError(
                f"{checkpoint.index}: {name}: found the shape {list(own[name].shape)}, expected "
                f"{list(expected[name])}, as {CONFIG} says"
            )
    if missing := sorted(expected.keys() - own.keys()):
        raise ModelError(
            f"{checkpoint.index}: lacks {len(missing)} of the model's weights: {', '.join(missing[:3])}, …"
        )
    model: PreTrainedModel = cls(config)
    model.load_state_dict(own)
    return model, unused
