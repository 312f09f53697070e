"""Liger's kernels need a GPU; what can be seen without one is what is asked of them and what is refused."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
import torch

from adarl.errors import UserError
from adarl.kernels import apply_liger, check_liger


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_without_a_gpu_it_is_refused_in_a_sentence():
    with pytest.raises(UserError, match=r"^learner\.liger = true needs a CUDA device, this machine has none"):
        check_liger()


def test_without_the_package_it_is_refused_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install liger-kernel$"):
        check_liger()


def test_the_model_is_handed_to_liger_without_its_losses(monkeypatch):
    from transformers import AutoConfig, AutoModelForCausalLM

    asked = []
    package, module = ModuleType("liger_kernel"), ModuleType("liger_kernel.transformers")
    package.__spec__ = ModuleSpec("liger_kernel", None)
    module._apply_liger_kernel_to_instance = lambda **given: asked.append(given)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "liger_kernel", package)
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", module)
    monkeypatch.setattr("transformers.integrations.liger.is_liger_kernel_available", lambda: True)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(
            "qwen2", vocab_size=11, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
        )
    )  # fmt: skip
    apply_liger(model)
    assert asked == [{"model": model, "cross_entropy": False, "fused_linear_cross_entropy": False}]
