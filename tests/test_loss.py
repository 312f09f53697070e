"""The clipped surrogate against numbers worked out by hand."""

import math

import pytest
import torch

from adarl.batch import Microbatch, UpdateBatch
from adarl.loss import LossSettings, denominator, policy_loss

SETTINGS = LossSettings(clip_low=0.2, clip_high=0.28, entropy_coefficient=0.0)


def tokens_of(advantages, sequences=None, engine=None, entropy_weights=None, mask=None) -> Microbatch:
    """A microbatch as the loss sees it: what the policy reads is left out."""
    advantages = torch.as_tensor(advantages)
    zeros = torch.zeros(len(advantages))
    nothing = torch.zeros(0)
    return Microbatch(
        nothing, nothing, nothing, nothing,
        sequences_L=torch.zeros(len(advantages), dtype=torch.int64) if sequences is None else torch.tensor(sequences),
        advantages_L=advantages,
        entropy_weights_L=zeros if entropy_weights is None else torch.tensor(entropy_weights),
        engine_logprobs_L=zeros if engine is None else torch.as_tensor(engine),
        loss_mask_L=torch.ones(len(advantages)) if mask is None else torch.as_tensor(mask),
    )  # fmt: skip


def loss_of(ratio, advantage, entropy=0.0, mask=1.0, tokens=1, settings=SETTINGS):
    old = torch.tensor([-1.0])
    new = (old + math.log(ratio)).requires_grad_()
    loss, sums = policy_loss(
        new,
        old,
        torch.tensor([entropy]),
        tokens_of([advantage], engine=[-1.0], mask=[mask]),
        tokens,
        settings,
    )
    loss.backward()
    return loss.item(), new.grad.item(), {k: v.item() for k, v in sums.items()}


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient", "clipped"),
    [
        (1.0, 0.75, -0.75, -0.75, 0),  # on-policy: the plain policy gradient
        (1.5, 1.0, -1.28, 0.0, 1),  # clipped high: no gradient left
        (1.2, 1.0, -1.2, -1.2, 0),  # within the higher bound
        (0.5, 1.0, -0.5, -0.5, 0),  # a good token that became rarer is never clipped
        (0.5, -1.0, 0.8, 0.0, 1),  # clipped low
        (1.5, -1.0, 1.5, 1.5, 0),  # a bad token that became likelier is never clipped
        (1.0, -0.25, 0.25, 0.25, 0),
    ],
)
def test_one_token(ratio, advantage, loss, gradient, clipped):
    got_loss, got_gradient, sums = loss_of(ratio, advantage)
    assert got_loss == pytest.approx(loss)
    assert got_gradient == pytest.approx(gradient, abs=1e-6)
    assert sums["clipped"] == clipped
    assert sums["ratio"] == pytest.approx(ratio)
    assert sums["approx_kl"] == pytest.approx(ratio - 1 - math.log(ratio), abs=1e-6)


def test_the_entropy_bonus_is_subtracted():
    settings = LossSettings(entropy_coefficient=0.1)
    assert loss_of(1.0, 0.0, entropy=2.0, settings=settings)[0] == pytest.approx(-0.2)


def test_a_masked_token_counts_nowhere():
    loss, gradient, sums = loss_of(1.5, 1.0, entropy=3.0, mask=0.0)
    assert (loss, gradient) == (0.0, 0.0)
    assert set(sums.values()) == {0.0}


def test_the_denominator_is_the_global_count():
    assert loss_of(1.0, 1.0, tokens=4)[0] == pytest.approx(-0.25)


def test_shares_of_two_microbatches_add_up_to_the_whole():
    torch.manual_seed(0)
    new, old, advantages, entropies = torch.randn(4, 6)
    whole, _ = policy_loss(new, old, entropies, tokens_of(advantages, engine=old), 6, SETTINGS)
    shares = [
        policy_loss(new[s], old[s], entropies[s], tokens_of(advantages[s], engine=old[s]), 6, SETTINGS)[0]
        for s in (slice(0, 2), slice(2, 6))
    ]
    assert sum(shares).item() == pytest.approx(whole.item(), rel=1e-6)


def gradient_of(old, new, settings, tokens, denominator, entropies=None):
    """Loss and gradient with respect to the current log-probabilities."""
    old, new = torch.tensor(old), torch.tensor(new).requires_grad_()
    entropies = torch.zeros(len(new)) if entropies is None else torch.tensor(entropies)
    loss, sums = policy_loss(new, old, entropies, tokens, denominator, settings)
    loss.backward()
    return loss.item(), new.grad.tolist(), {k: v.item() for k, v in sums.items()}


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (12.0, -1.0, 10.0, 0.0),  # c A = -10 bounds what a bad token that exploded can cost
        (9.0, -1.0, 9.0, 9.0),
        (12.0, 1.0, -1.28, 0.0),  # good tokens: as without
    ],
)
def test_dual_clip_bounds_the_loss_of_a_bad_token(ratio, advantage, loss, gradient):
    got_loss, got_gradient, sums = loss_of(ratio, advantage, settings=LossSettings(dual_clip=10.0))
    assert (got_loss, got_gradient) == pytest.approx((loss, gradient), rel=1e-5, abs=1e-5)
    assert sums["clipped"] == (gradient == 0.0)


