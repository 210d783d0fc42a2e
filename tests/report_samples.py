"""Evidence and a diagnosis of the shape that other verbs write, with texts from anywhere in them."""

HOSTILE = "<script>alert('x')</script> \x1b[31m \ud800 مرحبا 東京 " + "long " * 400


def evidence() -> dict:
    return {
        "headline": "accuracy",
        "part": "test",
        "verdict": "Better than plain: accuracy 0.912 against 0.894 (difference 0.018, 95% interval 0.007 to 0.029).",
        "rows": {"mean": 0.912, "low": 0.894, "high": 0.928, "count": 24},
        "selected": {"how": "best", "why": "the best of five seeds on dev", "seed": 3, "value": 0.917},
        "variants": [
            {
                "variant": name,
                "mean": mean,
                "sd": 0.006,
                "low": mean - 0.01,
                "high": mean + 0.01,
                "seeds": [0, 1, 2, 3, 4],
                "values": [mean - 0.006, mean - 0.002, mean, mean + 0.003, mean + 0.005],
                "failed": {"2": "every answer is 'pos'"} if name == "plain" else {},
                "without_failed": mean,
                "seconds": 731.2,
            }
            for name, mean in (("asked", 0.912), ("plain", 0.894), ("without layers.lr_decay", 0.905), ("tfidf", 0.781))
        ],
        "comparisons": [
            {
                "variant": "asked",
                "reference": "plain",
                "difference": 0.018,
                "low": 0.007,
                "high": 0.029,
                "over": "seeds",
                "p": 0.004,
                "p_corrected": 0.008,
                "effect": 0.7,
                "won": 7,
                "lost": 3,
                "cohens_d": 1.9,
                "mcnemar": 0.01,
                "seeds": {"mean": 0.018, "low": 0.007, "high": 0.029, "count": 5, "p": 0.004},
                "rows": None,
                "significant": True,
                "sentence": "asked is better than plain by 0.018",
            }
        ],
    }


def diagnosis(labels=("neg", "pos")) -> dict:
    size = len(labels)
    counts = [[40 if a == b else (a * 7 + b * 3) % 11 // 8 for b in range(size)] for a in range(size)]
    bins = [
        {"low": n / 10, "high": (n + 1) / 10, "rows": 5 + n, "confidence": n / 10 + 0.05, "accuracy": n / 10 * 0.8}
        for n in range(3, 10)
    ]
    better = [{**group, "accuracy": group["confidence"] - 0.02} for group in bins]
    wrong = {"row": "/home/someone/test.csv:12", "text": HOSTILE, "truth": "pos", "prediction": "neg"}
    wrong["confidence"] = 0.998
    weights = [["a", 0.1], [" <b>great</b>", 1.0], [" film", -0.45]]
    explained = {**wrong, "words": {"words": ["great"], "tested": True, "weights": weights}}
    chosen = {"rows": 24, "measured": None, "low": None, "high": None, "chosen_on": "dev"}
    return {
        "part": "test",
        "task": "classify",
        "rows": 24,
        "notes": [],
        "confusion": {"labels": list(labels), "counts": counts},
        "slices": [
            {
                "by": "length",
                "name": f"{13 * n} to {13 * n + 12} tokens",
                "rows": 120 - n,
                "value": 0.71 + n / 100,
                "low": 0.64 + n / 100,
                "high": 0.78 + n / 100,
                "rest": 0.82,
                "p": 0.003 * (n + 1),
                "significant": n == 0,
            }
            for n in range(5)
        ],
        "mistakes": [explained] + [wrong] * 119,
        "calibration": {
            "temperature": 1.9,
            "fitted_on": "dev",
            "rows": 24,
            "accuracy": 0.9,
            "before": {"ece": 0.11, "bins": bins},
            "after": {"ece": 0.02, "bins": better},
        },
        "thresholds": [
            {**chosen, "precision": 0.95, "confidence": 0.83, "answered": 0.71},
            {**chosen, "precision": 0.99, "confidence": None, "answered": 0.0},
            {**chosen, "abstain": 0.1, "confidence": 0.4, "answered": 0.9, "measured": 0.93, "low": 0.88, "high": 0.97},
        ],
        "label_errors": {
            "how": "confident learning over five folds",
            "checked": 64,
            "count": 1,
            "rows": [{"row": "train.csv:3", "text": "a great film", "label": "neg", "suggested": "pos", "score": 0.02}],
        },
        "class_balance": {"labels": list(labels), "counts": _balance(size), "unit": "rows"},
        "lengths": {
            "edges": [0, 5, 10, 15, 20],
            "counts": {"train": [4, 30, 25, 5], "test": [1, 12, 9, 2]},
            "longest": 61,
            "window": 16,
            "sampled": False,
        },
        "embedding_map": {
            "part": "test",
            "available": 900,
            "explained": [0.41, 0.12],
            "x": [n * 37 % 101 / 50 for n in range(120)],
            "y": [n * 53 % 97 / 50 for n in range(120)],
            "labels": [labels[n % size] for n in range(120)],
            "wrong": [n % 17 == 0 for n in range(120)],
        },
        "tables": [{"title": "Ranks", "note": "of the answer", "columns": ["rank", "rows"], "rows": [[1, 12], [2, 4]]}],
    }


def _balance(size) -> dict:
    """24 test rows, as the runs have that this is put beside."""
    test = [24 // size + (n < 24 % size) for n in range(size)]
    return {"train": [64 // size + (n < 64 % size) for n in range(size)], "test": test}
