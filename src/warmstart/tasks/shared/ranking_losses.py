"""Losses of ranking: a query's own document must be closer than others, its own negatives and those of its batch.

The candidates of every query are all documents of the batch; `roles` has what each is to it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import torch
from torch.nn import functional as F

OWN, NEGATIVE, OTHER, HIDDEN = 1, 2, 0, -1
"""The query's document, a negative of its own row, a document of another row, and one that must not count."""

RankingLoss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Key = TypeVar("Key", bound=Hashable)


def roles(
    queries: Sequence[Key],
    documents: Sequence[Sequence[Key]],
    known: Callable[[Key], Iterable[Key]] = lambda query: (),
) -> torch.Tensor:
    """What each document of a batch is to each query, of shape (queries, documents).

    A document that another row says is relevant to the same query is hidden from it, in whatever row of the batch it
    is: it would be learned as not relevant.

    Args:
        queries: Anything that is equal for equal texts.
        documents: Of each row its document, then its negatives.
        known: Gives the documents that rows of other batches say are relevant to a query.
    """
    relevant = {query: set(known(query)) for query in set(queries)}
    for query, (own, *_) in zip(queries, documents, strict=True):
        relevant[query].add(own)
    flat = [document for row in documents for document in row]
    matrix = torch.full((len(queries), len(flat)), OTHER)
    start = 0
    for number, (query, row) in enumerate(zip(queries, documents, strict=True)):
        matrix[number, start : start + len(row)] = NEGATIVE
        matrix[number, [column for column, document in enumerate(flat) if document in relevant[query]]] = HIDDEN
        matrix[number, start] = OWN
        start += len(row)
    return matrix


def dot_products(queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
    """Scores of all documents for all queries: of vectors of length 1, their cosine similarities."""
    return queries @ documents.T


def negative_distances(queries: torch.Tensor, documents: torch.Tensor) -> torch.Tensor:
    """Scores by Euclidean distance, so that the closest is the best."""
    # Not by matrix products, which lose the small distances: those are what is learned.
    return -torch.cdist(queries, documents, compute_mode="donot_use_mm_for_euclid_dist")


def in_batch_negatives(scale: float) -> RankingLoss:
    """Which document of the batch is the query's own, as a choice among all ("Representation Learning with Contrastive
    Predictive Coding", Oord et al. 2018; "Efficient Natural Language Response Suggestion", Henderson et al. 2017).

    Args:
        scale: What scores are multiplied by before the softmax.
    """

    def loss(scores: torch.Tensor, roles: torch.Tensor) -> torch.Tensor:
        shown = (scores * scale).masked_fill(roles == HIDDEN, -torch.inf)
        return F.cross_entropy(shown, (roles == OWN).int().argmax(dim=1))

    return loss


def triplet(margin: float) -> RankingLoss:
    """The query's own document must be closer by a margin than each negative of its row ("FaceNet", Schroff et al.
    2015, eq. 3, with cosine in place of squared distance; "Sentence-BERT", Reimers and Gurevych 2019, §3, has the
    distance itself).
    """

    def loss(scores: torch.Tensor, roles: torch.Tensor) -> torch.Tensor:
        violations = _violations(scores, roles, margin)[roles == NEGATIVE]
        return violations.mean() if len(violations) else scores.sum() * 0

    return loss


def batch_all(margin: float) -> RankingLoss:
    """It must be closer by a margin than every other document of the batch; the mean over those that are too close.

    "In Defense of the Triplet Loss for Person Re-Identification", Hermans et al. 2017, eq. 6, without those at zero.
    """

    def loss(scores: torch.Tensor, roles: torch.Tensor) -> torch.Tensor:
        violations = _violations(scores, roles, margin)[(roles == NEGATIVE) | (roles == OTHER)]
        return violations.sum() / (violations > 0).sum().clamp(min=1)

    return loss


def _violations(scores: torch.Tensor, roles: torch.Tensor, margin: float) -> torch.Tensor:
    """How much each document is short of being a margin farther than the query's own."""
    own = scores.gather(1, (roles == OWN).int().argmax(dim=1, keepdim=True))
    return (margin - own + scores).relu()


def margin_mse(scale: float) -> RankingLoss:
    """By how much the query's own document is better than each negative of its row, as a teacher has it ("Improving
    Efficient Neural Ranking Models with Cross-Architecture Knowledge Distillation", Hofstätter et al. 2020, eq. 5).

    The scores of a teacher take the place of roles; they are NaN outside the query's row, which begins with its own.

    Args:
        scale: What scores are multiplied by to be compared with the teacher's logits.
    """

    def loss(scores: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        scored = ~teacher.isnan()
        first = scored.int().argmax(dim=1, keepdim=True)
        differences = scale * (scores.gather(1, first) - scores) - (teacher.gather(1, first) - teacher)
        negatives = scored & ~torch.zeros_like(scored).scatter(1, first, value=True)
        return differences[negatives].square().mean()

    return loss


def with_teacher(labelled: RankingLoss, taught: RankingLoss) -> Callable[..., torch.Tensor]:
    """One loss for the queries with labels, another for those that a teacher has scored; the mean over all of them."""

    def loss(scores: torch.Tensor, roles: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
        is_taught = ~teacher.isnan().all(dim=1)
        parts = [
            part(scores[rows], target[rows]) * (rows.sum() / len(rows))
            for part, target, rows in ((labelled, roles, ~is_taught), (taught, teacher, is_taught))
            if rows.any()
        ]
        return torch.stack(parts).sum()

    return loss


def bce(scores: torch.Tensor, relevant: torch.Tensor) -> torch.Tensor:
    """Whether a document is relevant, each by itself: binary cross-entropy."""
    return F.binary_cross_entropy_with_logits(scores, relevant)


def grouped_margin(margin: float) -> RankingLoss:
    """A margin between a relevant document and each of those that follow it, up to the next relevant one."""

    def loss(scores: torch.Tensor, relevant: torch.Tensor) -> torch.Tensor:
        own = scores[relevant > 0][(relevant > 0).long().cumsum(0) - 1]
        violations = (margin - own + scores).relu()[relevant <= 0]
        return violations.mean() if len(violations) else scores.sum() * 0

    return loss