@pytest.mark.parametrize(
    ("ratio", "advantage", "gradient"),
    [(1.0, 1.0, -1.0), (3.0, 1.0, -1.2), (3.0, -1.0, 1.2), (0.1, 1.0, -0.1)],
)
def test_cispo_bounds_the_weight_and_never_the_gradient(ratio, advantage, gradient):
    settings = LossSettings(objective="cispo", clip_low=10.0, clip_high=0.2)
    assert loss_of(ratio, advantage, settings=settings)[1] == pytest.approx(gradient, rel=1e-5)


TWO = dict(advantages=[1.0, 1.0, 1.0, -1.0], sequences=[0, 0, 0, 1])  # three tokens and one


@pytest.mark.parametrize(
    ("aggregation", "denominator_", "gradient"),
    [
        ("token_mean", 4, [-1 / 4, -1 / 4, -1 / 4, 1 / 4]),
        ("sequence_mean", 2, [-1 / 2, -1 / 2, -1 / 2, 1 / 2]),
        ("sequence_mean_token_mean", 2, [-1 / 6, -1 / 6, -1 / 6, 1 / 2]),
        ("token_sum_norm", 20, [-1 / 20, -1 / 20, -1 / 20, 1 / 20]),
    ],
)
def test_aggregations_divide_by_global_counts(aggregation, denominator_, gradient):
    settings = LossSettings(aggregation=aggregation, max_response_tokens=10)
    batch = UpdateBatch(microbatches=(), num_loss_tokens=4, num_sequences=2)
    assert denominator(batch, settings) == denominator_
    tokens = tokens_of(**TWO, engine=[-1.0] * 4)
    assert gradient_of([-1.0] * 4, [-1.0] * 4, settings, tokens, denominator_)[1] == pytest.approx(gradient)
    # The second sequence in another microbatch: the same gradients, so the cut does not matter.
    first = tokens_of([1.0] * 3, engine=[-1.0] * 3)
    last = tokens_of([-1.0], engine=[-1.0])
    cut = [
        gradient_of([-1.0] * n, [-1.0] * n, settings, t, denominator_)[1] for n, t in ((3, first), (1, last))
    ]
    assert cut[0] + cut[1] == pytest.approx(gradient)


def test_the_sequence_ratio_is_the_geometric_mean_and_its_gradient_the_tokens():
    settings = LossSettings(
        ratio="sequence", clip_low=3e-4, clip_high=4e-4, aggregation="sequence_mean_token_mean"
    )
    tokens = tokens_of([1.0] * 3, sequences=[0, 0, 1], engine=[-1.0] * 3)
    loss, gradient, sums = gradient_of([-1.0] * 3, [-0.9998, -1.0002, -1.001], settings, tokens, 2)
    s = [1.0, 1.0, math.exp(-0.001)]  # the first sequence's log-ratios cancel
    assert sums["ratio"] == pytest.approx(sum(s), rel=1e-6)
    assert gradient == pytest.approx([-1 / 4, -1 / 4, -math.exp(-0.001) / 2], rel=1e-4)
    high = gradient_of([-1.0] * 3, [-0.9, -0.9, -1.0], settings, tokens, 2)
    assert high[1] == pytest.approx(
        [0.0, 0.0, -1 / 2], abs=1e-6
    )  # e^0.1 is clipped, the other sequence is not
    assert high[2]["clipped"] == 2


@pytest.mark.parametrize(
    ("correction", "weights", "masked"),
    [("tis", [0.1, 1.0, 2.0, 2.0], 0), ("icepop", [0.0, 1.0, 3.0, 0.0], 2), ("none", [1.0] * 4, 0)],
)
def test_the_engines_policy_is_corrected_for(correction, weights, masked):
    settings = LossSettings(engine_correction=correction)
    k = [0.1, 1.0, 3.0, 9.0]  # learner over engine
    tokens = tokens_of([1.0] * 4, sequences=[0, 0, 1, 1], engine=[-1.0 - math.log(x) for x in k])
    _, gradient, sums = gradient_of([-1.0] * 4, [-1.0] * 4, settings, tokens, 4)
    assert gradient == pytest.approx([-w / 4 for w in weights], rel=1e-5)
    assert sums["engine_weight"] == pytest.approx(sum(weights), rel=1e-5)
    assert sums["engine_weight_max"] == pytest.approx(max(weights), rel=1e-5)
    assert sums["engine_masked"] == masked


def test_uniform_groups_learn_from_entropies():
    tokens = tokens_of(
        [0.0] * 6,
        sequences=[0, 0, 1, 1, 1, 2],
        engine=[-1.0] * 6,
        entropy_weights=[0.1, 0.1, -0.1, -0.1, -0.1, -0.1],
    )
    entropies = [1.0, 3.0, 0.5, 2.0, 1.0, 4.0]
    _, gradient, _ = gradient_of([-1.0] * 6, [-1.0] * 6, SETTINGS, tokens, 1, entropies)
    # all right: +alpha H; all wrong: -alpha (max H - H); a wrong response of one token: 0
    assert gradient == pytest.approx([-0.1, -0.3, 0.15, 0.0, 0.1, 0.0], abs=1e-6)
