"""A small corpus, and a language model from scratch."""

import random

import pytest

TINY = {"architecture": "awd-lstm", "num_layers": 2, "hidden_size": 16, "embedding_size": 8, "vocab_size": 400}
WORDS = {
    "pos": ["a", "wonderful", "film", "with", "a", "great", "story", "and", "actors", "that", "Alice", "loved"],
    "neg": ["this", "terrible", "book", "was", "boring", "and", "bad", "so", "BOB", "hated", "every", "page"],
}


def document(seed):
    """A document of a few lines, and its label."""
    generator = random.Random(seed)
    label = generator.choice(sorted(WORDS))
    return " ".join(generator.choices(WORDS[label], k=generator.randint(8, 30))) + ".", label


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Raw text, a document a line, as a file."""
    path = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    path.write_text("".join(f'{{"text": "{document(seed)[0]}"}}\n' for seed in range(80)))
    return str(path)


@pytest.fixture(scope="session")
def labelled(tmp_path_factory):
    """Labelled documents: 48 to learn from, 16 to test on."""
    folder = tmp_path_factory.mktemp("labelled")
    for name, seeds in {"train": range(100, 148), "test": range(200, 216)}.items():
        lines = ["text,label", *(",".join(document(seed)) for seed in seeds)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    return {name: str(folder / f"{name}.csv") for name in ("train", "test")}


@pytest.fixture(scope="session")
def scratch():
    """The recipe's `from_scratch` of a tiny model."""
    return dict(TINY)
