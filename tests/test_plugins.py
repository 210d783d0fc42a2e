"""Names that other packages add: listed without importing anything, imported when used, refused when ambiguous."""

import importlib
import json
import re
import subprocess
import sys

import pytest
import transformers
from safetensors.torch import load_file
from typer.testing import CliRunner

import warmstart
from small import FAST
from tiny import save_tiny
from warmstart import tasks
from warmstart.cli.main import app
from warmstart.errors import ModelError, PluginError, RecipeError
from warmstart.inference import engine_selection
from warmstart.models.architectures import load_architecture
from warmstart.models.layer_map import LayerMap
from warmstart.models.loading import load_as_saved
from warmstart.models.pooling import Pooling
from warmstart.models.security.folder import check_folder
from warmstart.runtime import plugins
from warmstart.training.schedules import SCHEDULES, lr_factor


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package: its module's source, and its entry points by group."""

    def installed(name, source, points):
        (tmp_path / f"{name}.py").write_text(source)
        about = tmp_path / f"{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        groups = "".join(
            f"[warmstart.{kind}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for kind, entries in points.items()
        )
        (about / "entry_points.txt").write_text(groups)
        importlib.invalidate_caches()
        plugins._registered.cache_clear()

    monkeypatch.syspath_prepend(str(tmp_path))
    yield installed
    plugins._registered.cache_clear()


def test_names_of_ours_are_those_of_the_tables():
    assert plugins.built_in_names("schedules") == tuple(SCHEDULES)
    assert all(Pooling("last", name, 4, 2).output_size in (4, 12) for name in plugins.built_in_names("poolings"))
    assert plugins.built_in_names("engines") == ("onnx", "openvino", "torch")
    assert all(engine_selection.find(name).name == name for name in engine_selection.names())
    assert plugins.built_in_names("tasks") == tasks.names()


