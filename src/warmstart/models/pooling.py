"""Pooling: from the hidden states of all layers and tokens to one vector per text, and from slices to one per document.

    pooling = Pooling(layers="concat-4", pooling="last+max+mean", hidden_size=768, num_layers=12)
    vectors = pooling(encoder(**batch, output_hidden_states=True).hidden_states, batch["attention_mask"])

Padding is ignored, on either side. Another package adds a pooling of tokens by an entry point of
the group `warmstart.poolings`: see `PoolingFactory`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import torch
from torch import nn

from warmstart.errors import PluginError, RecipeError, nearest
from warmstart.models.heads.bilstm import BiLSTM
from warmstart.runtime import plugins

POOLINGS = plugins.built_in_names("poolings")
POSITIONS = "positions"
MARKED_POOLINGS = ("marked", "cls+marked", POSITIONS)
"""Poolings of tokens that a task marks: the mean of those marked 1 and the mean of those marked 2, concatenated; or
`EntityPositions`."""
POSITION_SIZE, POSITION_HIDDEN_SIZE = 20, 300
"""Sizes of a position embedding and of the hidden layer in `EntityPositions`, those of the paper."""
MAX_DISTANCE = 512
"""The largest distance from an entity that has an embedding of its own, in tokens."""
FINAL = "final"
"""The pooling of a recurrent head: the state of each direction after it has read the whole text."""
SLICE_POOLINGS = ("mean", "max", "attention")
COMPARE = "compare"
"""Instead of one of these, for two texts that are read separately."""
_COSINE_WEIGHT = 2.0
"""What the cosine similarity of two texts is multiplied by beside what each dimension says.

