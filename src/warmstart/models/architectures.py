"""What a model's structure does not show: one entry an architecture, the only place that knows one by name.

Another package adds an architecture by an entry point of the group `warmstart.architectures`, named by the `model_type`
of its configuration and leading to an `ArchitectureSpec`. The module with the spec registers the architecture's classes
with `AutoConfig` and `AutoModel` of transformers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from warmstart.errors import PluginError
from warmstart.runtime import plugins

if TYPE_CHECKING:
    from transformers import PretrainedConfig


@dataclass(frozen=True)
class StockDense:
    """The layer that a stock sequence head has between the token it reads and its last layer."""

    activation: str = "tanh"
    """What follows it, or the config attribute that names that."""
    dropout: bool = False
    """Dropout comes before it."""
    pretrained: bool = False
    """It is the encoder's own pooler, which comes with its weights."""


@dataclass(frozen=True)
class HeadSize:
    """How a config says that blocks have fewer attention heads of the same size."""

    attribute: str
    """The config attribute with the size of a head."""
    projections: tuple[str, ...]
    """The modules, by their names in a block, that compute the queries, keys and values of all heads."""
    bias: str = ""
    """The embedding in the first block whose numbers the heads of all blocks add to their scores, so that every block
    loses the same heads; empty if there is none."""


@dataclass(frozen=True)
class EmbeddingProjection:
    """How a model whose config sets an `embedding_size` makes hidden states of smaller embeddings."""

    projection: str = "embed_proj"
    """The linear layer without a bias, by its name beside the embeddings, that reads their sum; None in a model whose
    embeddings are as wide as its hidden states."""
    reader: str = "LayerNorm"
    """The module, likewise, that reads what the projection gives."""


@dataclass(frozen=True)
class ArchitectureSpec:
    """What the structure of a model of one architecture does not show.

    All module names but `blocks` are relative to the module that holds the list of blocks.
    """

    blocks: str = ""
    """The list of blocks, by its name in the encoder, where several lists look like it."""
    embeddings: tuple[str, ...] = ()
    """Modules that feed all blocks, though registered inside or after them."""
    head: tuple[str, ...] = ()
    """Modules that follow the last block, though registered before the first."""
    first_block: tuple[str, ...] = ()
    """Modules beside the blocks that work on the output of the first block."""
    shared_blocks: bool = False
    """Blocks share their parameters: each runs several times in a row, `num_hidden_layers` runs in all."""
    blocks_differ: bool = False
    """What a block is depends on its place, so that none can be removed."""
    offset_positions: bool = False
    """Positions are counted from the padding id on, so that fewer can be used than the config says."""
    half_precision: bool = True
    """It runs in bf16 and fp16; where not, `precision: auto` is fp32."""
    stock_poolings: Mapping[str, Mapping[str, str]] | None = None
    """The token poolings of the stock sequence head, and the config values that choose each; None if unknown."""
    stock_dense: StockDense | None = None
    """What the stock sequence head has before its last layer; None if nothing, or unknown."""
    stock_dropout: bool = True
    """The stock sequence head has dropout before its last layer."""
    encoder_class: str = ""
    """The class of the encoder, if that of `AutoModel` has a decoder too, as then has its stock sequence head."""
    first_hidden_size: str = ""
    """The config attribute with the size of the embeddings' output, if that can differ from `hidden_size`."""
    last_hidden_size: str = ""
    """The config attribute with the size of the last hidden state, if that can differ from `hidden_size`."""
    carries_state: bool = False
    """It takes the state after the tokens read before, and gives that after the last, so that texts of any length are
    read in pieces, by its stock sequence head too."""
    pair_modules: tuple[str, ...] = ()
    """What its stock model for pretraining has beyond the one for masked tokens alone: a head that classifies pairs of
    texts (next sentence, sentence order), and the pooler that this head reads."""
    first_token_block: bool = False
    """Its blocks are built like BERT's, so that the last one can be computed for the first token alone."""
    reads_padding: bool = False
    """It has no use for the attention mask, so that padding must come after all tokens."""
    writes_state: bool = False
    """It writes its state into a cache in place, unless `use_cache` is off, and gradients cannot pass through that."""
    global_first_token: bool = False
    """Its first token has global attention only if a `global_attention_mask` asks for it."""
    heads_joined: str = ""
    """The module, by its name in a block, that reads the outputs of all attention heads side by side; empty if there is
    none, or if it is not known."""
    head_size: HeadSize | None = None
    """How a config says that blocks have fewer heads of the same size; None if it cannot, since the size follows from
    the number of heads."""
    embedding_projection: EmbeddingProjection | None = None
    """How embeddings are projected, if the config can make them smaller; None if it cannot, or if they are normalized
    before (as those of ELECTRA and ALBERT are), so that no smaller ones are equal."""


