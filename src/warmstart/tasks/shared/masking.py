"""Which tokens of a sequence a masked language model must predict, and what it sees in their place.

Of the tokens chosen 80% become the mask token, 10% a random one, and 10% stay ("BERT", Devlin et al. 2019, §3.1).
Whole words are BERT's later variant; spans are those of "SpanBERT", Joshi et al. 2020, §3.1: lengths geometric with
p = 0.2, at most 10 words, and one fate for all tokens of a span.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warmstart.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

IGNORED = -100
"""The label of a token that is not masked."""
NEVER = -1
"""The unit of a token that is never masked, as special ones are."""
LONGEST, P = 10, 0.2
"""The most words of a span, and the parameter of the lengths' distribution."""

_LENGTHS = np.cumsum(P * (1 - P) ** np.arange(LONGEST))
_LENGTHS /= _LENGTHS[-1]


@dataclass(frozen=True)
class MaskingVocabulary:
    """What masking must know of a tokenizer."""

    mask: int
    size: int
    special: frozenset[int]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> MaskingVocabulary:
        """That of a tokenizer; one without a mask token is refused."""
        if tokenizer.mask_token_id is None:
            raise ModelError("the model's tokenizer has no mask token, so nothing can be masked; use another encoder")
        return cls(tokenizer.mask_token_id, len(tokenizer), frozenset(tokenizer.all_special_ids))

    def draw(self, count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
        """Random tokens, none of them special."""
        tokens = random.integers(self.size, size=count)
        special = sorted(self.special)
        while (wrong := np.isin(tokens, special)).any():
            tokens[wrong] = random.integers(self.size, size=int(wrong.sum()))
        return tokens


def mask(
    ids: Sequence[int],
    units: Sequence[int],
    probability: float,
    spans: bool,
    vocabulary: MaskingVocabulary,
    random: np.random.Generator,
) -> tuple[list[int], list[int]]:
    """A sequence with tokens masked, and of each token what must be predicted there, or `IGNORED`.

    At least one unit is masked wherever there is one; apart from that no more tokens than the probability allows.

    Args:
        units: The unit (a token, a word) that each token belongs to; units next to one another differ by 1.
        probability: The share of the tokens that may be masked.
        spans: Mask stretches of units instead of single ones.
    """
    seen, labels = np.array(ids), np.full(len(ids), IGNORED)
    groups = _groups(units, probability, spans, random)
    chosen = np.array([token for group in groups for token in group], dtype=np.int64)
    fates = (
        np.repeat(random.random(len(groups)), [len(group) for group in groups]) if spans else random.random(len(chosen))
    )
    replacements = vocabulary.draw(len(chosen), random)
    labels[chosen] = seen[chosen]
    seen[chosen] = np.where(fates < 0.8, vocabulary.mask, np.where(fates < 0.9, replacements, seen[chosen]))
    return seen.tolist(), labels.tolist()


def _groups(units: Sequence[int], probability: float, spans: bool, random: np.random.Generator) -> list[list[int]]:
    """The tokens to mask, those of a span or unit together."""
    tokens: dict[int, list[int]] = {}
    for token, unit in enumerate(units):
        if unit != NEVER:
            tokens.setdefault(unit, []).append(token)
    room = max(1, round(probability * sum(map(len, tokens.values()))))
    taken: set[int] = set()
    groups: list[list[int]] = []
    for first in random.permutation(list(tokens)).tolist():
        length = 1 + int(np.searchsorted(_LENGTHS, random.random(), side="right")) if spans else 1
        group: list[int] = []
        for unit in range(first, first + length):
            fits = unit in tokens and unit not in taken and (len(tokens[unit]) <= room or not taken)
            if not fits:
                break
            taken.add(unit)
            group += tokens[unit]
            room -= len(tokens[unit])
        if group:
            groups.append(group)
        if room <= 0:
            break
    return groups
