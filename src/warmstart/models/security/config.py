"""The config of a model from any source: known architectures, no keys that name anything outside, plausible sizes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto
from transformers.models.auto.tokenization_auto import TOKENIZER_MAPPING_NAMES

from warmstart.errors import ModelError, PluginError, nearest
from warmstart.models.architectures import AWD_LSTM, POOLED, is_plugin, load_architecture
from warmstart.models.security.pooled_config import check_pooled
from warmstart.models.security.recurrent_config import check_recurrent
from warmstart.runtime import plugins
from warmstart.storage.json_files import JsonObject, read_object

FORBIDDEN = frozenset({
    # code, or where it comes from
    "auto_map", "custom_pipelines", "custom_generate", "trust_remote_code", "code_revision",
    "use_kernels", "kernel_config", "_attn_implementation_internal", "_experts_implementation_internal",
    # packages that are imported, and ways to rebuild or distribute the model
    "quantization_config", "fusion_config", "distributed_config", "device_map", "tp_plan", "pp_plan",
    "base_model_tp_plan", "base_model_pp_plan",
    # other files and other models
    "transformers_weights", "configuration_files", "fast_tokenizer_files", "gguf_file", "base_model_name_or_path",
    "auto_mapping", "backbone", "backbone_config", "use_timm_backbone", "use_pretrained_backbone",
    # arguments passed on unchecked to a tokenizer's engine
    "mecab_kwargs", "sudachi_kwargs", "jumanpp_kwargs", "init_inputs", "tokenizer_object", "tokenizer_padding",
    "tokenizer_truncation", "post_processor", "_json_padding", "_json_truncation",
})  # fmt: skip
"""Keys by which a library imports, runs, downloads or opens something else; allowed only where they are empty."""

ATTENTION = (None, "eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
EXPERTS = (None, "eager", "batched_mm", "grouped_mm")
_CHOICES = {
    "attn_implementation": ATTENTION,
    "_attn_implementation": ATTENTION,
    "experts_implementation": EXPERTS,
    "_experts_implementation": EXPERTS,
}

FREE = frozenset({"_name_or_path", "name_or_path", "id2label", "label2id", "task_specific_params", "prefix"})
"""Keys whose text is never used as a path or address: where a model came from, the names of labels."""

PRIVATE = frozenset({"_name_or_path", "_commit_hash", "_num_labels", "_attn_implementation_autoset", *_CHOICES})

TOKENIZERS = frozenset({"PreTrainedTokenizer", "TokenizersBackend", "PythonBackend"})
NO_TOKENIZERS = frozenset({"RagTokenizer", "Wav2Vec2PhonemeCTCTokenizer", "MistralCommonBackend"})
"""Classes that open other folders, or start other programs."""

MAX_SIZE = 1 << 24
MAX_LAYERS = 1024
MAX_LABELS = 100_000
_LAYERS = re.compile(r"(^|_)(n_)?layers?$|num_hidden_groups|inner_group_num")
_NO_SIZE = re.compile(r"theta|seed|_index$|^base$")
_PLAIN = re.compile(r"</?[\w|]+>|(?![.~])[^/\\\x00-\x1f]{0,256}")
_TEXT_HEADS = (
    "SEQUENCE_CLASSIFICATION",
    "TOKEN_CLASSIFICATION",
    "QUESTION_ANSWERING",
    "MULTIPLE_CHOICE",
    "MASKED_LM",
    "CAUSAL_LM",
)


def check_config(path: Path) -> None:
    """Refuse a `config.json` of an unknown architecture, or with a key that does more than describe the encoder."""
    values = read_object(path, ModelError)
    check_keys(values, path)
    if values.get("model_type") == POOLED:
        values = check_pooled(values, path)
    kind = values.get("model_type")
    if kind == AWD_LSTM:
        check_recurrent(values, path)
    if isinstance(kind, str) and is_plugin(kind):
        load_architecture(kind)
        if kind not in CONFIG_MAPPING:
            raise PluginError(
                f"{plugins.described('architectures', kind)}: registers no config of this model_type with AutoConfig"
            )
    elif not isinstance(kind, str) or kind not in _text_types():
        close = nearest(str(kind), _text_types()) if isinstance(kind, str) else ""
        hint = close if close.startswith("did") else "expected the name of a text model that transformers has"
        raise ModelError(f"{path}: model_type: found {str(kind)[:80]!r}; {hint}")
    if CONFIG_MAPPING[kind].sub_configs:
        raise ModelError(f"{path}: model_type: found {kind!r}, which is made of several models; expected a single one")
    known = {field.name for field in dataclasses.fields(CONFIG_MAPPING[kind])} | set(CONFIG_MAPPING[kind].attribute_map)
    for key, value in values.items():
        if key.startswith("_") and key not in PRIVATE | known:
            raise ModelError(f"{path}: {key!r}: found a private setting of the library; remove the key")
        _check_value(path, key, key, value)
    check_tokenizer_class(values, path)
    names = values.get("architectures")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ModelError(f"{path}: architectures: found {names!r}, expected a list of names")


def check_keys(values: object, path: Path, above: str = "") -> None:
    """Refuse, at any depth, a key by which a library imports, runs, downloads or opens something else."""
    if isinstance(values, list):
        for number, value in enumerate(values):
            check_keys(value, path, f"{above}[{number}]")
        return
    if not isinstance(values, dict):
        return
    for key, value in values.items():
        name = f"{above}.{key}" if above else key
        if key in FORBIDDEN and value not in (None, False, [], {}, ""):
            raise ModelError(
                f"{path}: {name}: found {str(value)[:80]!r}, which makes the library run, download or open something "
                "else than this folder's encoder; expected none: remove the key if the model is complete without it"
            )
        if key in _CHOICES and (not isinstance(value, str | None) or value not in _CHOICES[key]):
            known = ", ".join(str(choice) for choice in _CHOICES[key] if choice)
            raise ModelError(f"{path}: {name}: found {str(value)[:80]!r}; expected one of {known}")
        check_keys(value, path, name)


def check_tokenizer_class(values: JsonObject, path: Path) -> None:
    """Refuse a tokenizer of a class that is not one of the library's own for text."""
    known = TOKENIZERS | {name for name in TOKENIZER_MAPPING_NAMES.values() if name}
    kind = values.get("tokenizer_class")
    if kind is None:
        return
    if not isinstance(kind, str) or kind.removesuffix("Fast") not in known - NO_TOKENIZERS:
        raise ModelError(
            f"{path}: tokenizer_class: found {str(kind)[:80]!r}, expected one that transformers has for text; "
            "remove the key if tokenizer.json is complete"
        )


