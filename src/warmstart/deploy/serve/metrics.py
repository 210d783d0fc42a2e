"""What is counted while serving, in the text format of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from warmstart.deploy.serve.backend import Answered

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters of one server; a model's name and a status are all that tells one line from another."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        model = ["model"]
        self.requests = Counter(
            "warmstart_requests", "Requests, by model and status.", ["model", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "warmstart_seconds", "From request to answer.", model, buckets=SECONDS, registry=self.registry
        )
        self.texts = Counter("warmstart_texts", "Texts answered.", model, registry=self.registry)
        self.batch = Histogram(
            "warmstart_batch_texts", "Texts computed together.", model, buckets=TEXTS, registry=self.registry
        )
        self.waiting = Gauge("warmstart_queue_texts", "Texts not answered yet.", model, registry=self.registry)
        self.cut = Counter(
            "warmstart_tokens_cut", "Tokens of texts that the window left out.", model, registry=self.registry
        )

    def done(self, model: str, status: int, seconds: float) -> None:
        """Count a request."""
        self.requests.labels(model, status).inc()
        if model:
            self.seconds.labels(model).observe(seconds)

    def answered(self, model: str, found: Answered) -> None:
        """Count what was answered."""
        self.texts.labels(model).inc(len(found.found))
        self.cut.labels(model).inc(found.cut)
        for size in found.batches:
            self.batch.labels(model).observe(size)

    def text(self) -> bytes:
        """All of it."""
        found: bytes = generate_latest(self.registry)
        return found
