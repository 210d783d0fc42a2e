"""What does not go with sharded weights is refused in words, before anything is trained or written."""

from types import SimpleNamespace

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

import warmstart
from warmstart.errors import RecipeError, RunError
from warmstart.recipe import make_recipe
from warmstart.training.checkpoint_state import TrainingState, load_state, save_state
from warmstart.training.fsdp import check_fsdp, mesh_of
from warmstart.training.settings import Settings


def tiny_model():
    sizes = {"vocab_size": 9, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1}
    return BertForSequenceClassification(BertConfig(**sizes, intermediate_size=4))


DATA = {"model": "none", "data.train": "reviews.csv"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"training.precision": "fp16"}, "precision: found fp16, but fsdp: true is for fp32 and bf16"),
        ({"training.time_limit": "10m"}, "time_limit: steps are timed without sharding; set max_steps"),
        ({"layers.freeze": "encoder"}, "layers.freeze: encoder trains the head alone; leave one of them out"),
        ({"forgetting": {"text": "general.txt"}}, "forgetting: it is measured in one process"),
        (
            {"stages": [{"multitask": {"with": ["other.yaml"], "training": {"fsdp": True}}}]},
            "several tasks are not trained on sharded weights; leave it out",
        ),
        ({"trainer": {"deepspeed": "zero3.json"}}, "DeepSpeed is not used here: set training.fsdp: true"),
        ({"deepspeed": "zero3.json"}, "DeepSpeed is not used here: set training.fsdp: true"),
        ({"trainer": {"fsdp": "full_shard"}}, "training.fsdp"),
        ({"fsdp": True}, "training.fsdp"),
        ({"training.zero_stage": 3}, "training.fsdp"),
    ],
)
def test_a_recipe_that_cannot_be_sharded_is_refused(settings, message):
    with pytest.raises(RecipeError, match=message):
        make_recipe({**DATA, "training.fsdp": True, **settings})


def test_a_single_process_is_refused_with_the_command_for_several(encoder, files, tmp_path):
    with pytest.raises(RecipeError, match=r"training\.fsdp: found true, but this is one process; .* torchrun --nproc"):
        warmstart.fit(
            model=encoder, train=files["train"], test=files["test"], out=tmp_path / "run", training={"fsdp": True}
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("trainer", "message"),
    [
        ({"optim": "adafactor"}, "trainer.optim: found adafactor, .* set one of adamw_torch"),
        ({"torch_compile": True}, "trainer.torch_compile: .*; leave it out, or training.fsdp"),
    ],
)
def test_arguments_of_the_trainer_that_were_not_tested_are_refused(trainer, message):
    with pytest.raises(RecipeError, match=message):
        check_fsdp(tiny_model(), SimpleNamespace(name="classify"), Settings(fsdp=True, trainer=trainer))


def test_models_and_losses_that_are_not_sharded_are_refused():
    task = SimpleNamespace(name="rank")
    with pytest.raises(RecipeError, match="models of rank are not sharded yet; leave it out"):
        check_fsdp(torch.nn.Linear(1, 1), task, Settings(fsdp=True))
    recurrent = tiny_model()
    recurrent.lstm = torch.nn.LSTM(2, 2)
    with pytest.raises(RecipeError, match="recurrent layers are not sharded"):
        check_fsdp(recurrent, task, Settings(fsdp=True))
    task.crf = torch.nn.Linear(1, 1)
    with pytest.raises(RecipeError, match=r"task\.crf: the loss reads its weights outside of the model"):
        check_fsdp(tiny_model(), task, Settings(fsdp=True))


def test_a_checkpoint_without_shards_is_refused_where_weights_are_sharded(tmp_path):
    save_state({"weights": {"a": torch.ones(2)}}, tmp_path)
    assert load_state(tmp_path)["weights"]["a"].tolist() == [1, 1]
    with pytest.raises(RunError, match=r"made without training\.fsdp, so there are no shards to resume from"):
        TrainingState.load(tmp_path, mesh=object())


def test_a_plain_model_has_no_mesh():
    assert mesh_of(tiny_model()) is None
