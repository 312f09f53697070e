"""A rule that looks at one prompt alone: `uniform`, `positive_focused`, `balanced`, `downsampled`."""

from collections.abc import Sequence

from adarl.sampling import RoundSize, Sampler
from adarl.strategies import Forgetful
from adarl.types import Pool


class PerPrompt(Forgetful):
    """Draw each pool until its rule asks for no more; no prompt waits for another.

    Args:
        round_size: `uniform`, `elimination` or `posterior_elimination`.
    """

    def __init__(self, round_size: RoundSize):
        self._round_size = round_size

    def sample(self, pools: Sequence[Pool], step: Sampler) -> list[Pool]:
        return step.draw(pools, self._round_size)
