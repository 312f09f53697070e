"""The recipe's sections that are the method: `data.selection`, `sampling`, `algorithm`. Checked at load time."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=())


Positive = Annotated[int, Field(ge=1)]
Count = Annotated[float, Field(gt=0)]  # of a Beta prior
Share = Annotated[float, Field(gt=0, le=1)]
Inside = Annotated[float, Field(gt=0, lt=1)]


class BayesianSettings(Section):
    """MoPPS, arXiv 2507.04632."""

    candidates: Positive = Field(
        16, description="candidates a chosen prompt; all prompts where the data has fewer"
    )
    target: Inside = Field(0.5, description="pass rate whose nearest are chosen")
    forgetting: Share = Field(1.0, description="lambda: what older counts are worth at the next visit")
    prior_correct: Count = 1.0
    prior_incorrect: Count = 1.0


class DifficultySettings(Section):
    """AdaRFT, arXiv 2504.05520. Difficulties lie between 0 (easy) and 100."""

    column: str = Field("difficulty", description="column of the difficulties, in the data set")
    candidates: Positive = Field(
        16, description="candidates a chosen prompt; all prompts where the data has fewer"
    )
    start: float = Field(0.0, ge=0, le=100, description="target difficulty of the first step")
    step_size: Count = Field(50.0, description="eta")
    sensitivity: Count = Field(2.0, description="alpha")
    target_reward: float = Field(0.5, description="beta: mean reward that the target difficulty is held at")


class SkipSettings(Section):
    """GRESO, arXiv 2506.02177."""

    target_easy: Share = Field(1 / 12, description="share of all-right pools that the skipping aims at")
    target_hard: Share = Field(1 / 6, description="share of all-wrong pools that the skipping aims at")
    start: Inside = Field(
        0.5, description="chance, at first, of sampling a prompt again whose last pool was uniform"
    )
    change: Inside = Field(0.01, description="what that chance moves by, a step")
    least: Inside = 0.05
    most: Inside = 0.95

    @model_validator(mode="after")
    def _ordered(self) -> "SkipSettings":
        if not self.least <= self.start <= self.most:
            raise ValueError(
                f"data.selection.skip_uniform.start = {self.start} lies outside least = {self.least} and "
                f"most = {self.most}: move one of them"
            )
        return self


class ScreenedSettings(Section):
    """SPEED-RL, arXiv 2506.09016."""

    samples: Annotated[int, Field(ge=2)] = Field(
        4, description="draws that decide whether a prompt is gone on with"
    )
    max_rounds: Positive = Field(
        10, description="rounds of screening a step; then it trains on what there is"
    )


class SelectionSettings(Section):
    kind: Literal["shuffled", "bayesian", "adaptive_difficulty", "skip_uniform", "screened"] = "shuffled"
    bayesian: BayesianSettings = BayesianSettings()
    adaptive_difficulty: DifficultySettings = DifficultySettings()
    skip_uniform: SkipSettings = SkipSettings()
    screened: ScreenedSettings = ScreenedSettings()


class PosteriorSettings(Section):
    """Rules of `balanced` that ask a Jeffreys posterior how far the quotas are; null: off."""

    futility: Inside | None = Field(
        None, description="tau: stop a mixed pool whose chance of both quotas is below"
    )
    confidence: Inside | None = Field(
        None, description="gamma: rounds just large enough to meet them with this chance"
    )


class EstimatedSettings(Section):
    """Reinforce-Ada-Est, arXiv 2510.04996 v3, Algorithm 1. The mean budget of a prompt is sampling.group_size."""

    min_samples: Positive = Field(2, description="least budget of a prompt")
    max_samples: Positive = Field(32, description="largest budget of a prompt")
    epsilon: Count = Field(0.01, description="budgets go as 1 / sqrt(estimated pass rate + epsilon)")
    forgetting: Share = Field(0.9, description="lambda: what older counts are worth at the next visit")
    prior_correct: Count = 1.0
    prior_incorrect: Count = 1.0


class FilteredSettings(Section):
    """DAPO's dynamic sampling, arXiv 2503.14476."""

    max_rounds: Positive = Field(
        10, description="rounds of generation a step; then it trains on what there is"
    )