def _check_value(path: Path, name: str, key: str, value: object) -> None:
    """Refuse a number too large to be a size, and a text that could name a file, a folder or an address."""
    if isinstance(value, dict):
        for inner, item in value.items():
            _check_value(path, f"{name}.{inner}", inner if key not in FREE else key, item)
    elif isinstance(value, list):
        for item in value:
            _check_value(path, name, key, item)
    elif isinstance(value, str):
        if key not in FREE and not _PLAIN.fullmatch(value):
            raise ModelError(
                f"{path}: {name}: found {value[:80]!r}, expected a word, not a path or an address; "
                "remove the key if the model is complete without it"
            )
    elif isinstance(value, int) and not _NO_SIZE.search(key):
        limit = MAX_LAYERS if _LAYERS.search(key) else MAX_LABELS if key.endswith("num_labels") else MAX_SIZE
        if not -1 <= value <= limit:
            raise ModelError(f"{path}: {name}: found {value:,}, expected at most {limit:,}, and at least -1")


def _text_types() -> frozenset[str]:
    """The model types for which transformers has a head that reads text, and our own."""
    names = (f"MODEL_FOR_{head}_MAPPING_NAMES" for head in _TEXT_HEADS)
    return frozenset({AWD_LSTM, *(kind for name in names for kind in getattr(modeling_auto, name))})
