"""One turn of the loop with fakes in place of engine, verifier and learner."""

from dataclasses import replace
from random import Random

import pytest

from adarl.advantages import Estimator, global_mean
from adarl.draws import OneRank, StepSettings, Stopwatch, sample_pools
from adarl.exit_conditions import balanced
from adarl.groups import keep_balanced
from adarl.sampling import elimination, uniform
from adarl.selection.shuffled import Shuffled
from adarl.step import train_step
from adarl.strategies.per_prompt import PerPrompt
from adarl.types import Sample, Verdict, Verification
from tests.conftest import make_prompt


class FakeEngine:
    """Answers with one digit that depends on the request's seed; hands rounds back in an order of its own."""

    def __init__(self, order: int = 0):
        self.queue, self.order, self.log = [], Random(order), []

    def submit(self, request):
        self.queue.append(request)

    def poll(self):
        if not self.queue:
            return []
        request = self.queue.pop(self.order.randrange(len(self.queue)))
        rng = Random(request.seed)
        texts = [str(rng.randrange(4)) for _ in request.indices]
        return [
            (
                request,
                tuple(
                    Sample(request.prompt.id, request.round, i, t, (int(t), 9), (-1.0, -1.0), t == "3")
                    for i, t in zip(request.indices, texts, strict=True)
                ),
            )
        ]

    @property
    def num_unfinished(self):
        return len(self.queue)

    def sleep(self):
        self.log.append("sleep")

    def load_weights(self, weights):
        self.log.append(dict(weights))


class FakeVerifier:
    """Correct is what equals the answer."""

    def __init__(self):
        self.done = []

    def submit(self, key, responses, answer, truncated=None):
        verdicts = [Verdict.CORRECT if r == answer else Verdict.INCORRECT for r in responses]
        self.done.append((key, tuple(Verification(v, float(v.is_correct)) for v in verdicts)))

    def poll(self, timeout=0.0):
        done, self.done = self.done, []
        return done


class FakeStream:
    def __init__(self, prompts):
        self.prompts, self.position = prompts, 0

    @property
    def num_prompts(self):
        return len(self.prompts)

    def take(self, count):
        self.position += count
        return self.prompts[self.position - count : self.position]


class FakeLearner(OneRank):
    def gradient_norms(self, samples):
        return [1.0] * len(samples)

    def update(self, groups, seed):
        self.groups = groups
        return {"update/updates": 1}

    def weights(self):
        return iter([("w", 1.0)])


BALANCED = StepSettings(
    prompts_per_step=6,
    selection=Shuffled(),
    strategy=PerPrompt(elimination(balanced(2, 2), 4, 4)),
    select=keep_balanced(4),
    estimator=Estimator(global_mean),
)


def step(settings, prompts=None, order=0):
    engine, learner = FakeEngine(order), FakeLearner()
    prompts = prompts or [make_prompt(f"p{i}", answer="1") for i in range(6)]
    settings = replace(settings, prompts_per_step=len(prompts))
    result = train_step(
        FakeStream(prompts), engine, FakeVerifier(), learner, settings, seed=3, watch=Stopwatch()
    )
    return result, engine, learner


def test_pools_do_not_depend_on_the_order_in_which_rounds_return():
    results = [step(BALANCED, order=order)[0] for order in range(5)]
    assert all(r.pools == results[0].pools and r.groups == results[0].groups for r in results)


def test_the_engine_sleeps_before_the_update_and_gets_the_weights_after_it():
    _, engine, _ = step(BALANCED)
    assert engine.log == ["sleep", {"w": 1.0}]


def test_groups_without_signal_are_dropped_or_kept():
    impossible = [
        make_prompt("hard", answer="8"),
        make_prompt("p0", answer="1"),
        make_prompt("p1", answer="1"),
    ]
    _, _, learner = step(BALANCED, impossible)
    assert [g.prompt.id for g in learner.groups] == ["p0", "p1"]
    keep = replace(BALANCED, keep_uniform_groups=True)
    _, _, learner = step(keep, impossible)
    assert [g.prompt.id for g in learner.groups] == ["hard", "p0", "p1"]
    assert learner.groups[0].advantages == (0.0, 0.0, 0.0, 0.0)


def test_uniform_sampling_trains_on_what_it_drew():
    result, _, _ = step(replace(BALANCED, strategy=PerPrompt(uniform(4))))
    assert all(
        p.size == 4 and p.samples == g.samples for p, g in zip(result.pools, result.groups, strict=True)
    )


def test_masked_samples_count_in_the_pool_and_carry_no_loss():
    masked = replace(BALANCED, is_masked=lambda s: s.sample.truncated)
    result, _, learner = step(masked)
    trained = [s for g in learner.groups for s in g.samples]
    assert any(s.sample.truncated for p in result.pools for s in p.samples)
    assert trained and not any(s.sample.truncated for s in trained)


def test_shaped_rewards_reach_the_baseline_and_leave_the_exits_alone():
    def shape(found, sample):
        return Verification(found.verdict, found.reward - 0.5)

    shaped, _, _ = step(replace(BALANCED, shape_reward=shape))
    plain, _, _ = step(BALANCED)
    assert [p.size for p in shaped.pools] == [p.size for p in plain.pools]
    assert [g.baseline for g in shaped.groups] == pytest.approx([g.baseline - 0.5 for g in plain.groups])


def test_time_is_told_by_phase():
    watch = Stopwatch()
    sample_pools([make_prompt(answer="1")], FakeEngine(), FakeVerifier(), BALANCED, 0, watch)
    assert set(watch.seconds) == {"generate", "verify_wait"}