CLS: Mapping[str, Mapping[str, str]] = {"cls": {}}
LAST: Mapping[str, Mapping[str, str]] = {"last": {}}
POOLER = StockDense(pretrained=True)
OUTPUT = "attention.output.dense"
"""Where BERT and its relatives join their heads."""
_SELF_ATTN = HeadSize("head_dim", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"))
_OFFSET = ArchitectureSpec(
    offset_positions=True, stock_poolings=CLS, stock_dense=StockDense(dropout=True), heads_joined=OUTPUT
)
_ROTARY = ArchitectureSpec(
    head=("pooler",), stock_poolings=CLS, stock_dense=POOLER, heads_joined="self_attn.o_proj", head_size=_SELF_ATTN
)
_T5 = ArchitectureSpec(
    embeddings=("block.0.layer.0.SelfAttention.relative_attention_bias",),
    stock_poolings={},
    heads_joined="layer.0.SelfAttention.o",
    head_size=HeadSize(
        "d_kv",
        ("layer.0.SelfAttention.q", "layer.0.SelfAttention.k", "layer.0.SelfAttention.v"),
        bias="layer.0.SelfAttention.relative_attention_bias",
    ),
)

_NO_HEAD = ArchitectureSpec(stock_poolings={})
"""Recurrent and state-space models, of which transformers has language models alone."""

AWD_LSTM = "awd-lstm"
"""The `model_type` of our own recurrent language model: see `recurrent/`."""

ARCHITECTURES: dict[str, ArchitectureSpec] = {
    "albert": ArchitectureSpec(
        shared_blocks=True,
        stock_poolings=CLS,
        stock_dense=POOLER,
        pair_modules=("albert.pooler", "sop_classifier"),
        heads_joined="albert_layers.0.attention.dense",
    ),
    "bert": ArchitectureSpec(
        stock_poolings=CLS,
        stock_dense=POOLER,
        pair_modules=("bert.pooler", "cls.seq_relationship"),
        first_token_block=True,
        heads_joined=OUTPUT,
    ),
    AWD_LSTM: ArchitectureSpec(
        half_precision=False,  # the sums over a long text would lose its first tokens
        stock_poolings={"last+max+mean": {}},
        first_hidden_size="embedding_size",
        last_hidden_size="embedding_size",
        carries_state=True,
        blocks_differ=True,
    ),
    "big_bird": ArchitectureSpec(
        stock_poolings=CLS,
        stock_dense=StockDense("hidden_act", dropout=True),
        pair_modules=("bert.pooler", "cls.seq_relationship"),
        heads_joined=OUTPUT,
    ),
    "camembert": replace(_OFFSET, first_token_block=True),
    # transformers fills its mask with the lowest number of fp32, which fp16 and bf16 cannot hold.
    "deberta": ArchitectureSpec(
        half_precision=False,
        stock_poolings=CLS,
        stock_dense=StockDense("pooler_hidden_act"),
        heads_joined=OUTPUT,
        embedding_projection=EmbeddingProjection(),
    ),
    "deberta-v2": ArchitectureSpec(
        embeddings=("LayerNorm",),
        first_block=("conv",),
        stock_poolings=CLS,
        stock_dense=StockDense("pooler_hidden_act"),
        heads_joined=OUTPUT,
        embedding_projection=EmbeddingProjection(),
    ),
    "distilbert": ArchitectureSpec(
        stock_poolings=CLS, stock_dense=StockDense("relu"), heads_joined="attention.out_lin"
    ),
    "electra": ArchitectureSpec(
        stock_poolings=CLS,
        stock_dense=StockDense("gelu", dropout=True),
        first_token_block=True,
        heads_joined=OUTPUT,
    ),
    # Its default, `late`, is the mean of every token's logits, which is no pooling of states.
    "eurobert": ArchitectureSpec(
        stock_poolings={"cls": {"classifier_pooling": "bos"}, "mean": {"classifier_pooling": "mean"}},
        stock_dense=StockDense("gelu"),
        stock_dropout=False,
        heads_joined="self_attn.o_proj",
        head_size=_SELF_ATTN,
    ),
    "gpt2": ArchitectureSpec(stock_poolings=LAST, stock_dropout=False, heads_joined="attn.c_proj"),
    "gte": _ROTARY,
    "llama": ArchitectureSpec(
        stock_poolings=LAST, stock_dropout=False, heads_joined="self_attn.o_proj", head_size=_SELF_ATTN
    ),
    "longformer": replace(_OFFSET, global_first_token=True),
    "mamba": _NO_HEAD,
    "mamba2": _NO_HEAD,
    "modernbert": ArchitectureSpec(  # its stock head also has a norm, which ours has not
        stock_poolings={"cls": {"classifier_pooling": "cls"}, "mean": {"classifier_pooling": "mean"}},
        heads_joined="attn.Wo",
    ),
    "mpnet": replace(_OFFSET, heads_joined="attention.attn.o"),
    "mt5": replace(_T5, encoder_class="MT5EncoderModel"),
    "nomic_bert": _ROTARY,
    "opt": ArchitectureSpec(
        head=("final_layer_norm", "project_out"),
        stock_poolings=LAST,
        stock_dropout=False,
        last_hidden_size="word_embed_proj_dim",
        heads_joined="self_attn.out_proj",
    ),
    "recurrent_gemma": replace(_NO_HEAD, reads_padding=True, blocks_differ=True),
    "roberta": replace(_OFFSET, first_token_block=True),
    "roberta-prelayernorm": _OFFSET,
    "rwkv": replace(_NO_HEAD, reads_padding=True, writes_state=True),
    "t5": replace(_T5, encoder_class="T5EncoderModel"),
    "xlm-roberta": replace(_OFFSET, first_token_block=True),
    "xlm-roberta-xl": _OFFSET,
    "xlnet": ArchitectureSpec(  # it joins its heads by a bare parameter, which no hook can reach
        stock_poolings={"last": {"summary_type": "last"}}, stock_dense=StockDense("summary_activation")
    ),
    "xlstm": replace(_NO_HEAD, reads_padding=True, writes_state=True),
}
"""By the `model_type` of the configuration."""

POOLED = "warmstart-pooled"
"""The `model_type` of our own models, an encoder under a pooled head: see `heads/pooled.py`."""


def is_pooled(config: PretrainedConfig | None) -> bool:
    """Whether a config is that of one of our own models."""
    return getattr(config, "model_type", "") == POOLED


def encoder_config(config: PretrainedConfig) -> PretrainedConfig:
    """The config of the encoder: of our own models the one inside, of any other its own."""
    return config.encoder if is_pooled(config) else config


def spec_of(config: PretrainedConfig | None) -> ArchitectureSpec:
    """What is known of a config's architecture; nothing where the model's structure shows all."""
    name = getattr(encoder_config(config), "model_type", "")
    return load_architecture(name) if name in ARCHITECTURES or is_plugin(name) else ArchitectureSpec()


def is_plugin(name: object) -> bool:
    """Whether another package adds the architecture of this `model_type`."""
    return name in plugins.names("architectures")


def load_architecture(name: str) -> ArchitectureSpec:
    """The entry of an architecture; importing that of another package registers its classes with transformers."""
    spec = plugins.load("architectures", name, ARCHITECTURES)
    if not isinstance(spec, ArchitectureSpec):
        raise PluginError(
            f"{plugins.described('architectures', name)}: found {type(spec).__name__}, expected an ArchitectureSpec"
        )
    return spec