A regression learns it first then: on MRPC, 64.5 to 71.0% with 8 rows a label, against 63.7 to 69.6% without it."""
HEAD_TYPES = ("linear", "pooler", "mlp", "bilstm")
"""What can stand on a pooling in our own models: see `PooledConfig`."""
LAYERS = re.compile(
    r"last|scalar-mix|(?P<number>-?\d{1,4})"
    r"|(?P<join>concat|sum|mean|max)-(?:all|(?:(?P<end>first|last)-)?(?P<count>[1-9]\d{0,3}))"
    r"|(?P<bare>first|last)-(?P<bare_count>[1-9]\d{0,3})",
    re.ASCII,
)

PoolingFactory = Callable[[int], nn.Module]
"""A pooling of another package: given the size of a token's vector, a module that maps states of shape (texts, tokens,
size) and a boolean mask of shape (texts, tokens) to vectors of shape (texts, size), or (texts, `output_size`) where the
module has an attribute of that name. A saved model holds its name and its parameters."""


class Pooling(nn.Module):
    """One vector per text from the hidden states of an encoder.

    Args:
        layers: `last`; the number of one layer, where 0 is the output of the embeddings, 1 the first block and -1 the
            last; `concat-N`, `sum-N`, `mean-N` or `max-N` of the last N, or of `all` blocks; `concat-first-N` and so on
            of the first N; `first-N` or `last-N`, short for their concatenation; `scalar-mix`, a learned mean of all
            blocks and the embeddings.
        pooling: `cls` (the first token), `last`, `mean`, `max`, `last+max+mean` (Howard & Ruder 2018, section 3.3), or
            `attention`, a learned mean; `marked`, the means of the tokens marked 1 and marked 2 concatenated, or
            `cls+marked`; `positions`, see `EntityPositions`; `final`, for the states of a BiLSTM, the forward one of
            the last token and the backward one of the first; or the name of a pooling that another package adds.
        hidden_size: The size of a hidden state.
        num_layers: How many blocks there are.
        last_hidden_size: The size of the last hidden state, if it differs.
        state_size: The size of the states that are pooled, if something between makes others of the joined layers.
        first_hidden_size: The size of the embeddings' output, if it differs.
    """

    def __init__(
        self,
        layers: str | int,
        pooling: str,
        hidden_size: int,
        num_layers: int,
        last_hidden_size: int | None = None,
        state_size: int | None = None,
        first_hidden_size: int | None = None,
    ) -> None:
        super().__init__()
        self.joined_by, self.chosen = choose_layers(layers, num_layers)
        self.num_layers = num_layers
        self.pooling = pooling
        ends = {0: first_hidden_size, num_layers: last_hidden_size}
        sizes = [ends.get(number) or hidden_size for number in self.chosen]
        if self.joined_by != "concat" and len(set(sizes)) > 1:
            raise RecipeError(
                f"layers: found {layers!r}, but these layers of the encoder have the sizes "
                f"{', '.join(map(str, sizes))}; expected one layer, last or concat-N"
            )
        self.token_size = sum(sizes) if self.joined_by == "concat" else sizes[0]
        """Size of a token's vector after the layers are joined."""
        self.mix = ScalarMix(len(self.chosen)) if self.joined_by == "scalar-mix" else None
        size = state_size or self.token_size
        self.attention = AttentionPooling(size) if pooling == "attention" else None
        self.custom = _custom(pooling, size)
        self.positions = EntityPositions(size) if pooling == POSITIONS else None
        parts = sum(2 if name == "marked" else 1 for name in pooling.split("+"))
        own = self.custom if self.positions is None else self.positions
        self.output_size = int(getattr(own, "output_size", size * (1 if own else parts)))
        """Size of a text's vector."""

    @property
    def needs_all_layers(self) -> bool:
        """Whether hidden states below the last are read."""
        return self.chosen != (self.num_layers,)

    @property
    def has_parameters(self) -> bool:
        """Whether the pooling of tokens is trained, beside the joining of layers."""
        parts = (self.attention, self.custom, self.positions)
        return any(next(part.parameters(), None) is not None for part in parts if part)

    def forward(
        self,
        hidden_states: Sequence[torch.Tensor],
        attention_mask: torch.Tensor | None = None,
        marks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Vectors of shape (texts, `output_size`).

        Args:
            hidden_states: Outputs of the embeddings and of each block, as `output_hidden_states=True` gives them; if
                only the last is read, it alone is enough.
            attention_mask: 1 for a token, 0 for padding; None if there is no padding.
            marks: With `marked`, 1 and 2 for the tokens of either kind, 0 for all others; with `positions`, -1 for
                those that are not read.
        """
        states = self.join(hidden_states)
        mask = torch.ones(states.shape[:2], device=states.device) if attention_mask is None else attention_mask
        return self.pool(states, mask, marks)

    def join(self, hidden_states: Sequence[torch.Tensor]) -> torch.Tensor:
        """The chosen layers joined, of shape (texts, tokens, `token_size`)."""
        if not self.needs_all_layers:
            hidden_states = hidden_states[-1:]
        elif len(hidden_states) != self.num_layers + 1:
            raise RecipeError(
                f"layers: found {len(hidden_states)} hidden states, expected {self.num_layers + 1}: "
                "the embeddings' and one of each block; this encoder can be pooled with layers: last only"
            )
        else:
            hidden_states = [hidden_states[number] for number in self.chosen]
        return self._joined(list(hidden_states))

    def pool(
        self, states: torch.Tensor, attention_mask: torch.Tensor, marks: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Vectors of shape (texts, `output_size`) from layers that are joined already."""
        if (marks is None) != (self.pooling not in MARKED_POOLINGS):
            raise ValueError(f"marks: found {'none' if marks is None else 'some'}, and pooling is {self.pooling}")
        mask = attention_mask.to(states.device).bool()
        learned = self.attention if self.attention is not None else self.custom
        if learned is not None:
            return learned(states, mask)  # type: ignore[no-any-return]
        if self.positions is not None and marks is not None:
            return self.positions(states, mask, marks.to(states.device))  # type: ignore[no-any-return]
        vectors = [_FUNCTIONS[name](states, mask) for name in self.pooling.split("+") if name != "marked"]
        if marks is not None:
            vectors += [mean_of_tokens(states, marks.to(states.device) == number) for number in (1, 2)]
        return torch.cat(vectors, dim=-1)

    def _joined(self, states: list[torch.Tensor]) -> torch.Tensor:
        if self.mix is not None:
            return self.mix(states)  # type: ignore[no-any-return]
        if len(states) == 1:
            return states[0]
        if self.joined_by == "concat":
            return torch.cat(states, dim=-1)
        stacked = torch.stack(states)
        if self.joined_by == "max":
            return stacked.amax(dim=0)
        return stacked.sum(dim=0) if self.joined_by == "sum" else stacked.mean(dim=0)


class SlicePooling(nn.Module):
    """One vector per document from those of its slices: their `mean`, their `max`, or `attention`, a learned mean.

    Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", compare the three as hierarchical methods.

    `compare` is for two slices that are texts of a pair: how far the two, at length 1, lie apart, and their product, in
    each dimension (Conneau et al. 2017, "Supervised Learning of Universal Sentence Representations"), and the cosine
    similarity of the whole.
    """

    def __init__(self, pooling: str, size: int) -> None:
        super().__init__()
        if pooling not in {*SLICE_POOLINGS, COMPARE}:
            raise RecipeError(f"slice_pooling: found {pooling!r}; {nearest(pooling, SLICE_POOLINGS)}")
        self.pooling = pooling
        self.attention = AttentionPooling(size) if pooling == "attention" else None
        self.output_size = 2 * size + 1 if pooling == COMPARE else size

    def forward(self, vectors: torch.Tensor, slices: torch.Tensor) -> torch.Tensor:
        """Vectors of shape (documents, output size).

        Args:
            vectors: Those of all slices, with the slices of a document next to each other.
            slices: The number of slices of each document.
        """
        slices = slices.to(vectors.device)
        if not is_tracing():  # a trace keeps no checks
            counts = slices.tolist()
            if sum(counts) != len(vectors) or min(counts, default=1) < 1:
                raise ValueError(
                    f"slices: found {counts}, expected numbers from 1 on that add up to {len(vectors)} rows"
                )
        if self.pooling == COMPARE:
            first, second = nn.functional.normalize(vectors, dim=-1).reshape(-1, 2, vectors.shape[-1]).unbind(1)
            product = first * second
            cosine = _COSINE_WEIGHT * product.sum(dim=-1, keepdim=True)
            return torch.cat([(first - second).abs(), product, cosine], dim=-1)
        mask = torch.arange(slices.max(), device=vectors.device) < slices[:, None]  # type: ignore[call-overload]
        # In one step, so that a trace of it fits any number of slices.
        padded = vectors.new_zeros(*mask.shape, vectors.shape[-1]).masked_scatter(mask[..., None], vectors)
        if self.attention is not None:
            return self.attention(padded, mask)  # type: ignore[no-any-return]
        return _FUNCTIONS[self.pooling](padded, mask)


class ScalarMix(nn.Module):
    """A learned mean of layers, times a learned scale (Peters et al. 2018, "Deep contextualized word representations",
    equation 1); starts as the plain mean.
    """

    def __init__(self, count: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(count))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, states: list[torch.Tensor]) -> torch.Tensor:
        shares = self.weights.softmax(dim=0)
        total = torch.zeros_like(states[0])
        for share, state in zip(shares, states, strict=True):
            total = total + share * state
        return self.scale * total