def test_listing_names_imports_nothing(install):
    install("broken_plugin", "raise RuntimeError('imported')", {"schedules": {"one-cycle": "broken_plugin:factor"}})
    assert plugins.names("schedules") == (*SCHEDULES, "one-cycle")
    plugins.check("schedules", "one-cycle", "training.lr_schedule")
    code = (
        "from warmstart.runtime import plugins; plugins.names('tasks'); import sys; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_show_lists_what_packages_add(install):
    listed = CliRunner().invoke(app, ["show", "--plugins"]).output
    assert listed.startswith("No installed package adds a task")
    install("broken_plugin", "raise RuntimeError('imported')", {"schedules": {"one-cycle": "broken_plugin:factor"}})
    listed = CliRunner().invoke(app, ["show", "--plugins"]).output
    assert re.search(r"schedule one-cycle of broken_plugin .* broken_plugin:factor", listed)
    assert "schedule one-cycle" in CliRunner().invoke(app, ["show", "--help"]).output


def test_a_registered_object_is_imported_when_its_name_is_used(install):
    install("my_plugin", "def factor(place, low): return 0.5", {"schedules": {"half": "my_plugin:factor"}})
    assert plugins.load("schedules", "half", SCHEDULES)(0.0, 1.0) == 0.5
    assert plugins.load("schedules", "linear", SCHEDULES) is SCHEDULES["linear"]


def test_a_built_in_name_cannot_be_replaced(install):
    install("shadow_plugin", "factor = None", {"schedules": {"linear": "shadow_plugin:factor"}})
    assert plugins.names("schedules") == tuple(SCHEDULES)
    with pytest.raises(PluginError, match=r"'linear' .*schedules of shadow_plugin has the name of a built-in"):
        plugins.load("schedules", "linear", SCHEDULES)


def test_a_name_registered_twice_is_refused(install):
    for name in ("first_plugin", "second_plugin"):
        install(name, "factor = None", {"schedules": {"half": f"{name}:factor"}})
    with pytest.raises(PluginError, match="of first_plugin and second_plugin: two packages register this name"):
        plugins.load("schedules", "half", SCHEDULES)


@pytest.mark.parametrize("source", ["import no_such_package", "1 / 0", "other = 1"])
def test_an_import_that_fails_names_the_package(install, source):
    install("broken_plugin", source, {"schedules": {"half": "broken_plugin:factor"}})
    sys.modules.pop("broken_plugin", None)
    with pytest.raises(PluginError, match=r"'half' .* of broken_plugin cannot be imported from broken_plugin:factor: "):
        plugins.load("schedules", "half", SCHEDULES)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(RecipeError, match=r"training.lr_schedule: found 'liner'; did you mean 'linear'"):
        plugins.check("schedules", "liner", "training.lr_schedule")


PARTS = """
import torch
import transformers
from torch import nn
from transformers.models.bert.modeling_bert import BertConfig, BertModel

from warmstart.models.architectures import ArchitectureSpec


class TowerConfig(BertConfig):
    model_type = "tower"


class TowerModel(BertModel):
    config_class = TowerConfig

    def __init__(self, config, add_pooling_layer=True):
        super().__init__(config, add_pooling_layer)
        size = config.hidden_size
        self.tower = nn.ModuleList([nn.Linear(size, size) for _ in range(config.num_hidden_layers)])
        self.post_init()

    def forward(self, *args, **kwargs):
        outputs = super().forward(*args, **kwargs)
        for layer in self.tower:
            outputs.last_hidden_state = layer(outputs.last_hidden_state)
        return outputs


transformers.AutoConfig.register("tower", TowerConfig, exist_ok=True)
transformers.AutoModel.register(TowerConfig, TowerModel, exist_ok=True)
tower = ArchitectureSpec(blocks="encoder.layer", head=("tower",), stock_poolings={})


def half(progress, low):
    return 0.5


class PowerMean(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.power = nn.Parameter(torch.tensor(2.0))
        self.output_size = size + 1

    def forward(self, states, mask):
        powers = states.abs().clamp(min=1e-6) ** self.power * mask[..., None]
        means = (powers.sum(1) / mask.sum(1, keepdim=True)) ** (1 / self.power)
        return torch.cat([means, mask.sum(1, keepdim=True).to(means)], dim=1)
"""
POINTS = {
    "architectures": {"tower": "warmstart_parts:tower"},
    "poolings": {"power-mean": "warmstart_parts:PowerMean"},
    "schedules": {"half": "warmstart_parts:half"},
}


def test_a_run_with_parts_of_another_package(install, files, tmp_path):
    install("warmstart_parts", PARTS, POINTS)
    folder = save_tiny(tmp_path / "encoder")
    (folder / "config.json").write_text(json.dumps({**_config(folder), "model_type": "towers"}))
    with pytest.raises(ModelError, match="'towers'"):
        warmstart.fit(model=str(folder), train=files["train"], out=tmp_path / "run", **FAST)
    (folder / "config.json").write_text(json.dumps({**_config(folder), "model_type": "tower"}))
    check_folder(folder)
    model = transformers.AutoModel.from_pretrained(folder)
    assert type(model).__name__ == "TowerModel"
    model.save_pretrained(folder)  # the tower's weights too
    settings = {**FAST["training"], "lr_schedule": "half", "warmup": 0.0}
    run = warmstart.fit(
        model=str(folder),
        train=files["train"],
        test=files["test"],
        out=tmp_path / "run",
        training=settings,
        head={"pooling": "power-mean"},
    )
    assert {entry["learning_rate"] for entry in run.training.history} == {settings["learning_rate"] / 2}
    assert "pooling.custom.power" in load_file(run.model / "model.safetensors")
    assert (_config(run.model)["pooling"], _config(run.model)["encoder"]["model_type"]) == ("power-mean", "tower")
    layers = LayerMap.of(load_as_saved(str(run.model)))
    assert [group.type for group in layers.blocks] == ["BertLayer"] * 3
    assert any(name.startswith("encoder.tower.") for name in layers.head.parameters)
    texts = ["the film was good and very great", "a bad film"]
    assert warmstart.load(run.folder).predict(texts) == run.predict(texts)


def _config(folder):
    return json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize(
    ("kind", "name", "value", "message"),
    [
        ("architectures", "odd", "5", "found int, expected an ArchitectureSpec"),
        ("schedules", "odd", "(1, 2)", "expected a function, or a pair of functions"),
        ("poolings", "odd", "int", "expected that it gives an nn.Module"),
    ],
)
def test_an_object_of_another_kind_is_refused(install, kind, name, value, message):
    install("odd_plugin", f"value = {value}", {kind: {name: "odd_plugin:value"}})
    sys.modules.pop("odd_plugin", None)
    use = {
        "architectures": lambda: load_architecture(name),
        "schedules": lambda: lr_factor(name, 0, 10),
        "poolings": lambda: Pooling("last", name, 4, 2),
    }
    with pytest.raises(PluginError, match=f"'odd' of the entry points warmstart.{kind} of odd_plugin: .*{message}"):
        use[kind]()
