"""The recipe's names -> the parts of a step. One dict a choice, no other place knows the names."""

from collections.abc import Callable

from adarl.advantages import (
    Advantage,
    Estimator,
    global_mean,
    global_mean_std,
    group_mean,
    grpo,
    inverse_sqrt,
    log_objective,
    ngrpo,
    raft,
    rloo,
    stratified,
    weighted,
)
from adarl.budgets import PassRates, posterior_elimination
from adarl.config import Recipe
from adarl.draws import StepSettings
from adarl.exit_conditions import balanced, positive_focused
from adarl.groups import Selector, keep_after, keep_all, keep_balanced, keep_max_variance
from adarl.sampling import RoundSize, elimination, uniform
from adarl.selection import Selection
from adarl.selection.adaptive_difficulty import AdaptiveDifficulty
from adarl.selection.bayesian import Bayesian
from adarl.selection.screened import Screened
from adarl.selection.shuffled import Shuffled
from adarl.selection.skip_uniform import SkipUniform
from adarl.settings import AlgorithmSettings, SamplingSettings, SelectionSettings
from adarl.strategies import Strategy
from adarl.strategies.estimated import Estimated
from adarl.strategies.filtered import Filtered
from adarl.strategies.per_prompt import PerPrompt
from adarl.strategies.two_stage import TwoStage
from adarl.verifier.rewards import is_masked, shape_reward


def step_settings(recipe: Recipe) -> StepSettings:
    """What a step is made of. Strategy and selection are new: they remember nothing yet."""
    return StepSettings(
        prompts_per_step=recipe.data.prompts_per_step,
        selection=build_selection(recipe.data.selection),
        strategy=build_strategy(recipe.sampling),
        select=build_selector(recipe.sampling),
        estimator=build_estimator(recipe.algorithm, recipe.sampling),
        keep_uniform_groups=recipe.algorithm.uniform_groups == "keep",
        shape_reward=lambda found, sample: shape_reward(
            found, len(sample.token_ids), sample.truncated, recipe.verifier
        ),
        is_masked=lambda scored: is_masked(scored.sample.truncated, recipe.verifier),
    )


def build_strategy(settings: SamplingSettings) -> Strategy:
    """`sampling.strategy`."""
    n, two_stage, estimated = settings.group_size, settings.two_stage, settings.estimated
    strategies: dict[str, Callable[[], Strategy]] = {
        "uniform": lambda: PerPrompt(uniform(n)),
        "positive_focused": lambda: PerPrompt(
            elimination(positive_focused(settings.quotas[0]), settings.samples_per_round, settings.num_rounds)
        ),
        "balanced": lambda: PerPrompt(balanced_rule(settings)),
        "estimated": lambda: Estimated(
            PassRates(estimated.forgetting, estimated.prior_correct, estimated.prior_incorrect),
            n,
            estimated.min_samples,
            estimated.max_samples,
            estimated.epsilon,
        ),
        "filtered": lambda: Filtered(n, settings.filtered.max_rounds),
        "two_stage": lambda: TwoStage(
            two_stage.pilot_samples, n, two_stage.alpha, two_stage.beta, two_stage.gradient_norms
        ),
        "downsampled": lambda: PerPrompt(uniform(settings.downsampled.rollouts)),
    }
    return strategies[settings.strategy]()


def balanced_rule(settings: SamplingSettings) -> RoundSize:
    """`balanced`, with the posterior rules where the recipe has them."""
    m, rounds, posterior = settings.samples_per_round, settings.num_rounds, settings.posterior
    if posterior.futility is None and posterior.confidence is None:
        return elimination(balanced(*settings.quotas), m, rounds)
    return posterior_elimination(
        *settings.quotas,
        m,
        rounds,
        first_round=settings.group_size,
        futility=posterior.futility,
        confidence=posterior.confidence,
    )


def build_selector(settings: SamplingSettings) -> Selector:
    """Which samples of a pool the strategy trains on."""
    n = settings.group_size
    selectors: dict[str, Selector] = {
        "estimated": keep_all,
        "two_stage": keep_after(1),
        "downsampled": keep_max_variance(n),
    }
    return selectors.get(settings.strategy, keep_balanced(n))


def build_estimator(algorithm: AlgorithmSettings, sampling: SamplingSettings) -> Estimator:
    """`algorithm.advantage`."""
    if algorithm.advantage == "reinforce_pp_baseline":
        return Estimator(group_mean, whitened=True)
    if algorithm.advantage == "zero_variance_entropy":
        return Estimator(grpo, entropy_scale=algorithm.entropy_scale)
    n = sampling.group_size
    advantages: dict[str, Advantage] = {
        "global_mean": global_mean,
        "global_mean_std": global_mean_std,
        "inverse_sqrt": inverse_sqrt(sampling.estimated.epsilon),
        "group_mean": group_mean,
        "grpo": grpo,
        "rloo": rloo,
        "raft": raft,
        "negative_only": weighted(0.0),
        "weighted": weighted(algorithm.positive_weight),
        "ngrpo": ngrpo,
        "stratified": stratified(n),
        "log_objective": log_objective(n),
    }
    return Estimator(advantages[algorithm.advantage])


def build_selection(settings: SelectionSettings) -> Selection:
    """`data.selection`."""
    bayesian, difficulty = settings.bayesian, settings.adaptive_difficulty
    skip, screened = settings.skip_uniform, settings.screened
    selections: dict[str, Callable[[], Selection]] = {
        "shuffled": Shuffled,
        "bayesian": lambda: Bayesian(
            PassRates(bayesian.forgetting, bayesian.prior_correct, bayesian.prior_incorrect),
            bayesian.candidates,
            bayesian.target,
        ),
        "adaptive_difficulty": lambda: AdaptiveDifficulty(
            difficulty.candidates,
            difficulty.start,
            difficulty.step_size,
            difficulty.sensitivity,
            difficulty.target_reward,
        ),
        "skip_uniform": lambda: SkipUniform(
            skip.start, skip.change, skip.least, skip.most, skip.target_easy, skip.target_hard
        ),
        "screened": lambda: Screened(screened.samples, screened.max_rounds),
    }
    return selections[settings.kind]()
