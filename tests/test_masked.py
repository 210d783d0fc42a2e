"""masked: which tokens are asked, that documents stay apart, and what is learned beside them."""

from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import warmstart
from tiny import ARCHITECTURES, save_japanese, save_tiny, tiny_japanese, tiny_tokenizer
from warmstart.errors import DataError, ModelError, RecipeError
from warmstart.models.loading import load_model, load_tokenizer
from warmstart.models.vocabulary_loss import VOCABULARY_LOSS, few_logits, has_plain_head
from warmstart.pipeline.run_recipe import run_recipe
from warmstart.recipe import MEMORY, make_recipe
from warmstart.runtime.progress import silent
from warmstart.tasks.masked import Masked, MaskedOptions
from warmstart.tasks.shared.documents import documents, pairs
from warmstart.tasks.shared.masking import IGNORED, NEVER, MaskingVocabulary, mask
from warmstart.text.windows import Frame, Window
from warmstart.training.batches import EpochBatchSampler, EpochDataset, RandomBatchSampler

TOKENIZER = tiny_tokenizer()
KNOWN = MaskingVocabulary.of(TOKENIZER)
WINDOW = Window(32, "slices")
TEXTS = st.text(alphabet="ab . !?\n大学。", min_size=1, max_size=200)
DOCUMENTS = [
    "Alice lives in Paris. She loved the film. It was good! The story was very long.",
    "A book is not a film. Who hated it? The plot was boring.",
    "Bob was in Tokyo. Food there was great.",
]
NO_HEAD = dict.fromkeys(
    ("xlnet", "gpt2", "t5", "mt5", "opt", "llama", "awd-lstm", "mamba", "mamba2", "rwkv", "recurrent_gemma", "xlstm"),
    "transformers has no head for masked tokens on it",
)


def task(**options):
    return Masked.from_answers(MaskedOptions(**options), (), False)


def encoded(one, texts, window=WINDOW, tokenizer=TOKENIZER):
    return [{**feature, "row": feature["sample"]} for feature in one.encode({"text": texts}, tokenizer, window)]


def masks(ids, units, rate=0.15, spans=False, seed=0):
    return mask(ids, units, rate, spans, KNOWN, np.random.default_rng(seed))


def test_of_the_tokens_asked_80_of_100_are_masked_10_random_and_10_as_they_were():
    ids = [40] * 20_000
    seen, labels = masks(ids, range(len(ids)))
    asked = [token for token, label in zip(seen, labels, strict=True) if label != IGNORED]
    assert len(asked) == 3000
    assert asked.count(KNOWN.mask) / 3000 == pytest.approx(0.8, abs=0.03)
    assert asked.count(40) / 3000 == pytest.approx(0.1, abs=0.02)
    assert not {*asked} & KNOWN.special - {KNOWN.mask}
    assert all(token == 40 for token, label in zip(seen, labels, strict=True) if label == IGNORED)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 4), max_size=40), st.floats(0.01, 0.6), st.booleans(), st.integers(0, 99))
def test_units_are_asked_whole_one_at_least_and_no_more_than_the_rate(sizes, rate, spans, seed):
    units = [NEVER, *(unit for unit, size in enumerate(sizes) for _ in range(size)), NEVER]
    _, labels = masks([40] * len(units), units, rate, spans, seed)
    asked = {unit for unit, label in zip(units, labels, strict=True) if label != IGNORED}
    assert NEVER not in asked
    assert all((label != IGNORED) == (unit in asked) for unit, label in zip(units, labels, strict=True))
    count = sum(label != IGNORED for label in labels)
    assert bool(asked) == bool(sizes)
    assert len(asked) <= 1 or count <= max(1, round(rate * sum(sizes)))


