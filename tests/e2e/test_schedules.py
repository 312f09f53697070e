"""The law on the real engine: per-request seeds make every schedule draw the same pools."""

import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.e2e import runs


def last_line(result) -> dict:
    return json.loads([line for line in result.stdout.splitlines() if line.startswith("{")][-1])


@pytest.fixture(scope="module")
def one_rank() -> dict:
    return last_line(runs.run("python", "-m", "tests.e2e.schedules"))


def test_with_a_barrier_and_in_reversed_order_the_engine_draws_the_same_pools(one_rank):
    assert one_rank["samples"] > 24 * 4
    assert one_rank["barrier"] is True
    assert one_rank["reversed"] is True


def test_gradient_norms_are_those_of_plain_autograd_on_one_rank_and_two(one_rank, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(one_rank["model"], dtype=torch.float32)
    expected = []
    for prompt, response in one_rank["pairs"]:
        embeddings = model.get_input_embeddings()(torch.tensor([prompt + response])).detach().requires_grad_()
        logp = model(inputs_embeds=embeddings).logits[0].float().log_softmax(-1)[len(prompt) - 1 : -1]
        logp.gather(-1, torch.tensor(response)[:, None]).sum().backward()
        expected.append(float(embeddings.grad.norm()))
    assert one_rank["norms"] == pytest.approx(expected, rel=1e-3)
    assert one_rank["trainable"]
    drawn = tmp_path / "one_rank.json"
    drawn.write_text(json.dumps(one_rank))
    two_ranks = ("deepspeed", "--num_accelerators", "2", "--module", "tests.e2e.schedules")
    two = last_line(runs.run(*two_ranks, str(drawn)))
    assert two["norms"] == pytest.approx(expected, rel=1e-3)
