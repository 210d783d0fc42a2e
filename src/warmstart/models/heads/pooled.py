"""An encoder with a pooled head: our own models, for what no stock head of transformers can do.

Importing this module makes the models known to `AutoConfig`, `AutoModelForSequenceClassification` and
`AutoModelForMultipleChoice`; those that predict something for each token are in `heads.token`:

    import warmstart.models.heads.pooled
    model = AutoModelForSequenceClassification.from_pretrained("runs/reviews/model")
"""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any, cast

import torch
import transformers
from torch import nn
from transformers import initialization
from transformers.activations import ACT2FN
from transformers.modeling_outputs import MultipleChoiceModelOutput, SequenceClassifierOutput

from warmstart.models.architectures import POOLED, spec_of
from warmstart.models.heads.bilstm import BiLSTM
from warmstart.models.heads.linear_head import joined_weights
from warmstart.models.hidden_states import build_pooling, hidden_states, in_chunks
from warmstart.models.pooling import AttentionPooling, ScalarMix, SlicePooling

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


class PooledConfig(transformers.PreTrainedConfig):  # type: ignore[misc]
    """The encoder's config under `encoder`, how it is pooled, and the labels.

    Args:
        encoder: The config of the encoder, or its values with `model_type`.
        layers: As in `Pooling`.
        pooling: As in `Pooling`; not used by heads that predict something for each token.
        slice_pooling: As in `SlicePooling`.
        slice_chunk_size: How many slices go through the encoder at a time; memory grows with it.
        dropout: Dropout before each layer of the head.
        head_type: What is between the encoder and the last layer: nothing (`linear`), the layer that a stock head has
            there (`pooler`), one more layer over the vector of a text or token (`mlp`), or a `bilstm` over the tokens.
        pooler_activation: What follows the pooler.
        pooler_dropout: Whether there is dropout before the pooler too.
        bilstm_layers: How many layers a `bilstm` has.
        bilstm_size: The size of its states, both directions together; None for that of the states it reads.
    """

    model_type = POOLED
    sub_configs = {"encoder": transformers.AutoConfig}

    encoder: Any = None
    layers: str = "last"
    pooling: str = "mean"
    slice_pooling: str = "mean"
    slice_chunk_size: int = 8
    dropout: float = 0.1
    head_type: str = "linear"
    pooler_activation: str = "tanh"
    pooler_dropout: bool = False
    bilstm_layers: int = 1
    bilstm_size: int | None = None

    def __post_init__(self, **kwargs: object) -> None:
        if self.encoder is None:
            self.encoder = {"model_type": "bert"}  # the library builds a config of defaults to compare with
        if isinstance(self.encoder, dict):
            values = dict(self.encoder)
            self.encoder = transformers.AutoConfig.for_model(values.pop("model_type"), **values)
        else:
            self.encoder = copy.deepcopy(self.encoder)  # the library is about to reset its choice of attention
        super().__post_init__(**kwargs)

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = super().to_dict()
        for key in ("_name_or_path", "id2label", "label2id", "problem_type"):
            values["encoder"].pop(key, None)  # labels are stored once, and the encoder's path is private
        return values


class PooledModel(transformers.PreTrainedModel):  # type: ignore[misc]
    """What our own models share: an encoder, the layers that are read, dropout, and the layers of `head_type`.

    Args:
        encoder: A loaded encoder, whose own pooler is removed; None to build one from the config.
    """

    config_class = PooledConfig
    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True

    def __init__(self, config: PooledConfig, encoder: PreTrainedModel | None = None) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.encoder = build_encoder(config.encoder) if encoder is None else _without_pooler(encoder)
        config.encoder = self.encoder.config
        recurrent = config.head_type == "bilstm"
        state_size = config.bilstm_size if recurrent else None
        self.pooling = build_pooling(self.encoder.config, config.layers, config.pooling, state_size)
        read = self.pooling.token_size
        self.bilstm = BiLSTM(read, state_size, config.bilstm_layers, config.dropout) if recurrent else None
        self.slice_pooling = SlicePooling(config.slice_pooling, self.pooling.output_size)
        self.dropout = nn.Dropout(config.dropout)
        size = self.slice_pooling.output_size
        self.pooler = nn.Linear(size, config.encoder.hidden_size) if config.head_type == "pooler" else None
        self.activation = ACT2FN[config.pooler_activation]
        size = size if self.pooler is None else config.encoder.hidden_size
        self.mlp = nn.Sequential(nn.Linear(size, size), nn.GELU()) if config.head_type == "mlp" else None
        self.classifier = nn.Linear(size, config.num_labels)
        self.post_init()

    @classmethod
    def from_pretrained(cls, name: Any = None, *arguments: Any, **options: Any) -> Any:
        """As in `PreTrainedModel`; the weights may be stored as sentence-transformers has them."""
        weights = None if name is None or "state_dict" in options else joined_weights(str(name))
        if weights is None:
            return super().from_pretrained(name, *arguments, **options)
        if "config" not in options:
            options["config"] = PooledConfig.from_pretrained(name)
        return super().from_pretrained(None, *arguments, state_dict=weights, **options)

    def _states(self, ids: torch.Tensor, mask: torch.Tensor | None, types: torch.Tensor | None) -> torch.Tensor:
        """The chosen layers of every token, joined; without a mask, no token is padding."""
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids) if mask is None else mask}
        if types is not None:
            inputs["token_type_ids"] = types
        return self.pooling.join(hidden_states(self.encoder, inputs, self.pooling.needs_all_layers))

    def _logits(self, vectors: torch.Tensor) -> torch.Tensor:
        """The output of the head's last layers, for vectors of texts or of tokens."""
        if self.mlp is not None:
            vectors = self.mlp(self.dropout(vectors))
        if self.pooler is not None:
            vectors = self.activation(self.pooler(self.dropout(vectors) if self.config.pooler_dropout else vectors))
        return self.classifier(self.dropout(vectors))  # type: ignore[no-any-return]

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, ScalarMix):
            initialization.zeros_(module.weights)
            initialization.ones_(module.scale)
        elif isinstance(module, AttentionPooling):
            initialization.zeros_(module.query)