def test_spans_have_the_lengths_of_spanbert():
    found = []
    for seed in range(400):
        _, labels = masks([40] * 400, range(400), 0.03, True, seed)
        asked = "".join("x" if label != IGNORED else " " for label in labels)
        found.append(len(asked.split()[0]))
    # Spans that the rate cuts off, or that touch, move it a little from 3.8.
    assert np.mean(found) == pytest.approx(3.8, abs=0.6)
    assert max(found) <= 12


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4), st.sampled_from(["token", "whole-word", "span"]), st.integers(8, 40))
def test_every_piece_is_in_one_sequence_and_no_sequence_holds_two_documents(texts, masking, tokens):
    features = encoded(task(masking=masking), texts, Window(tokens, "slices"))
    for number, text in enumerate(texts):
        own = [feature["input_ids"][1:-1] for feature in features if feature["sample"] == number]
        assert [token for ids in own for token in ids] == TOKENIZER(text, add_special_tokens=False)["input_ids"]
        assert all(len(ids) <= tokens - 2 for ids in own)
    assert all(len(one["units"]) == len(one["input_ids"]) for one in features)


def test_a_word_is_masked_with_all_its_pieces():
    [feature] = encoded(task(masking="whole-word"), ["the xylophone was good"])
    tokens = TOKENIZER.convert_ids_to_tokens(feature["input_ids"])
    held = {unit: [t for t, u in zip(tokens, feature["units"], strict=True) if u == unit] for unit in feature["units"]}
    assert ["x", *(f"##{letter}" for letter in "ylophone")] in held.values()
    assert held[NEVER] == ["[CLS]", "[SEP]"]


def test_a_japanese_word_keeps_its_pieces_together(tmp_path):
    tokenizer = tiny_japanese(tmp_path)
    [feature] = encoded(task(masking="whole-word"), ["東京大学へ行く"], tokenizer=tokenizer)
    tokens = tokenizer.convert_ids_to_tokens(feature["input_ids"])
    for before, after, unit, following in zip(tokens, tokens[1:], feature["units"], feature["units"][1:], strict=False):
        if after.startswith("##"):
            assert unit == following, (before, after)


def test_masks_depend_on_seed_epoch_row_and_part_and_on_nothing_else():
    one, features = task(masking="whole-word"), encoded(task(masking="whole-word"), DOCUMENTS)
    together = one.features_for_epoch(features, TOKENIZER, 0, 1, 3)
    alone = [one.features_for_epoch([feature], TOKENIZER, 0, 1, 3)[0] for feature in features]
    assert list(together) == alone
    drawn = [
        str([f["input_ids"] for f in one.features_for_epoch(features, TOKENIZER, *key, 9)])
        for key in ((0, 0), (0, 1), (1, 0))
    ]
    assert len(set(drawn)) == 3


def test_a_rate_can_be_drawn_and_can_go_to_another():
    features = encoded(task(), ["good " * 28])

    def asked(options, epoch):
        [feature] = task(**options).features_for_epoch(features, TOKENIZER, 0, epoch, 5)
        return sum(label != IGNORED for label in feature["labels"])

    assert [asked({"mlm_probability": 0.5, "mlm_probability_end": 0.25}, epoch) for epoch in range(5)] == [
        14,
        12,
        10,
        9,
        7,
    ]
    drawn = {asked({"mlm_probability": [0.1, 0.5]}, epoch) for epoch in range(5)}
    assert len(drawn) > 1
    assert all(3 <= count <= 14 for count in drawn)
    with pytest.raises(RecipeError, match="mlm_probability is a range"):
        MaskedOptions.check({"mlm_probability": [0.1, 0.2], "mlm_probability_end": 0.3}, "task")


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_are_told_their_epoch_at_its_border_and_in_workers(workers):
    rows = [{"row": number} for number in range(5)]
    loader = DataLoader(
        EpochDataset(rows),
        batch_sampler=EpochBatchSampler(RandomBatchSampler(5, 2)),
        collate_fn=list,
        num_workers=workers,
    )
    for epoch in range(3):
        assert [row["epoch"] for batch in loader for row in batch] == [epoch] * 5