class AttentionPooling(nn.Module):
    """A learned mean of positions: a softmax over the product of each with one learned query (Yang et al. 2016,
    "Hierarchical Attention Networks", equations 6 and 7, with a scaled product in place of 5's hidden layer); starts as
    the mean.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(size))

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # As a matrix of one row: OpenVINO has no product of states with a vector.
        scores = nn.functional.linear(states.float(), self.query.float()[None]).squeeze(-1) / self.query.shape[0] ** 0.5
        shares = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
        pooled: torch.Tensor = (shares[..., None] * states).sum(dim=1)
        return pooled.to(states.dtype)


class EntityPositions(nn.Module):
    """A BiLSTM over the tokens of a text, each with embeddings of its distance to two entities, and a hidden layer over
    the final state of each direction (Shi & Lin 2019, "Simple BERT Models for Relation Extraction and Semantic Role
    Labeling", section 2.1).
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(2 * MAX_DISTANCE + 1, POSITION_SIZE)
        self.bilstm = BiLSTM(size + 2 * POSITION_SIZE, 2 * size)
        self.hidden = nn.Linear(2 * size, POSITION_HIDDEN_SIZE)
        self.output_size = POSITION_HIDDEN_SIZE

    def forward(self, states: torch.Tensor, mask: torch.Tensor, marks: torch.Tensor) -> torch.Tensor:
        """Vectors of shape (texts, `output_size`).

        Args:
            marks: 1 and 2 for the tokens of either entity, 0 for the rest of the text, -1 for what is not read.
        """
        mask = mask & (marks >= 0)
        distances = [entity_distances(marks == number).clamp(-MAX_DISTANCE, MAX_DISTANCE) for number in (1, 2)]
        positions = [self.embeddings(distance + MAX_DISTANCE).to(states.dtype) for distance in distances]
        read = self.bilstm(torch.cat([states, *positions], dim=-1), mask)
        return nn.functional.gelu(self.hidden(_final(read, mask)))


def entity_distances(entity: torch.Tensor) -> torch.Tensor:
    """How many tokens each one is after the entity, or minus how many before it; 0 inside.

    Args:
        entity: Whether each token is the entity's, of shape (texts, tokens).
    """
    tokens = torch.arange(entity.shape[1], device=entity.device)
    start = entity.int().argmax(dim=1, keepdim=True)
    end = (tokens * entity).argmax(dim=1, keepdim=True)
    return (tokens - start).clamp(max=0) + (tokens - end).clamp(min=0)


def choose_layers(layers: str | int, num_layers: int) -> tuple[str, tuple[int, ...]]:
    """How layers are joined, and the numbers of the layers: 0 for the embeddings, then 1 to `num_layers`."""
    match = LAYERS.fullmatch(str(layers))
    if match is None:
        known = (
            "last, scalar-mix, a layer's number, or concat, sum, mean or max with -N, -first-N or -all, as concat-4 or "
            "mean-first-4"
        )
        raise RecipeError(f"layers: found {layers!r}; expected {known}")
    if match["number"]:
        number = int(match["number"])
        if not -num_layers - 1 <= number <= num_layers:
            raise RecipeError(
                f"layers: found {number}; this encoder has layers 0 to {num_layers}, or {-num_layers - 1} to -1"
            )
        return "one", (number % (num_layers + 1),)
    join = match["join"] or ("concat" if match["bare"] else None)
    if join:
        count = int(match["count"] or match["bare_count"] or num_layers)
        if count > num_layers:
            raise RecipeError(f"layers: found {layers!r}; this encoder has {num_layers} blocks: set {join}-all")
        first = 1 if "first" in (match["end"], match["bare"]) else num_layers - count + 1
        return join, tuple(range(first, first + count))
    return (str(layers), tuple(range(num_layers + 1))) if layers == "scalar-mix" else ("one", (num_layers,))


def is_tracing() -> bool:
    """Whether a model is being exported as a graph, which must fit batches of any size."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def _custom(name: str, size: int) -> nn.Module | None:
    """The module of a pooling that another package adds; None for one of our own."""
    if name in (FINAL, *MARKED_POOLINGS):
        return None
    plugins.check("poolings", name, "pooling")
    built_in: dict[str, PoolingFactory | None] = dict.fromkeys(POOLINGS)
    factory = plugins.load("poolings", name, built_in)
    module = None if factory is None else factory(size)
    if factory is not None and not isinstance(module, nn.Module):
        raise PluginError(
            f"{plugins.described('poolings', name)}: found {type(module).__name__}, expected that it gives an nn.Module"
        )
    return module


def _first(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _at(states, mask.int().argmax(dim=1))


def _last(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    positions = torch.arange(mask.shape[1], device=mask.device) * mask
    return _at(states, positions.argmax(dim=1))


def _at(states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The state at one position of each text."""
    return states.gather(1, positions[:, None, None].expand(-1, 1, states.shape[-1])).squeeze(1)


def mean_of_tokens(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean of the states of each text, without padding."""
    # Summed in fp32: a sum of hundreds of numbers in fp16 or bf16 has a visible error.
    total = (states.float() * mask[..., None]).sum(dim=1)
    return (total / mask.sum(dim=1, keepdim=True).clamp(min=1)).to(states.dtype)


def _max(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states.masked_fill(~mask[..., None], torch.finfo(states.dtype).min).amax(dim=1)


def _final(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """At the last token a backward LSTM has read that token alone, and at the first a forward one has."""
    forward, backward = states.chunk(2, dim=-1)
    return torch.cat([_last(forward, mask), _first(backward, mask)], dim=-1)


_FUNCTIONS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cls": _first,
    "last": _last,
    "mean": mean_of_tokens,
    "max": _max,
    FINAL: _final,
}