class PooledForSequenceClassification(PooledModel):
    """Encoder, pooling over layers and tokens, pooling over slices, dropout, and the layers of `head_type`.

    Args:
        encoder: A loaded encoder, whose own pooler is removed; None to build one from the config.
    """

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        slices: torch.Tensor | None = None,
        marks: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        vectors: torch.Tensor | None = None,
        states: torch.Tensor | None = None,
    ) -> SequenceClassifierOutput:
        """Logits of shape (documents, labels), and the loss where labels are given.

        Args:
            slices: How many rows of the batch, one after the other, belong to each document; None for one each.
            marks: As in `Pooling`; a text with marks has no slices.
            labels: One for each document.
            vectors: The output of `features` for these documents, instead of their tokens.
            states: The same, where that is the states of tokens; with their `attention_mask`.
        """
        if states is not None:
            vectors = self._pooled(states, cast(torch.Tensor, attention_mask), marks)
        elif vectors is None:
            vectors = self._documents(cast(torch.Tensor, input_ids), attention_mask, token_type_ids, slices, marks)
        logits = self._logits(vectors)
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    @property
    def feature_type(self) -> str:
        """What of a text does not change while only the head is trained: its `vectors`, or its tokens' `states`."""
        return "vectors" if self.bilstm is None and not self.pooling.has_parameters else "states"

    def features(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        slices: torch.Tensor | None = None,
        marks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """What `feature_type` names, to be passed to `forward` any number of times: the output of the frozen layers."""
        if self.feature_type == "vectors":
            return self._documents(input_ids, attention_mask, token_type_ids, slices, marks)
        return self._states(input_ids, attention_mask, token_type_ids)

    def _documents(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor | None,
        types: torch.Tensor | None,
        slices: torch.Tensor | None,
        marks: torch.Tensor | None,
    ) -> torch.Tensor:
        """One vector a document."""
        mask = torch.ones_like(ids) if mask is None else mask
        if slices is None:
            return self._vectors(ids, mask, types, marks)
        return self.slice_pooling(in_chunks(self._vectors, (ids, mask, types), self.config.slice_chunk_size), slices)  # type: ignore[no-any-return]

    def _vectors(
        self,
        ids: torch.Tensor,
        mask: torch.Tensor,
        types: torch.Tensor | None = None,
        marks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """One vector a row."""
        return self._pooled(self._states(ids, mask, types), mask, marks)

    def _pooled(self, states: torch.Tensor, mask: torch.Tensor, marks: torch.Tensor | None = None) -> torch.Tensor:
        if self.bilstm is not None:
            states = self.bilstm(states, mask)
        return self.pooling.pool(states, mask, marks)


class PooledForMultipleChoice(PooledForSequenceClassification):
    """The same for multiple choice: one logit for each ending of a text, and a softmax over the endings."""

    def forward(  # type: ignore[override]
        self, labels: torch.Tensor | None = None, **inputs: torch.Tensor
    ) -> MultipleChoiceModelOutput:
        """Logits of shape (texts, endings), and the loss where labels, the number of each right ending, are given.

        Args:
            inputs: As for the model above, with the endings of a text as a second dimension.
        """
        shape = next(iter(inputs.values())).shape[:2]
        logits = super().forward(**_flat(inputs)).logits.reshape(shape)
        loss = None if labels is None else nn.functional.cross_entropy(logits.float(), labels)
        return MultipleChoiceModelOutput(loss=loss, logits=logits)

    def features(self, **inputs: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """As above, the endings of all texts one after the other."""
        return super().features(**_flat(inputs))


def _flat(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The endings of all texts one after the other."""
    return {name: tensor.flatten(0, 1) for name, tensor in inputs.items()}


def encoder_class(config: PretrainedConfig) -> type[PreTrainedModel]:
    """The class of the encoder without a head that a config describes."""
    name = spec_of(config).encoder_class
    classes = getattr(transformers, name) if name else transformers.MODEL_MAPPING[type(config)]
    cls: type[PreTrainedModel] = classes[0] if isinstance(classes, tuple) else classes
    return cls


def encoder_kwargs(config: PretrainedConfig) -> dict[str, bool]:
    """Arguments by which the encoder's class is built without its pooler, which ours replaces."""
    known = inspect.signature(encoder_class(config).__init__).parameters
    return {"add_pooling_layer": False} if "add_pooling_layer" in known else {}


def _without_pooler(encoder: PreTrainedModel) -> PreTrainedModel:
    """A loaded encoder, prepared to be part of a larger model."""
    if encoder_kwargs(encoder.config):
        encoder.pooler = None
    for module in encoder.modules():
        module._is_hf_initialized = True  # transformers re-initializes what is not marked
    return encoder


def build_encoder(config: PretrainedConfig) -> PreTrainedModel:
    """A new encoder without a head, as a config describes it."""
    return encoder_class(config)(config, **encoder_kwargs(config))


transformers.AutoConfig.register(POOLED, PooledConfig, exist_ok=True)
transformers.AutoModelForSequenceClassification.register(PooledConfig, PooledForSequenceClassification, exist_ok=True)
transformers.AutoModelForMultipleChoice.register(PooledConfig, PooledForMultipleChoice, exist_ok=True)