def sentences(objective, texts=DOCUMENTS, tokens=32):
    found = documents(texts, TOKENIZER, False, "en")
    frames = Frame.of(TOKENIZER, False), Frame.of(TOKENIZER, True)
    window = Window(tokens, "slices")
    return found, [list(pairs(found, n, frames, window, objective, frozenset())) for n in range(len(found))]


def halves(feature):
    ids = feature["input_ids"]
    middle = ids.index(3)
    return ids[1:middle], ids[middle + 1 : -1]


@settings(max_examples=40, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=4), st.sampled_from(["nsp", "sop"]), st.integers(8, 40))
def test_pairs_show_all_of_a_document_and_say_rightly_whether_they_belong(texts, objective, tokens):
    found, each = sentences(objective, texts, tokens)
    for own, features in zip(found, each, strict=True):
        shown = []
        swapped = objective == "sop" or not any(other.ids and other.ids != own.ids for other in found)
        for feature in features:
            assert len(feature["input_ids"]) <= tokens
            first, second = halves(feature)
            if feature["next_sentence_label"] == 1:
                first, second = (second, first) if swapped else (first, [])
            shown += first + second
        assert shown == own.ids


def test_pairs_of_next_sentences_are_of_one_document_or_of_two():
    texts = [f"{word} is {word}. " * 12 for word in ("good", "bad", "film", "book", "paris", "tokyo")] * 5
    labels, common = [], set(TOKENIZER.convert_tokens_to_ids(["is", "."]))
    for features in sentences("nsp", texts)[1]:
        for feature in features:
            first, second = (set(ids) - common for ids in halves(feature))
            if feature["next_sentence_label"] != IGNORED:
                assert (first != second) == (feature["next_sentence_label"] == 1)
                labels.append(feature["next_sentence_label"])
            if "token_type_ids" in feature and feature["next_sentence_label"] != IGNORED:
                assert sum(feature["token_type_ids"]) == len(halves(feature)[1]) + 1
    assert np.mean(labels) == pytest.approx(0.5, abs=0.12)


def test_a_lone_document_has_right_and_wrong_pairs():
    """A corpus of 65 rows is read in chunks of 64: the last row has no other to take a wrong stretch from."""
    [own], [features] = sentences("nsp", [" ".join(f"{'good ' * (n % 5)}film {n}." for n in range(400))])
    labels, ids = [], own.ids
    for feature in features:
        first, second = halves(feature)
        if feature["next_sentence_label"] != IGNORED:
            together = first + second
            follows = any(ids[at : at + len(together)] == together for at in range(len(ids)))
            assert feature["next_sentence_label"] == int(not follows)
            labels.append(feature["next_sentence_label"])
    assert len(labels) > 60
    assert np.mean(labels) == pytest.approx(0.5, abs=0.15)


def test_the_length_of_a_pair_does_not_tell_whether_it_is_right():
    random = np.random.default_rng(0)
    texts = [" ".join(f"{'good ' * int(random.integers(1, 14))}film {n}." for _ in range(12)) for n in range(48)]
    found = [one for each in sentences("nsp", texts, 48)[1] for one in each if one["next_sentence_label"] != IGNORED]
    right, wrong = ([len(one["input_ids"]) for one in found if one["next_sentence_label"] == label] for label in (0, 1))
    assert min(len(right), len(wrong)) > 100
    assert np.mean(wrong) == pytest.approx(np.mean(right), rel=0.03)
    assert np.mean([one == 48 for one in wrong]) == pytest.approx(np.mean([one == 48 for one in right]), abs=0.08)


def test_japanese_sentences(tmp_path):
    tokenizer = tiny_japanese(tmp_path)
    text = "東京へ行く。大学です。「日本の人。」アリスは住む。"
    [found] = documents([text], tokenizer, False, "ja")
    assert len(found.sentences) == 4
    assert [end for _, end in found.sentences][-1] == len(found.ids)


