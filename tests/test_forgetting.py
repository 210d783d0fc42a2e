"""What an encoder still knows: agreement of layers, masked tokens, and a look that changes nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import warmstart
from small import FAST, reviews
from test_resume import Crash, Trouble, crash
from tiny import ARCHITECTURES, NoStockHead, save_tiny, tiny_model, tiny_tokenizer
from warmstart.cli.main import app
from warmstart.errors import RecipeError
from warmstart.evaluation.records.files import as_json
from warmstart.inspection.cka import LinearCKA
from warmstart.inspection.forgetting import measure_forgetting
from warmstart.inspection.masked_texts import mask_texts
from warmstart.inspection.token_reader import FILE, fitted_reader, own_reader
from warmstart.models.loading import load_encoder

TEXTS = [text for text, _ in reviews(60)]


def cka(x, y, size=7):
    """Gathered from batches of a few tokens each."""
    found = LinearCKA()
    for start in range(0, len(x), size):
        found.add([x[start : start + size]], [y[start : start + size]])
    return found.values()[0]


def plain_cka(x, y):
    """The formula of Kornblith et al. as it is written, in NumPy, all tokens at once."""
    x, y = (np.asarray(one, dtype=np.float64) - np.asarray(one, dtype=np.float64).mean(axis=0) for one in (x, y))
    return np.linalg.norm(y.T @ x) ** 2 / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 60), st.integers(1, 9), st.integers(1, 9), st.integers(0, 1000))
def test_agreement_is_the_formula_however_tokens_come_in_batches(tokens, first, second, seed):
    torch.manual_seed(seed)
    x, y = torch.randn(tokens, first) + 5, torch.randn(tokens, second) * 3
    assert cka(x, y) == pytest.approx(plain_cka(x, y), rel=1e-4, abs=1e-6)


def test_agreement_sees_through_rotation_and_scale_and_nothing_else():
    torch.manual_seed(0)
    x = torch.randn(500, 8)
    rotation = torch.linalg.qr(torch.randn(8, 8)).Q
    assert cka(x, x) == pytest.approx(1)
    assert cka(x, 3 * x @ rotation + 2) == pytest.approx(1, abs=1e-5)
    assert cka(x, torch.randn(500, 8)) < 0.1
    assert np.isnan(cka(x, torch.ones(500, 3)))


def test_an_exam_masks_the_same_tokens_every_time_and_no_special_one():
    tokenizer = tiny_tokenizer()
    one, two = (mask_texts(TEXTS, tokenizer, 24) for _ in range(2))
    assert one.truncation.rows == len(TEXTS)
    for first, second in zip(one.batches, two.batches, strict=True):
        assert first.masked.equal(second.masked)
        assert first.masked.any(dim=1).all()
        assert not torch.isin(first.targets, torch.tensor(tokenizer.all_special_ids)).any()
        assert (first.masked_inputs["input_ids"][first.masked] == tokenizer.mask_token_id).all()
        assert first.masked_inputs["input_ids"][~first.masked].equal(first.inputs["input_ids"][~first.masked])
    share = one.num_masked / sum(
        int(batch.inputs["attention_mask"].sum()) - 2 * len(batch.masked) for batch in one.batches
    )
    assert 0.1 < share < 0.2


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_head_a_model_comes_with_reads_its_own_states(name, tmp_path):
    try:
        whole = tiny_model(name, "masked").eval()
    except NoStockHead as reason:
        pytest.skip(str(reason))
    whole.save_pretrained(tmp_path)
    tokenizer = tiny_tokenizer(name)
    tokenizer.save_pretrained(tmp_path)
    exam = mask_texts(TEXTS[:8], tokenizer, 24)
    found = measure_forgetting(whole, exam, load_encoder(str(tmp_path)).eval(), own_reader(str(tmp_path)))
    with torch.no_grad():
        losses = [
            torch.nn.functional.cross_entropy(
                whole(**batch.masked_inputs).logits[batch.masked].float(), batch.targets, reduction="sum"
            )
            for batch in exam.batches
        ]
    assert found.loss == pytest.approx(float(sum(losses)) / exam.num_masked, rel=1e-4)
    assert found.cka == pytest.approx([1] * len(found.cka), abs=1e-4)


def test_a_reader_is_fitted_once_and_misses_what_is_no_longer_there(encoder, tmp_path):
    start, tokenizer = load_encoder(encoder).eval(), tiny_tokenizer()
    exam, others = mask_texts(TEXTS[:20], tokenizer, 24), mask_texts(TEXTS[20:], tokenizer, 24)
    reader = fitted_reader(start, others, tmp_path)
    before = measure_forgetting(start, exam, start, reader)
    assert before.accuracy > 0.3  # the words of the texts are few
    [kept] = tmp_path.iterdir()
    written = (kept / FILE).stat().st_mtime_ns
    again = fitted_reader(start, others, tmp_path)
    assert measure_forgetting(start, exam, start, again) == before
    assert (kept / FILE).stat().st_mtime_ns == written

    other = load_encoder(encoder)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    after = measure_forgetting(other, exam, start, reader)
    assert after.loss > before.loss + 0.2
    assert after.accuracy < before.accuracy
    assert all(0 <= one < 0.98 for one in after.cka)

    (kept / FILE).write_bytes(b"no reader")
    assert measure_forgetting(start, exam, start, fitted_reader(start, others, tmp_path)) == before


@pytest.fixture(scope="module")
def general(tmp_path_factory):
    path = tmp_path_factory.mktemp("general") / "general.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), "utf-8")
    return str(path)


@pytest.fixture(scope="module")
def fit(encoder, files, general):
    def call(out, **more):
        said = {
            "training": {**FAST["training"], "epochs": 3},  # 12 steps, with dropout
            "forgetting": {"text": general, "rows": 20, "every_steps": 4},
            "checkpoints": {"every_steps": 3},
            **more,
        }
        return warmstart.fit(
            model=said.pop("model", encoder), train=files["train"], test=files["test"], out=out, **said
        )

    return call


@pytest.fixture(scope="module")
def watched(fit, tmp_path_factory):
    return fit(tmp_path_factory.mktemp("watched") / "run", **{"data.split.dev": 0.25})


def test_a_run_tells_what_was_known_before_during_and_after(watched):
    about = watched.forgetting["01-finetune"]
    assert [point.step for point in about.seen] == [0, 4, 8, 9]  # 48 rows are left to learn from
    first, *_, last = about.seen
    assert first.cka == pytest.approx([1] * 4)
    assert last.cka[-1] < 0.999
    assert last.loss > first.loss
    assert last.scores["accuracy"] == watched.metrics["dev"]["accuracy"]
    assert (about.rows, about.reader, about.precision) == (20, "fitted", "fp32")


def test_looking_changes_nothing_in_the_model(fit, watched, tmp_path):
    blind = fit(tmp_path / "run", forgetting=None, **{"data.split.dev": 0.25})
    assert (blind.model / "model.safetensors").read_bytes() == (watched.model / "model.safetensors").read_bytes()
    assert blind.training.history == watched.training.history
    assert blind.metrics == watched.metrics
    assert blind.forgetting == {}


def test_a_run_that_was_stopped_keeps_what_was_seen(fit, watched, tmp_path):
    with pytest.raises(Crash):
        fit(tmp_path / "run", progress=Trouble(8, crash), **{"data.split.dev": 0.25})
    run = fit(tmp_path / "run", **{"data.split.dev": 0.25})
    assert run.forgetting == watched.forgetting
    assert (run.model / "model.safetensors").read_bytes() == (watched.model / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    "settings",
    [{"layers.lora.rank": 2}, {"layers.reinit_top": 1}, {"layers.freeze": "encoder"}, {"head.layers": "concat-2"}],
    ids=str,
)
def test_every_way_to_learn_can_be_watched(fit, tmp_path, settings):
    about = fit(tmp_path / "run", **settings).forgetting["01-finetune"]
    first, *_, last = about.seen
    if "layers.reinit_top" in settings:
        assert first.cka[-1] < 1 - 1e-5  # it was re-initialized before the first step
    else:
        assert first.cka == pytest.approx([1] * 4)
    if "layers.freeze" in settings:
        assert replace(last, step=0) == first
    else:
        assert last.cka != first.cka


def test_an_encoder_without_a_mask_token_is_compared_by_cka_alone(fit, tmp_path):
    model = save_tiny(tmp_path / "tiny-gpt2", "gpt2")
    config = json.loads((model / "tokenizer_config.json").read_text("utf-8"))
    del config["mask_token"]
    (model / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    about = fit(tmp_path / "run", model=str(model)).forgetting["01-finetune"]
    assert about.reader is None
    assert [point.loss for point in about.seen] == [None] * 4
    assert about.seen[-1].cka[-1] < 1


def test_too_little_text_is_said_before_anything_is_written(fit, general, tmp_path):
    with pytest.raises(RecipeError, match=r"forgetting.rows: found 40, which needs 80 texts.* has 60; .* set 30"):
        fit(tmp_path / "run", forgetting={"text": general, "rows": 40})
    assert not (tmp_path / "run").exists()


def test_the_recipe_names_its_text_from_its_own_folder(tmp_path):
    from warmstart.recipe import load_recipe

    path = tmp_path / "mine.yaml"
    path.write_text("model: m\ndata: {train: t.csv}\nforgetting: {text: general.csv}\n")
    assert load_recipe(path).forgetting.text == str(tmp_path / "general.csv")


def test_show_forgetting(watched, run, tmp_path):
    def call(*words):
        return CliRunner().invoke(app, ["show", *map(str, words)])

    table = call(watched.folder, "--forgetting").output
    assert all(word in table for word in ("before", "step 4", "after 9", "masked loss", "CKA 0", "dev accuracy"))
    assert json.loads(call(watched.folder, "--forgetting", "--json").stdout) == {
        stage: as_json(record) for stage, record in watched.forgetting.items()
    }
    assert call(watched.folder, "--forgetting", "--plot", tmp_path / "seen.svg").exit_code == 0
    assert "<svg" in (tmp_path / "seen.svg").read_text("utf-8")
    assert "has no suffix of an image" in str(call(watched.folder, "--forgetting", "--plot", "seen.doc").exception)
    assert "set forgetting.text to a file of general text" in str(call(run.folder, "--forgetting").exception)
