"""Metrics of a server, in the text format of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from warmstart.deploy.serve.backend import BackendReply

SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
TEXTS_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServerMetrics:
    """Metrics of one server, labelled by the name of the model and the status alone."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        model = ["model"]
        self.requests = Counter(
            "warmstart_requests", "Requests, by model and status.", ["model", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "warmstart_seconds", "From request to answer.", model, buckets=SECONDS_BUCKETS, registry=self.registry
        )
        self.texts = Counter("warmstart_texts", "Texts answered.", model, registry=self.registry)
        self.batch = Histogram(
            "warmstart_batch_texts", "Texts computed together.", model, buckets=TEXTS_BUCKETS, registry=self.registry
        )
        self.queue = Gauge("warmstart_queue_texts", "Texts not answered yet.", model, registry=self.registry)
        self.tokens_cut = Counter(
            "warmstart_tokens_cut", "Tokens of texts that the window left out.", model, registry=self.registry
        )

    def count_request(self, model: str, status: int, seconds: float) -> None:
        """Count a request; `model` is empty where it asked for none."""
        self.requests.labels(model, status).inc()
        if model:
            self.seconds.labels(model).observe(seconds)

    def count_reply(self, model: str, reply: BackendReply) -> None:
        """Count the texts and batches of a reply."""
        self.texts.labels(model).inc(len(reply.outcomes))
        self.tokens_cut.labels(model).inc(reply.tokens_cut)
        for size in reply.batch_sizes:
            self.batch.labels(model).observe(size)

    def text(self) -> bytes:
        """All metrics."""
        exposition: bytes = generate_latest(self.registry)
        return exposition