def losses(model, features):
    batch = task().collate(features, TOKENIZER)
    labels = batch.pop("labels")["tokens"]
    with torch.no_grad():
        logits = model(**batch).prediction_logits
    return torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none").sum(1)


def test_a_document_never_sees_its_neighbour(encoder):
    model = load_model(encoder, "AutoModelForMaskedLM", {}, TOKENIZER).model.eval()
    before = task().features_for_epoch(
        encoded(task(), ["alice lives in paris", "the good film was bad", "bob"]), TOKENIZER, 0, 0, 1
    )
    other = task().features_for_epoch(
        encoded(task(), ["alice lives in paris", "a bad book in tokyo!", "bob"]), TOKENIZER, 0, 0, 1
    )
    one, two = losses(model, before), losses(model, other)
    assert torch.equal(one[[0, 2]], two[[0, 2]])
    assert one[1] != two[1]


def fit(folder, model, texts=DOCUMENTS, progress=silent, **settings):
    base = {"training.max_steps": 4, "training.batch_size": 2, "training.precision": "fp32", "window.max_tokens": 32}
    recipe = make_recipe(
        {"model": str(model), "task": "masked", "data.train": MEMORY, "data.test": MEMORY, **base, **settings}, "test"
    )
    rows = [{"text": text} for text in texts]
    return run_recipe(recipe, folder, progress, rows={"train": rows, "test": rows})


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name not in NO_HEAD])
def test_a_new_decoder_is_tied_and_learns(name, tmp_path):
    run = fit(tmp_path / "run", save_tiny(tmp_path / "encoder", name), **{"training.max_steps": 2})
    model = warmstart.load(run.folder).engine.model
    embeddings, decoder = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    assert embeddings.data_ptr() == decoder.data_ptr()
    assert run.metrics["test"]["accuracy"] >= 0
    # and any other task finds the encoder in it
    tokenizer = load_tokenizer(str(run.model))
    loaded = load_model(str(run.model), "AutoModelForSequenceClassification", {"num_labels": 2}, tokenizer)
    own = dict(loaded.model.named_parameters())
    assert all("embeddings" not in name for name in loaded.new_parameters)
    assert any(torch.equal(parameter, embeddings) for parameter in own.values())


@pytest.mark.parametrize("name", ["gpt2", "t5", "xlnet"])
def test_an_encoder_without_a_head_for_masks_is_refused(name, tmp_path):
    with pytest.raises(ModelError, match=f"no MaskedLM head for the architecture {name}"):
        fit(tmp_path / "run", save_tiny(tmp_path / "encoder", name))


@pytest.mark.parametrize("name", sorted(set(ARCHITECTURES) - set(NO_HEAD)))
@pytest.mark.parametrize("objective", ["mlm", "mlm+sop"])
def test_logits_of_masked_tokens_alone_and_the_head_itself_give_the_loss_and_gradient_of_all(name, objective, tmp_path):
    one = task(objective=objective)
    encoder = save_tiny(tmp_path / "encoder", name)
    tokenizer = load_tokenizer(encoder)
    model = load_model(encoder, one.auto_class, one.config_kwargs(), tokenizer).model.eval()
    model = one.extend_model(model, None)
    features = encoded(one, DOCUMENTS, tokenizer=tokenizer)
    batch = one.collate(one.features_for_epoch(features, tokenizer, 0, 0, 1), tokenizer)
    labels = batch.pop("labels")

    def by_formula():
        """Minus the mean log-probability of the true tokens."""
        outputs = model(**batch)
        logits = outputs["prediction_logits"] if "prediction_logits" in outputs else outputs["logits"]
        logs, where = logits.log_softmax(2), labels["tokens"] != IGNORED
        return -torch.stack([logs[i, j, labels["tokens"][i, j]] for i, j in where.nonzero()]).mean()

    def at_masked_tokens(in_head):
        targets = one.loss_targets(labels)
        with few_logits(model, targets, targets != IGNORED, in_head) as found:
            outputs = model(**batch)
        if in_head:
            return one.loss()({**outputs, VOCABULARY_LOSS: found[0]}, labels)["mlm"]
        shapes.append(next(out.shape for name, out in outputs.items() if name in ("prediction_logits", "logits")))
        return one.loss()(outputs, labels)["mlm"]

    assert has_plain_head(model)
    shapes, gradients, losses = [], [], []
    for loss in (by_formula, partial(at_masked_tokens, False), partial(at_masked_tokens, True)):
        model.zero_grad()
        losses.append(loss())
        losses[-1].backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert shapes == [(int((labels["tokens"] != IGNORED).sum()), model.config.vocab_size)]
    for other in (1, 2):
        assert losses[0].item() == pytest.approx(losses[other].item(), rel=1e-5)
        torch.testing.assert_close(gradients[0], gradients[other], rtol=1e-4, atol=1e-6)
    assert model(**batch).to_tuple()[0].dim() > 1, "the head gives logits again"


