"""Every architecture is written as a graph that computes the same for texts of any length, or is refused by name.

Those refused are named in docs/howto/export.md, and no others.
"""

from pathlib import Path

import pytest
import torch

from tiny import ARCHITECTURES, NoStockHead, tiny_config, tiny_model
from warmstart.deploy.export.compare_answers import check_lengths
from warmstart.deploy.export.graph import write_graph
from warmstart.errors import ModelError
from warmstart.inference.engines.onnx import OnnxEngine
from warmstart.inference.engines.openvino import OpenVinoEngine
from warmstart.inference.engines.torch import TorchEngine
from warmstart.inference.exported_graph import FILES
from warmstart.models.heads.pooled import PooledConfig, PooledForSequenceClassification

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "export.md"


def refused(engine):
    """The architectures that the page says an engine does not take."""
    [line] = [one for one in PAGE.read_text(encoding="utf-8").splitlines() if one.startswith(f"| `{engine}` |")]
    return set(line.split("|")[3].replace("`", "").replace(",", " ").split())


def inputs(types=False):
    ids = torch.arange(5, 5 + 4 * 9).reshape(4, 9)
    mask = torch.ones_like(ids)
    mask[0, -4:] = 0
    found = {"input_ids": ids, "attention_mask": mask}
    return found | ({"token_type_ids": torch.zeros_like(ids)} if types else {})


def model_of(name):
    layers = 2 if name == "rwkv" else 1  # which cannot have one alone
    try:
        model = tiny_model(name, num_hidden_layers=layers, initializer_range=0.2)
    except NoStockHead:
        model = PooledForSequenceClassification(
            PooledConfig(encoder=tiny_config(name, num_hidden_layers=layers), num_labels=3)
        )
    model.config.pad_token_id = 0
    return model


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_architecture_is_exported_or_named_on_the_page(name, tmp_path):
    model, batch = model_of(name), inputs(ARCHITECTURES[name].token_types)
    for engine in ("onnx", "openvino"):
        try:
            if engine == "onnx":
                write_graph(model, batch, tmp_path / FILES["fp32"])
            check_lengths(TorchEngine(model), (OnnxEngine if engine == "onnx" else OpenVinoEngine)(tmp_path), batch, 70)
            fails = False
        except ModelError:
            fails = True
        assert fails == (name in refused(engine)), f"{name} with {engine}: docs/howto/export.md says otherwise"
        if fails and engine == "onnx":
            return
