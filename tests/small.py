"""Small data that a tiny model learns in a second, and the settings it does so with."""

from pathlib import Path

FAST = {"training": {"learning_rate": 3e-3, "epochs": 12, "batch_size": 16, "precision": "fp32"}}

GOOD = ["good", "great", "loved"]
BAD = ["bad", "terrible", "boring"]


def reviews(count: int, start: int = 0) -> list[tuple[str, str]]:
    """Distinct texts whose label a tiny model can learn: a good or a bad word, among words that say nothing."""
    rows = []
    for number in range(start, start + count):
        words, label = ((GOOD, "pos"), (BAD, "neg"))[number % 2]
        rows.append((f"the film {number} was {words[number // 2 % 3]} and very {words[number // 6 % 3]}", label))
    return rows


def relations(count: int, start: int = 0) -> list[dict[str, str]]:
    """Texts with two marked entities: that one loved the other is in the words, who loved whom in the marks alone."""
    rows = []
    for number in range(start, start + count):
        verb = "loved" if number % 3 else "and"
        marks = ("e1", "e2") if number % 3 == 1 else ("e2", "e1")
        text = "film {0} : <{1}>alice</{1}> {3} <{2}>bob</{2}> in paris".format(number, *marks, verb)
        label = f"Love({marks[0]},{marks[1]})" if number % 3 else "Other"
        rows.append({"text": text, "label": label})
    return rows


def riddles(count: int, start: int = 0) -> list[dict[str, object]]:
    """Texts with two or three endings, one of which is good."""
    rows = []
    for number in range(start, start + count):
        endings = [f"it was {BAD[number % 3]}", f"the plot was {BAD[number // 2 % 3]}", "a boring film"][
            : 1 + number % 2
        ]
        label = number // 2 % (len(endings) + 1)
        endings.insert(label, f"it was {GOOD[number % 3]}")
        rows.append({"text": f"the film {number}", "endings": endings, "label": label})
    return rows


def saved_weights(folder):
    """The weights of a saved model by name, in whichever files they are."""
    from safetensors.torch import load_file

    from warmstart.models.heads.linear_head import joined_weights

    path = Path(folder) / "model.safetensors"
    return load_file(path) if path.is_file() else joined_weights(str(folder))


def weight_bytes(folder):
    """The bytes of a saved model's weights, by file."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*.safetensors")}