@pytest.mark.parametrize("name", ["bert", "distilbert"])
def test_the_parts_of_the_loss_are_told_apart_and_both_heads_come_back(name, tmp_path):
    encoder = save_tiny(tmp_path / "encoder", name)
    settings = {"task.objective": "mlm+sop", "training.max_steps": 10}
    run = fit(tmp_path / "run", encoder, **settings)
    [noted] = run.training.history
    assert noted["loss"] == pytest.approx(noted["loss_mlm"] + noted["loss_sop"], abs=1e-5)
    assert 0 <= run.metrics["test"]["sop_accuracy"] <= 1
    again = fit(tmp_path / "again", run.model, **settings | {"training.learning_rate": 1e-12, "training.max_steps": 1})
    assert again.training.new_parameters == []
    assert again.metrics["test"]["loss"] == pytest.approx(run.metrics["test"]["loss"], abs=1e-4)
    assert again.metrics["test"]["sop_accuracy"] == run.metrics["test"]["sop_accuracy"]


def test_a_long_document_is_measured_in_all_its_windows(tmp_path):
    texts = ["the good film was bad " * 40, *DOCUMENTS]
    run = fit(tmp_path / "run", save_tiny(tmp_path / "encoder"), texts, **{"task.mlm_probability": 0.2})
    assert "rows_cut" not in run.metrics["test"]
    answers = run.predict(["good [MASK] " * 40, "no mask"])
    assert [len(answer["fills"]) for answer in answers] == [40, 0]
    assert all(len(fill) == 5 for fill in answers[0]["fills"])


@pytest.mark.parametrize("name", ["gpt2", "opt", "llama", "xlstm"])
def test_every_next_token(name, tmp_path):
    import transformers

    settings = {
        "task.objective": "clm",
        "training.max_steps": 40,
        "training.learning_rate": 3e-3,
        "training.lr_schedule": "constant",
    }
    encoder = save_tiny(tmp_path / "encoder", name, initializer_range=0.2)
    run = fit(tmp_path / "run", encoder, ["good film " * 5, "bad book " * 5], **settings)
    assert run.metrics["test"]["accuracy"] > 0.8
    text = "good film good film"
    model = transformers.AutoModelForCausalLM.from_pretrained(run.model).eval()
    inputs = transformers.AutoTokenizer.from_pretrained(run.model)(text, return_tensors="pt")
    with torch.no_grad():
        loss = model(**inputs, labels=inputs["input_ids"]).loss
    assert run.predict([text])[0]["log_probability"] == pytest.approx(-float(loss), abs=1e-5)
    assert run.training.history[-1]["loss"] == pytest.approx(run.training.history[-1]["loss_clm"])


@pytest.mark.parametrize("name", ["bert", "xlnet", "electra"])
def test_an_encoder_that_looks_ahead_cannot_guess_what_comes_next(name, tmp_path):
    with pytest.raises(RecipeError, match="attends to the tokens that it is to predict"):
        fit(tmp_path / "run", save_tiny(tmp_path / "encoder", name), **{"task.objective": "clm"})


