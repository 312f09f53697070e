"""One turn of the loop: Algorithm 1 of Reinforce-Ada (arXiv 2510.04996).

    line 2       selection.choose  the step's prompts
    lines 3-12   strategy.sample   rounds of M samples a prompt until its exit condition holds
    lines 15-19  build_group       balanced down-sampling, baseline over the whole pool, advantages
    line 21      learner.update    the clipped policy gradient, Eq. 3
                 load_weights      the engine samples the next step from the new policy

Departures from the paper's listing, none of which changes the law of the pools:
- no barrier after a round: each prompt goes on as soon as its own samples are verified (sampling.py);
- groups without signal are left out of the batch (`uniform_groups: keep` restores the denominator).
"""

from dataclasses import dataclass

from adarl.draws import StepSampler, StepSettings, Stopwatch
from adarl.groups import build_group, unused, whitened, without
from adarl.metrics import PoolStats, pool_stats
from adarl.protocols import Engine, Learner, Stream, Verifier
from adarl.seeds import derive_seed
from adarl.types import Group, Pool


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step: pools and groups of this rank, the rest of all ranks."""

    pools: list[Pool]  # every pool that was drawn
    groups: list[Group]  # one a pool; without samples where the pool is not trained on
    stats: list[PoolStats]
    notes: dict[str, float]  # what selection and strategy say of the step
    update: dict[str, float]


def train_step(
    stream: Stream,
    engine: Engine,
    verifier: Verifier,
    learner: Learner,
    settings: StepSettings,
    seed: int,
    watch: Stopwatch,
) -> StepResult:
    """Choose prompts, sample, group, update, hand over the weights.

    Args:
        seed: names the draws of this step, the same on every rank.
    """
    sampler = StepSampler(engine, verifier, learner, settings, seed, watch, stream, learner.gradient_norms)
    chosen = settings.selection.choose(settings.prompts_per_step, sampler)
    pools = [pool for pool in settings.strategy.sample(chosen, sampler) if pool.size]
    groups = [
        build_group(pool, settings.select, settings.estimator, derive_seed("group", seed, pool.label))
        for pool in pools
    ]
    if settings.estimator.whitened:
        groups = whitened(groups, learner.gather)
    in_loss = [without(group, settings.is_masked) for group in groups]
    trained = [g for g in in_loss if g.has_signal or settings.keep_uniform_groups]
    with watch("update"):
        engine.sleep()
        update = learner.update(trained, derive_seed("update", seed))
    with watch("sync"):
        engine.load_weights(learner.weights())
    built = {group.label: group for group in groups}
    drawn = list(sampler.drawn.values())
    groups = [built.get(pool.label) or unused(pool) for pool in drawn]
    stats = learner.gather([pool_stats(pool, group) for pool, group in zip(drawn, groups, strict=True)])
    stats.sort(key=lambda s: (s.prompt_id, s.occurrence))  # the same order however prompts lay on the ranks
    notes = settings.selection.observe(stats) | settings.strategy.observe(stats)
    return StepResult(drawn, groups, stats, notes, update)
