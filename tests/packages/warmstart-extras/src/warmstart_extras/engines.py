"""torch-half: PyTorch with weights in bf16, which take half the memory."""

import torch

from warmstart.inference.engines.torch import TorchEngine


class TorchHalf(TorchEngine):
    """The engine `torch`, with the weights themselves in bf16, not only what is computed with them."""

    name = "torch-half"
    precisions = ("bf16",)

    def __init__(self, model: torch.nn.Module, precision: str = "bf16") -> None:
        super().__init__(model.to(torch.bfloat16), "bf16")
