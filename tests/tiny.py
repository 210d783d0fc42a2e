"""Tiny models and tokenizers, built in memory: no test needs a network.

`ARCHITECTURES` lists what the contract tests run over; each entry is a model of three blocks, 32 wide.
"""

import json
import string
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, PreTrainedModel, PreTrainedTokenizerFast

import warmstart.models.loading  # noqa: F401 - makes our own architectures known to transformers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """
    the an and or not is was it this that film book food movie story actor plot very good bad great terrible
    boring loved hated who where when paris london tokyo lives in alice bob
"""
VOCABULARY = [
    *SPECIAL,
    *string.ascii_lowercase,
    *string.digits,
    *string.punctuation,
    *(f"##{character}" for character in string.ascii_lowercase + string.digits),
    *WORDS.split(),
]

HEADS = {
    None: "AutoModel",
    "sequence": "AutoModelForSequenceClassification",
    "token": "AutoModelForTokenClassification",
    "span": "AutoModelForQuestionAnswering",
    "masked": "AutoModelForMaskedLM",
}


class NoStockHead(Exception):
    """transformers has no head of this kind for this architecture; contract tests skip it, saying so."""


@dataclass(frozen=True)
class Architecture:
    """What differs from BERT: configuration arguments, and how the tokenizer joins a pair."""

    config: dict[str, Any] = field(default_factory=dict)
    token_types: bool = False
    """The tokenizer gives token types."""
    double_separator: bool = False
    """A pair is joined by two separators, as RoBERTa's relatives do."""
    padding: str = "right"
    """The side its tokenizer pads: XLNet's head reads the last place, so its padding comes first."""
    classes: dict[str | None, str | None] = field(default_factory=dict)
    """Model classes that replace those of `HEADS`; None where there is no fitting one."""


_ROBERTA = Architecture({"type_vocab_size": 1}, double_separator=True)
# The stock sequence and span heads of T5 sit on a decoder.
_T5 = Architecture(
    {"d_kv": 8, "d_ff": 37, "num_decoder_layers": 3},
    classes={None: "T5EncoderModel", "sequence": None, "span": None},
)
_NO_HEAD = Architecture(classes={"sequence": None, "token": None, "span": None})
_DEBERTA = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0}

ARCHITECTURES: dict[str, Architecture] = {
    "bert": Architecture(token_types=True),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "distilbert": Architecture({"hidden_dim": 37}),
    "albert": Architecture({"embedding_size": 16}, token_types=True),
    "electra": Architecture({"embedding_size": 16}, token_types=True),
    "deberta": Architecture(_DEBERTA, token_types=True),
    "deberta-v2": Architecture(
        _DEBERTA | {"conv_kernel_size": 3, "norm_rel_ebd": "layer_norm", "position_buckets": 8},
        token_types=True,
    ),
    "xlnet": Architecture({"d_inner": 37, "d_head": 8}, token_types=True, padding="left"),
    "mpnet": Architecture(double_separator=True),
    "modernbert": Architecture({"local_attention": 16, "global_attn_every_n_layers": 2}),
    "eurobert": Architecture(),
    "nomic_bert": Architecture(token_types=True),
    "longformer": Architecture({"type_vocab_size": 1, "attention_window": 8}, double_separator=True),
    "big_bird": Architecture({"attention_type": "original_full"}, token_types=True),
    "gpt2": Architecture({"n_inner": 37}),
    "t5": _T5,
    "mt5": replace(_T5, classes=_T5.classes | {None: "MT5EncoderModel"}),
    "gte": Architecture({"type_vocab_size": 1}),
    "opt": Architecture({"ffn_dim": 37, "word_embed_proj_dim": 16}),
    "llama": Architecture({"num_key_value_heads": 2}),
    "awd-lstm": Architecture({"embedding_size": 16}),
    "mamba": replace(_NO_HEAD, config={"state_size": 8}),
    "mamba2": replace(
        _NO_HEAD, config={"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2, "chunk_size": 16}
    ),
    "rwkv": replace(_NO_HEAD, config={"attention_hidden_size": 32, "context_length": 512}),
    "recurrent_gemma": replace(
        _NO_HEAD,
        config={"num_key_value_heads": 1, "head_dim": 8, "lru_width": 32, "attention_window_size": 16},
        padding="left",
    ),
    # In half precision, its kernel would differ with the batch.
    "xlstm": replace(
        _NO_HEAD,
        config={
            "hidden_size": 64,
            "qk_dim_factor": 1.0,
            "num_heads": 4,
            "autocast_kernel_dtype": "float32",
            "chunk_size": 16,
        },
    ),
}
NO_ATTENTION = ("awd-lstm", "mamba", "mamba2", "rwkv", "recurrent_gemma", "xlstm")
"""Recurrent models: they have no attention, or not in every block."""


def tiny_config(name: str, **changes: Any) -> Any:
    """Give the tiny configuration of an architecture; `changes` replace single arguments."""
    common = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 37,
        "max_position_embeddings": 520,  # 512 tokens and the places RoBERTa's relatives keep free
        "pad_token_id": 0,
        "bos_token_id": 2,
        "cls_token_id": 2,
        "eos_token_id": 3,
        "sep_token_id": 3,
        "mask_token_id": 4,
    }
    if name == "xlnet":
        del common["max_position_embeddings"]  # has no limit, and refuses one
    return AutoConfig.for_model(name, **(common | ARCHITECTURES[name].config | changes))


