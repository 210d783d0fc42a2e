"""Small data that a tiny model learns in a second, and the settings it does so with."""

FAST = {"learn": {"rate": 3e-3, "epochs": 12, "batch": 16, "precision": "fp32"}}

GOOD = ["good", "great", "loved"]
BAD = ["bad", "terrible", "boring"]


def reviews(count: int, start: int = 0) -> list[tuple[str, str]]:
    """Distinct texts whose label a tiny model can learn: a good or a bad word, among words that say nothing."""
    rows = []
    for number in range(start, start + count):
        words, label = ((GOOD, "pos"), (BAD, "neg"))[number % 2]
        rows.append((f"the film {number} was {words[number // 2 % 3]} and very {words[number // 6 % 3]}", label))
    return rows
