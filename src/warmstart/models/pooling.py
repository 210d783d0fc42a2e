"""Pooling: from the hidden states of all layers and tokens to one vector a text, and from slices to one a document.

    pooling = Pooling(layers="concat-4", tokens="last+max+mean", width=768, depth=12)
    vectors = pooling(encoder(**batch, output_hidden_states=True).hidden_states, batch["attention_mask"])

Padded positions never count, on whichever side they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import torch
from torch import nn

from warmstart.errors import RecipeError, nearest

TOKENS = ("cls", "mean", "max", "last", "last+max+mean", "attention")
MARKED = ("marked", "cls+marked")
"""Tokens that a task marks: two vectors side by side, the mean of those marked 1 and of those marked 2."""
SLICES = ("mean", "max", "attention")
HEADS = ("linear", "mlp", "bilstm")
"""What can stand on a pooling in our own model: see `PooledConfig`."""
LAYERS = re.compile(r"last|mix|(?P<how>concat|sum|mean|max)-(?P<many>all|[1-9]\d{0,3})|(?P<one>-?\d{1,4})", re.ASCII)


class Pooling(nn.Module):
    """One vector a text from the hidden states of an encoder.

    Args:
        layers: `last`; the number of one layer, where 0 is what the embeddings put out, 1 the first block and -1 the
            last; `concat-N`, `sum-N`, `mean-N` or `max-N` of the last N, or of `all` blocks; `mix`, a learned mean of
            all blocks and the embeddings.
        tokens: `cls` (the first one), `last`, `mean`, `max`, `last+max+mean` (Howard & Ruder 2018, section 3.3), or
            `attention`, a learned mean; `marked`, the means of the tokens marked 1 and marked 2 side by side, or
            `cls+marked`.
        width: Numbers a token has in a hidden state.
        depth: How many blocks there are.
        last_width: Numbers it has in the last one, where that differs.
    """

    def __init__(self, layers: str | int, tokens: str, width: int, depth: int, last_width: int | None = None) -> None:
        super().__init__()
        if tokens not in {*TOKENS, *MARKED}:
            raise RecipeError(f"tokens: found {tokens!r}; {nearest(tokens, TOKENS)}")
        self.how, self.chosen = choose_layers(layers, depth)
        self.depth = depth
        self.tokens = tokens
        widths = [last_width or width if number == depth else width for number in self.chosen]
        if self.how != "concat" and len(set(widths)) > 1:
            raise RecipeError(
                f"layers: found {layers!r}, but the encoder's last layer is {last_width} wide, those below {width}; "
                "expected one layer, last or concat-N"
            )
        self.token_width = joined = sum(widths) if self.how == "concat" else widths[0]
        """How many numbers a token has when the layers are joined."""
        self.mix = ScalarMix(len(self.chosen)) if self.how == "mix" else None
        self.attention = Attention(joined) if tokens == "attention" else None
        self.width = joined * sum(2 if name == "marked" else 1 for name in tokens.split("+"))
        """How many numbers a vector has."""

    @property
    def needs_all(self) -> bool:
        """Whether hidden states below the last are read."""
        return self.chosen != (self.depth,)

    def forward(
        self,
        hidden_states: Sequence[torch.Tensor],
        attention_mask: torch.Tensor | None = None,
        marks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Vectors of shape (texts, `width`).

        Args:
            hidden_states: What the embeddings and each block put out, as `output_hidden_states=True` gives them; where
                only the last is read, it alone is enough.
            attention_mask: 1 for a token, 0 for padding; None where there is no padding.
            marks: With `marked`, 1 and 2 for the tokens of either kind, 0 for all others.
        """
        states = self.join(hidden_states)
        mask = torch.ones(states.shape[:2], device=states.device) if attention_mask is None else attention_mask
        return self.pool(states, mask, marks)

    def join(self, hidden_states: Sequence[torch.Tensor]) -> torch.Tensor:
        """The chosen layers as one, of shape (texts, tokens, `token_width`)."""
        if not self.needs_all:
            hidden_states = hidden_states[-1:]
        elif len(hidden_states) != self.depth + 1:
            raise RecipeError(
                f"layers: found {len(hidden_states)} hidden states, expected {self.depth + 1}: "
                "the embeddings' and one of each block; this encoder can be pooled with layers: last only"
            )
        else:
            hidden_states = [hidden_states[number] for number in self.chosen]
        return self._as_one(list(hidden_states))

    def pool(
        self, states: torch.Tensor, attention_mask: torch.Tensor, marks: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Vectors of shape (texts, `width`) from layers joined already."""
        if (marks is None) != (self.tokens not in MARKED):
            raise ValueError(f"marks: found {'none' if marks is None else 'some'}, and tokens is {self.tokens}")
        mask = attention_mask.to(states.device).bool()
        if self.attention is not None:
            return self.attention(states, mask)  # type: ignore[no-any-return]
        found = [_TOKEN_POOLS[name](states, mask) for name in self.tokens.split("+") if name != "marked"]
        if marks is not None:
            found += [_mean(states, marks.to(states.device) == number) for number in (1, 2)]
        return torch.cat(found, dim=-1)

    def _as_one(self, states: list[torch.Tensor]) -> torch.Tensor:
        if self.mix is not None:
            return self.mix(states)  # type: ignore[no-any-return]
        if len(states) == 1:
            return states[0]
        if self.how == "concat":
            return torch.cat(states, dim=-1)
        stacked = torch.stack(states)
        if self.how == "max":
            return stacked.amax(dim=0)
        return stacked.sum(dim=0) if self.how == "sum" else stacked.mean(dim=0)


class SlicePooling(nn.Module):
    """One vector a document from those of its slices: their `mean`, their `max`, or `attention`, a learned mean.

    Sun et al. 2019, "How to Fine-Tune BERT for Text Classification?", compare the three as hierarchical methods.
    """

    def __init__(self, how: str, width: int) -> None:
        super().__init__()
        if how not in SLICES:
            raise RecipeError(f"slices: found {how!r}; {nearest(how, SLICES)}")
        self.how = how
        self.attention = Attention(width) if how == "attention" else None

    def forward(self, vectors: torch.Tensor, slices: torch.Tensor) -> torch.Tensor:
        """Vectors of shape (documents, width).

        Args:
            vectors: Those of all slices, a document's one after the other.
            slices: How many each document has.
        """
        slices = slices.to(vectors.device)
        if not tracing():  # a trace keeps no checks
            counts = slices.tolist()
            if sum(counts) != len(vectors) or min(counts, default=1) < 1:
                raise ValueError(
                    f"slices: found {counts}, expected numbers from 1 on that add up to {len(vectors)} rows"
                )
        mask = torch.arange(slices.max(), device=vectors.device) < slices[:, None]  # type: ignore[call-overload]
        # In one step, so that a trace of it fits any number of slices.
        padded = vectors.new_zeros(*mask.shape, vectors.shape[-1]).masked_scatter(mask[..., None], vectors)
        if self.attention is not None:
            return self.attention(padded, mask)  # type: ignore[no-any-return]
        return _TOKEN_POOLS[self.how](padded, mask)


class ScalarMix(nn.Module):
    """A learned mean of layers, times a learned scale (Peters et al. 2018, "Deep contextualized word representations",
    equation 1); begins as the plain mean.
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


class Attention(nn.Module):
    """A learned mean of places: a softmax over how well each answers one learned query (Yang et al. 2016, "Hierarchical
    Attention Networks", equations 6 and 7, with a scaled product in place of 5's hidden layer); begins as the mean.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(width))

    def forward(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        # As a matrix of one row: OpenVINO has no product of states with a vector.
        scores = nn.functional.linear(states.float(), self.query.float()[None]).squeeze(-1) / self.query.shape[0] ** 0.5
        shares = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1)
        pooled: torch.Tensor = (shares[..., None] * states).sum(dim=1)
        return pooled.to(states.dtype)


def choose_layers(layers: str | int, depth: int) -> tuple[str, tuple[int, ...]]:
    """How layers are joined, and the numbers of the layers: 0 for the embeddings, then 1 to `depth`."""
    found = LAYERS.fullmatch(str(layers))
    if found is None:
        known = "last, mix, a layer's number, or concat, sum, mean or max with -N or -all, as concat-4"
        raise RecipeError(f"layers: found {layers!r}; expected {known}")
    if found["one"]:
        number = int(found["one"])
        if not -depth - 1 <= number <= depth:
            raise RecipeError(f"layers: found {number}; this encoder has layers 0 to {depth}, or {-depth - 1} to -1")
        return "one", (number % (depth + 1),)
    if found["how"]:
        many = depth if found["many"] == "all" else int(found["many"])
        if many > depth:
            raise RecipeError(f"layers: found {layers!r}; this encoder has {depth} blocks: say {found['how']}-all")
        return found["how"], tuple(range(depth - many + 1, depth + 1))
    return (str(layers), tuple(range(depth + 1))) if layers == "mix" else ("one", (depth,))


def tracing() -> bool:
    """Whether a model is being written down as a graph, which must fit batches of any size."""
    return bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def _first(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _at(states, mask.int().argmax(dim=1))


def _last(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    places = torch.arange(mask.shape[1], device=mask.device) * mask
    return _at(states, places.argmax(dim=1))


def _at(states: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Of each text the state at one place."""
    return states.gather(1, places[:, None, None].expand(-1, 1, states.shape[-1])).squeeze(1)


def _mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    # Summed in 32 bits: hundreds of numbers of 16 bits add up to a visible error.
    total = (states.float() * mask[..., None]).sum(dim=1)
    return (total / mask.sum(dim=1, keepdim=True).clamp(min=1)).to(states.dtype)


def _max(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states.masked_fill(~mask[..., None], torch.finfo(states.dtype).min).amax(dim=1)


_TOKEN_POOLS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "cls": _first,
    "last": _last,
    "mean": _mean,
    "max": _max,
}
