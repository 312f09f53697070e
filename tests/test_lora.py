"""LoRA's merged weights against numbers worked out by hand and against peft's own forward pass."""

import pytest
import torch
from peft import PeftModel
from transformers import AutoConfig, AutoModelForCausalLM

from adarl import lora
from adarl.config import LearnerSettings, LoraSettings
from adarl.errors import UserError
from adarl.memory import ModelShape, learner_memory
from adarl.weights import gathered


def make_model(tie: bool = True):
    config = AutoConfig.for_model(
        "qwen2", vocab_size=11, hidden_size=8, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, tie_word_embeddings=tie,
    )  # fmt: skip
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def with_adapters(model, **settings):
    """Adapters that do something: B is zero only at first."""
    config = lora.add_adapters(model, LoraSettings(**settings), "base")
    for name, parameter in model.named_parameters():
        if ".lora_B." in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return config


def test_a_weight_is_merged_with_alpha_over_rank():
    config = lora.LoraConfig(r=2, lora_alpha=4)
    state = {
        "q.base_layer.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]),
        "q.base_layer.bias": torch.tensor([5.0, 6.0]),
        "q.lora_A.default.weight": torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
        "q.lora_B.default.weight": torch.tensor([[0.0, 10.0], [20.0, 0.0]]),
        "norm.weight": torch.tensor([7.0]),
    }
    merged = lora.merge(state, config)
    assert {name: tensor.tolist() for name, tensor in merged.items()} == {
        "q.weight": [[1.0, 22.0], [43.0, 4.0]],  # W + 2 B A
        "q.bias": [5.0, 6.0],
        "norm.weight": [7.0],
    }


@pytest.mark.parametrize("tie", [True, False])
def test_adapters_train_alone_and_the_head_has_none(tie):
    model = make_model(tie)
    lora.add_adapters(model, LoraSettings(rank=3), "base")
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    assert all(lora.is_adapter(name) for name in trained)
    assert len(trained) == 2 * 7 * 2  # A and B of q, k, v, o, gate, up and down, in two layers


@pytest.mark.parametrize("tie", [True, False])
def test_what_goes_out_has_the_names_of_the_base_and_computes_the_same(tie, tmp_path):
    model, names = make_model(tie), set(dict(make_model(tie).named_parameters()))
    config = with_adapters(model, rank=3, alpha=6)
    whole = {n: t.detach().clone() for n, t in gathered(lora.sources(model, config), 1 << 20)}
    assert set(whole) == names
    merged = make_model(tie)
    merged.load_state_dict(whole, strict=False)
    ids = torch.tensor([[1, 5, 7, 2]])
    torch.testing.assert_close(merged(ids).logits, model(ids).logits)
    assert (merged(ids).logits - make_model(tie)(ids).logits).abs().max() > 1e-3  # the adapters do something

    lora.save_adapters(model.state_dict(), config, tmp_path)
    torch.testing.assert_close(
        PeftModel.from_pretrained(make_model(tie), str(tmp_path))(ids).logits, model(ids).logits
    )


def test_a_checkpoint_is_merged_as_the_sync_does_it():
    model = make_model()
    config = with_adapters(model)
    whole = dict(gathered(lora.sources(model, config), 1 << 20))
    merged = lora.merge({n: p.detach() for n, p in model.named_parameters()}, config)
    assert whole.keys() == merged.keys()
    for name, tensor in merged.items():
        torch.testing.assert_close(whole[name], tensor, rtol=0, atol=0)


def test_unknown_maps_are_one_sentence_with_those_that_there_are(tmp_path):
    make_model().config.save_pretrained(tmp_path)
    with pytest.raises(UserError) as caught:
        lora.check_adapters(LoraSettings(target_modules=("wq",)), str(tmp_path), None)
    assert str(caught.value) == (
        "learner.lora.target_modules = ('wq',): peft finds no such maps in the model, which has "
        "down_proj, gate_proj, k_proj, lm_head, o_proj, q_proj, up_proj, v_proj"
    )


def test_memory_of_adapters_alone_is_optimised():
    shape = ModelShape(
        parameters=8_000_000_000, hidden_size=3584, num_layers=28, num_heads=28, num_kv_heads=4, head_dim=128,
        intermediate_size=18944, vocab_size=152064, max_positions=4096, has_qk_norm=False, adapters=40_000_000,
    )  # fmt: skip
    found = learner_memory(
        shape, LearnerSettings(), ranks=8, tokens=1024, longest=1024, max_chunk_logits=1 << 26
    )
    assert found.weights == 2 * 8_040_000_000 / 8
    assert found.gradients == 2 * 40_000_000 / 8
    assert found.optimizer == 12 * 40_000_000 / 8