def tiny_model(
    name: str, head: str | None = "sequence", num_labels: int = 3, seed: int = 0, **changes: Any
) -> PreTrainedModel:
    """Build a tiny model with a stock head (None for the bare encoder), the same for the same seed."""
    kind = ARCHITECTURES[name].classes.get(head, HEADS[head])
    if kind is None:
        raise NoStockHead(f"{name} has no stock {head} head on its encoder alone")
    labels = 2 if head == "span" else num_labels  # a span head gives a start and an end
    config = tiny_config(name, num_labels=labels, **changes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if not kind.startswith("Auto"):
            return getattr(transformers, kind)(config)
        auto = getattr(transformers, kind)
        if type(config) not in auto._model_mapping:
            raise NoStockHead(f"{name} has no stock {head} head")
        return auto.from_config(config)


def tiny_tokenizer(name: str = "bert", words: Sequence[str] = ()) -> PreTrainedTokenizerFast:
    """Build a lowercasing WordPiece tokenizer that knows a few words and spells all other ASCII text out.

    Args:
        words: Words that it knows as well.
    """
    architecture = ARCHITECTURES[name]
    ids = {token: index for index, token in enumerate([*VOCABULARY, *words])}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=10_000))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pair = "[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1"
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair=pair.replace("$B", "[SEP]:0 $B") if architecture.double_separator else pair,
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    types = ["token_type_ids"] if architecture.token_types else []
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=512,
        padding_side=architecture.padding,
        model_input_names=["input_ids", *types, "attention_mask"],
        **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL},
    )


def save_tiny(folder: str | Path, name: str = "bert", seed: int = 0, words: Sequence[str] = (), **changes: Any) -> Path:
    """Write a tiny encoder without a head, and its tokenizer, as a pretrained model's folder holds them."""
    path = Path(folder)
    sizes = {"vocab_size": len(VOCABULARY) + len(words), **changes}
    tiny_model(name, head=None, seed=seed, **sizes).save_pretrained(path)
    tiny_tokenizer(name, words).save_pretrained(path)
    return path


def tiny_byte_tokenizer(prefix: bool = False) -> PreTrainedTokenizerFast:
    """Build a byte-level BPE tokenizer, as RoBERTa and GPT-2 have, with hardly a merge."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ġ", "f"), ("ã", "ģ")]
    tokens = [*SPECIAL, *alphabet, *(first + second for first, second in merges)]
    ids = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(ids, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")


def tiny_unigram_tokenizer() -> PreTrainedTokenizerFast:
    """Build a Unigram tokenizer with `▁` for spaces and NFKC, as XLM-RoBERTa and T5 have."""
    words = ["▁", "▁the", "▁film", "fi", "lm", "大", "東京", "バ", *string.ascii_lowercase, *string.punctuation]
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("<pad>", 0.0), *((word, -2.0) for word in words)], unk_id=0))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>")


JAPANESE_WORDS = """
    東京 大学 大 学 京 東 株 式 会社 会 社 へ 行 行く く バ ハ あ の は で す 日 本 日本 語 人 ア リ ス 住 む に
"""


def tiny_japanese(folder: str | Path, words: str = "mecab", subwords: str = "wordpiece", **options: Any) -> Any:
    """Build a tokenizer that cuts Japanese into words first, its vocabulary written into a folder."""
    known = JAPANESE_WORDS.split()
    path = Path(folder) / "vocab.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{token}\n" for token in [*VOCABULARY, *known, *(f"##{one}" for one in known)]), "utf-8")
    return transformers.BertJapaneseTokenizer(
        str(path), word_tokenizer_type=words, subword_tokenizer_type=subwords, model_max_length=512, **options
    )


def declare_mean_pooling(folder: str | Path) -> None:
    """Say in an encoder's folder, as sentence-transformers does, that its tokens are pooled by their mean."""
    declare_pooling(folder, {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False})


def declare_pooling(folder: str | Path, modes: dict[str, bool]) -> None:
    """Say in an encoder's folder, as sentence-transformers does, how its tokens are pooled."""
    (Path(folder) / "1_Pooling").mkdir()
    config = json.dumps({"word_embedding_dimension": 32, **modes})
    (Path(folder) / "1_Pooling" / "config.json").write_text(config, encoding="utf-8")


def save_japanese(folder: str | Path, words: str = "mecab", subwords: str = "character", **changes: Any) -> Path:
    """Write a tiny Japanese encoder without a head, as a pretrained model's folder holds it."""
    path = Path(folder)
    tokenizer = tiny_japanese(path, words, subwords)
    tiny_model("bert", head=None, vocab_size=len(tokenizer), **changes).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path
