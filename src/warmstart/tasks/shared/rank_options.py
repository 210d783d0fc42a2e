"""The options of the task `rank`, and which of them go together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from warmstart.options import Options
from warmstart.tasks.shared.fusion import Fusion
from warmstart.tasks.shared.prompts import AUTO


class RankOptions(Options):
    """Options of `task: {name: rank, …}`."""

    encoder: Literal["bi", "cross"] = "bi"
    """`bi` computes an embedding of each text, so that millions of documents can be searched; `cross` reads query and
    document together, which is more accurate and far slower: use it to rerank the few documents that a search has
    found."""
    rows: Literal["labelled", "pairs", "triplets"] = "labelled"
    """What a row is: a query and a document, `labelled` with its relevance (0 or less: not relevant); `pairs`, in which
    every document is relevant; or `triplets`, which also have a `negative`, a document that is not relevant."""
    loss: Literal["auto", "in-batch-negatives", "triplet", "margin", "bce"] = "auto"
    """What is learned: to pick the document of the query among all documents of the batch (`in-batch-negatives`, for a
    bi-encoder); that it scores higher, by `margin`, than the negatives of its row (`triplet`) or than all other
    documents of the batch (`margin`); or whether a document is relevant, by binary cross-entropy (`bce`, for a
    cross-encoder). auto: `in-batch-negatives` for a bi-encoder, `bce` for a cross-encoder."""
    scale: Annotated[float, Field(gt=0)] = 20.0
    """With `in-batch-negatives`, the factor that multiplies the cosine similarities before the softmax."""
    margin: Annotated[float, Field(gt=0)] | None = None
    """By how much the document of the query must score higher. Default: 0.2 for cosine similarities, 1 for logits and
    for Euclidean distances."""
    distance_metric: Literal["cosine", "euclidean"] = "cosine"
    """How a bi-encoder compares two texts: by the `cosine` similarity of their vectors, or by the `euclidean` distance
    between them, with the losses `triplet` and `margin`. The score is then minus the distance, and vectors keep their
    length."""
    negatives: Annotated[int, Field(ge=0)] = 1
    """How many documents judged not relevant (labelled 0 or less) a relevant one is contrasted with; the seed chooses
    them."""
    hard_negatives: Annotated[int, Field(ge=0)] = 0
    """How many hard negatives to add, mined before training: documents that are close to the query according to the
    encoder before training, and not known to be relevant."""
    random_negatives: Annotated[int, Field(ge=0)] = 0
    """How many random negatives to add: documents of any training row that are not known to be relevant to the query;
    the seed draws them."""
    pooling: Literal["mean", "cls", "max", "last"] = "mean"
    """How a bi-encoder pools the tokens of the last layer; use the pooling that the encoder was pretrained with."""
    query_prompt: str = AUTO
    """What is put before each query of a bi-encoder, such as `"query: "`, for an encoder that was trained with it;
    empty for nothing. auto: as for `data.prompt`, by what the encoder was trained with."""
    document_prompt: str = AUTO
    """The same for each document, such as `"passage: "`."""
    chunk_size: Annotated[int, Field(ge=1)] | None = None
    """How many texts a bi-encoder keeps the activations of at a time, so that a large batch fits into memory. The rest
    is recomputed for the backward pass: the same gradients, for about a third more time. Default: all."""
    candidates: Literal["auto", "given", "all"] = "auto"
    """The documents that are ranked for each query in evaluation: those `given` in its rows, or `all` of the test rows
    or of `data.documents`. auto: `all` if there are `data.documents` or rows without labels, otherwise `given`."""
    fusion: Fusion = "auto"
    """How a bi-encoder searches documents: by vectors alone (`none`), by reciprocal rank fusion of vectors and BM25
    (`bm25`), or by BM25 alone (`bm25-only`). auto: whichever is best after training on dev rows or, without those, on a
    fifth of the training queries, at most 100, that are held out for it; `none` if there are neither dev rows nor 50
    training queries, if `candidates` are given, and for a cross-encoder."""

    synonyms: ClassVar[Mapping[str, str]] = {
        "num_negatives": "negatives",
        "num_hard_negatives": "hard_negatives",
        "mine_hard_negatives": "hard_negatives",
        "mini_batch_size": "chunk_size",
        "pooling_mode": "pooling",
        "cross_encoder": "encoder: cross",
        "bi_encoder": "encoder: bi",
        "temperature": "scale",
        "triplet_margin": "margin",
        "distance": "distance_metric",
        "similarity": "distance_metric",
        "similarity_fn_name": "distance_metric",
        "hybrid": "fusion",
        "hybrid_search": "fusion",
        "bm25": "fusion",
        "rrf": "fusion: bm25",
    }

    @model_validator(mode="after")
    def _options_go_together(self) -> Self:
        refused = {"bi": ("bce",), "cross": ("in-batch-negatives", "triplet")}[self.encoder]
        if self.loss in refused:
            known = {"bi": "in-batch-negatives, triplet or margin", "cross": "bce or margin"}[self.encoder]
            raise ValueError(f"loss: found {self.loss} with encoder: {self.encoder}; expected {known}")
        own = {"labelled": self.negatives, "pairs": 0, "triplets": 1}[self.rows]
        if (self.encoder == "cross" or self.loss == "triplet") and not (
            own + self.hard_negatives + self.random_negatives
        ):
            raise ValueError(
                f"rows: found {self.rows}, which leaves no negative for a relevant document; set hard_negatives: 1 or "
                "random_negatives: 1, or give rows with a negative or with labels"
            )
        if self.encoder == "cross" and self.fusion in {"bm25", "bm25-only"}:
            raise ValueError(f"fusion: found {self.fusion} with encoder: cross; expected none, or encoder: bi")
        if self.distance_metric == "euclidean" and (self.encoder == "cross" or self.loss not in {"triplet", "margin"}):
            raise ValueError(
                f"distance_metric: found euclidean with encoder: {self.encoder} and loss: {self.loss}; expected "
                "encoder: bi and loss: triplet or margin"
            )
        return self