class Notes:
    """Progress that notes what was said, and how much of it before training began."""

    def __init__(self):
        self.said, self.before = [], None

    @contextmanager
    def bar(self, name, total):
        if name == "training":
            self.before = list(self.said)
        yield self

    def advance(self, amount=1, note=""):
        pass

    def log(self, text):
        self.said.append(text)


@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp", "mlm+sop"])
def test_rows_of_one_sentence_are_a_finding_before_training(objective, tmp_path):
    notes = Notes()
    texts = [DOCUMENTS[0], *(f"the film {number} was good" for number in range(5)), DOCUMENTS[1]]
    encoder = save_tiny(tmp_path / "encoder")
    run = fit(tmp_path / "run", encoder, texts, progress=notes, **{"task.objective": objective})
    findings = [finding for finding in run.data.findings if finding.kind == "single-sentence"]
    if objective == "mlm":
        assert not findings
        return
    [finding] = findings
    assert (finding.severity, finding.count, finding.location.line) == ("warning", 5, 2)
    assert finding.message.startswith("5 of 7 rows have a single sentence, this one first, and 2 have two or more")
    assert finding.message.endswith("set objective: mlm")
    assert [line for line in notes.before if finding.message in line]


def test_a_japanese_encoder_learns_from_sentences(tmp_path):
    texts = ["東京へ行く。大学です。日本の人。", "アリスは住む。大学の人です。東京です。"]
    settings = {"task.objective": "mlm+nsp", "task.language": "ja", "task.masking": "whole-word"}
    run = fit(tmp_path / "run", save_japanese(tmp_path / "encoder", subwords="wordpiece"), texts, **settings)
    found = run.metrics["test"]
    wrong = round((1 - found["nsp_chance"]) * found["nsp_pairs"])
    assert 0 <= wrong <= found["nsp_pairs"] / 2  # beside it stands what one gets without looking
    assert 0 <= found["nsp_accuracy"] <= 1
    assert len(run.predict(["東京[MASK]行く"])[0]["fills"]) == 1


def test_documents_are_held_out_and_repeated_ones_are_told(encoder, tmp_path):
    path = tmp_path / "texts.txt"
    lines = [f"the film {number} was good" for number in range(20)]
    path.write_text("\n\n".join([*lines, lines[0]]) + "\n", encoding="utf-8")
    run = warmstart.fit(
        model=encoder,
        task="masked",
        train=str(path),
        out=tmp_path / "run",
        training={"max_steps": 2},
        window={"max_tokens": 32},
    )
    assert run.metrics["test"]["rows"] == 2
    told = {finding.kind: finding for finding in run.data.findings}
    assert told["duplicate"].location.line == 41
    assert told["duplicate"].message.startswith("repeats the text of ")


def test_pairs_need_room(tmp_path):
    with pytest.raises(RecipeError, match=r"window\.max_tokens: found 4; pairs of sentences need room"):
        fit(tmp_path / "run", save_tiny(tmp_path / "encoder"), **{"task.objective": "mlm+nsp", "window.max_tokens": 4})


def test_a_tokenizer_without_a_mask_token_is_refused():
    tokenizer = tiny_tokenizer()
    tokenizer.mask_token = None
    with pytest.raises(ModelError, match="no mask token"):
        task().features_for_epoch(encoded(task(), ["good"]), tokenizer, 0, 0, 1)


def test_what_is_no_text_is_refused(tmp_path):
    with pytest.raises(DataError, match="'text' is"):
        fit(tmp_path / "run", save_tiny(tmp_path / "encoder"), ["", "a"])


def test_window_overlap_is_none_unless_said(tmp_path):
    run = fit(tmp_path / "run", save_tiny(tmp_path / "encoder"))
    assert run.training.window.overlap == 0
