"""The model card: beside the model, not of it."""

import json
import shutil

import huggingface_hub
import pytest

import warmstart
from warmstart.models.security.folder import check_folder
from warmstart.report.model_card import MARK, write_card
from warmstart.report.run_facts import read_facts
from warmstart.storage.artifacts import verify


@pytest.fixture
def copy(run, tmp_path):
    return warmstart.Run(shutil.copytree(run.folder, tmp_path / "reviews"))


def test_fit_writes_it_and_the_model_opens_as_before(run):
    card = huggingface_hub.ModelCard.load(run.model / "README.md")
    assert card.data.pipeline_tag == "text-classification"
    assert card.data.library_name == "transformers"
    assert {one.metric_type: one.metric_value for one in card.data.eval_results} == {
        name: run.metrics["test"][name] for name in ("accuracy", "macro_f1", "mcc")
    }
    assert "README.md" not in verify(run.model)["files"]
    check_folder(run.model)
    assert run.predict(["the film was good"])


def test_it_claims_nothing_it_does_not_know(run):
    text = (run.model / "README.md").read_text(encoding="utf-8")
    card = huggingface_hub.ModelCard(text)
    assert card.data.license is None
    assert card.data.language is None
    assert card.data.base_model is None  # a folder of this machine
    assert str(run.folder.parent) not in text
    assert "`train.csv`" in text
    assert run.data.parts["train"].fingerprint[:16] in text
    assert "95% interval" in text
    assert "BertForSequenceClassification.from_pretrained" in text


def test_an_edited_card_stays(copy):
    path = copy.model / "README.md"
    path.write_text("mine", encoding="utf-8")
    copy.report()
    assert path.read_text(encoding="utf-8") == "mine"
    path.write_text(f"old\n{MARK}\n", encoding="utf-8")
    copy.report()
    assert "accuracy" in path.read_text(encoding="utf-8")
    verify(copy.model)


def test_names_from_anywhere_are_no_markup(copy):
    about = json.loads((copy.folder / "data.json").read_text())
    about["parts"]["train"]["files"] = ["/x/a`|<img src=x>\n---\n# h.csv"]
    (copy.folder / "data.json").write_text(json.dumps(about))
    text = write_card(read_facts(copy.folder)).read_text(encoding="utf-8")
    assert "`a <img src=x> --- # h.csv`" in text
    assert huggingface_hub.ModelCard(text).data.pipeline_tag == "text-classification"


def test_a_run_without_a_model_has_none(copy):
    shutil.rmtree(copy.model)
    assert write_card(read_facts(copy.folder)) is None
    assert 'id="card"' not in copy.report().read_text(encoding="utf-8")
