"""Log-probabilities and entropies without logits equal the plain way's, packed or padded."""

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

import adarl.policy
from adarl.batch import pack
from adarl.policy import Policy
from tests.test_batch import sequence


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def model(request):
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, tie_word_embeddings=request.param,
    )  # fmt: skip
    return Qwen2ForCausalLM(config)


def plain(model, ids, first, temperature):
    """The textbook: whole logits, log-softmax, gather."""
    logp = (model(input_ids=torch.tensor([ids])).logits[0].float() / temperature).log_softmax(-1)
    rows = logp[first - 1 : len(ids) - 1]
    return rows.gather(-1, torch.tensor(ids[first:])[:, None])[:, 0], -(rows.exp() * rows).sum(-1)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("row_tokens", [0, 64], ids=["padded", "packed"])
@pytest.mark.parametrize("chunk_logits", [1 << 26, 3 * 40], ids=["one chunk", "chunks of three"])
def test_values_and_gradients_equal_the_plain_way(model, temperature, row_tokens, chunk_logits, monkeypatch):
    monkeypatch.setattr(adarl.policy, "MAX_CHUNK_LOGITS", chunk_logits)
    sequences = [sequence(3, 4), sequence(2, 7), sequence(5, 1)]
    (m,) = pack(
        sequences, world_size=1, rank=0, max_tokens=64, row_tokens=row_tokens, hidden_size=32
    ).microbatches
    model.zero_grad()
    logp, entropy = Policy(model, temperature)(
        m.input_ids_RW, m.position_ids_RW, m.loss_positions_L, m.targets_L
    )
    (logp.sum() + 0.1 * entropy.sum()).backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}

    model.zero_grad()
    pairs = [plain(model, list(range(p + r)), p, temperature) for p, r in ((3, 4), (2, 7), (5, 1))]
    (sum(lp.sum() + 0.1 * e.sum() for lp, e in pairs)).backward()
    assert sorted(logp.tolist()) == pytest.approx(
        sorted(torch.cat([lp for lp, _ in pairs]).tolist()), abs=1e-5
    )
    assert sorted(entropy.tolist()) == pytest.approx(
        sorted(torch.cat([e for _, e in pairs]).tolist()), abs=1e-5
    )
    for name, p in model.named_parameters():
        torch.testing.assert_close(gradients[name], p.grad, rtol=1e-4, atol=1e-5)