class TwoStageSettings(Section):
    """GVM-RAFT, arXiv 2505.02391. The mean budget of the second stage is sampling.group_size."""

    pilot_samples: Positive = Field(8, description="draws a prompt that the budgets are worked out from")
    alpha: Count = 1e-3
    beta: float = Field(2.0, ge=1)
    gradient_norms: bool = Field(True, description="ask the learner for G; false: G = 1")


class DownsampledSettings(Section):
    """PODS, arXiv 2504.13818."""

    rollouts: Positive = Field(16, description="samples a prompt, of which sampling.group_size are kept")


class SamplingSettings(Section):
    strategy: Literal[
        "uniform", "positive_focused", "balanced", "estimated", "filtered", "two_stage", "downsampled"
    ] = "balanced"
    group_size: Annotated[int, Field(ge=2)] = Field(4, description="n of the paper: samples kept a prompt")
    samples_per_round: Positive = Field(8, description="M of the paper")
    num_rounds: Positive = Field(4, description="N of the paper")
    min_correct: Positive | None = Field(
        None, description="quota of correct samples; null: 1 for positive_focused, n // 2 for balanced"
    )
    min_incorrect: Positive | None = Field(
        None, description="quota of incorrect ones; null: n - n // 2 for balanced"
    )
    posterior: PosteriorSettings = PosteriorSettings()
    estimated: EstimatedSettings = EstimatedSettings()
    filtered: FilteredSettings = FilteredSettings()
    two_stage: TwoStageSettings = TwoStageSettings()
    downsampled: DownsampledSettings = DownsampledSettings()
    temperature: float = Field(1.0, gt=0)
    max_response_tokens: Positive

    @property
    def quotas(self) -> tuple[int, int]:
        """Correct and incorrect samples that the exit condition waits for; (0, 0) where there is none."""
        n = self.group_size
        if self.strategy == "positive_focused":
            return self.min_correct or 1, 0
        if self.strategy == "balanced":
            return self.min_correct or n // 2, self.min_incorrect or n - n // 2
        return 0, 0

    @property
    def min_samples(self) -> int:
        """Fewest samples that a step takes, a prompt of `data.prompts_per_step`."""
        return {
            "positive_focused": self.samples_per_round,
            "balanced": self._least_balanced(),
            "two_stage": self.two_stage.pilot_samples,
            "downsampled": self.downsampled.rollouts,
        }.get(self.strategy, self.group_size)

    @property
    def max_samples(self) -> int:
        """Most samples that a step can take, a prompt of `data.prompts_per_step`."""
        return {
            "positive_focused": self.samples_per_round * self.num_rounds,
            "balanced": self.samples_per_round * self.num_rounds,
            "filtered": self.group_size * self.filtered.max_rounds,
            "two_stage": self.two_stage.pilot_samples + self.group_size,
            "downsampled": self.downsampled.rollouts,
        }.get(self.strategy, self.group_size)

    def _least_balanced(self) -> int:
        m = self.samples_per_round
        wanted = sum(self.quotas)
        if self.posterior.futility is not None:
            wanted = 2
        if self.posterior.confidence is not None:
            return max(wanted, min(self.group_size, m))
        return min(m * -(-wanted // m), m * self.num_rounds)

    @model_validator(mode="after")
    def _can_fill_a_group(self) -> "SamplingSettings":
        cap = self.samples_per_round * self.num_rounds
        if self.strategy in ("positive_focused", "balanced"):
            if cap < self.group_size:
                raise ValueError(
                    f"sampling.samples_per_round x sampling.num_rounds = {cap} is less than "
                    f"sampling.group_size = {self.group_size}: raise one of the first two"
                )
            if sum(self.quotas) > cap:
                raise ValueError(
                    f"sampling.min_correct + sampling.min_incorrect = {sum(self.quotas)} can never be met by "
                    f"sampling.samples_per_round x sampling.num_rounds = {cap} samples: lower the quotas"
                )
        if self.strategy == "positive_focused" and self.min_incorrect is not None:
            raise ValueError(
                f"sampling.min_incorrect = {self.min_incorrect} means nothing to positive_focused, which waits for "
                "correct samples alone: remove it, or take sampling.strategy = balanced"
            )
        return self

    @model_validator(mode="after")
    def _budgets_fit(self) -> "SamplingSettings":
        n, budget = self.group_size, self.estimated
        if self.strategy == "estimated" and not budget.min_samples <= n <= budget.max_samples:
            raise ValueError(
                f"sampling.group_size = {n} is the mean budget and has to lie between sampling.estimated.min_samples = "
                f"{budget.min_samples} and max_samples = {budget.max_samples}: change one of the three"
            )
        if self.strategy == "downsampled" and self.downsampled.rollouts < n:
            raise ValueError(
                f"sampling.downsampled.rollouts = {self.downsampled.rollouts} is less than sampling.group_size = {n}, "
                "so there is nothing to choose from: raise it"
            )
        return self


class AlgorithmSettings(Section):
    advantage: Literal[
        "global_mean",
        "global_mean_std",
        "inverse_sqrt",
        "group_mean",
        "grpo",
        "rloo",
        "reinforce_pp_baseline",
        "raft",
        "negative_only",
        "weighted",
        "ngrpo",
        "zero_variance_entropy",
        "stratified",
        "log_objective",
    ] = "global_mean"
    positive_weight: float = Field(0.1, gt=0, description="lambda of advantage = weighted (W-REINFORCE)")
    entropy_scale: float = Field(0.1, gt=0, description="alpha of advantage = zero_variance_entropy (RL-ZVP)")
    uniform_groups: Literal["drop", "keep"] = Field(
        "drop", description="groups without signal: drop them, or keep their tokens in the mean's denominator"
    )
    updates_per_step: Positive = 1
    objective: Literal["clip", "cispo"] = "clip"
    ratio: Literal["token", "sequence"] = Field("token", description="sequence: that of GSPO")
    clip_low: float = Field(0.2, ge=0)
    clip_high: float = Field(0.28, ge=0)
    dual_clip: float | None = Field(
        None, gt=1, description="bound on the ratio where the advantage is negative"
    )
    aggregation: Literal["token_mean", "sequence_mean", "sequence_mean_token_mean", "token_sum_norm"] = (
        "token_mean"
    )
    entropy_coefficient: float = Field(0.0, ge=0)
    engine_correction: Literal["tis", "icepop", "none"] = Field(
        "tis",
        description="what is done about the ratio of learner to engine: cap it, mask beyond bounds, nothing",
    )
    tis_cap: float = Field(2.0, ge=1)
    icepop_low: float = Field(0.5, ge=0, le=1)
    icepop_high: float = Field(5.0, ge=1)

    @model_validator(mode="after")
    def _clips_fit(self) -> "AlgorithmSettings":
        if self.objective == "clip" and self.clip_low >= 1:
            raise ValueError(
                f"algorithm.clip_low = {self.clip_low} lets the ratio fall to zero, which clips nothing: give less than "
                "1, or take algorithm.objective = cispo"
            )
        if self.objective == "cispo" and self.ratio == "sequence":
            raise ValueError(
                "algorithm.objective = cispo weighs single tokens and has no form for algorithm.ratio = sequence: "
                "take ratio = token, or objective = clip"
            )
        if self.objective == "cispo" and self.dual_clip is not None:
            raise ValueError(
                f"algorithm.dual_clip = {self.dual_clip} belongs to objective = clip; cispo bounds the ratio by "
                "clip_high: remove it"
            )
        return self
