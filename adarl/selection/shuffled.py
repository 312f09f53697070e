"""`shuffled`: the prompts as the stream brings them, each once an epoch."""

from adarl.sampling import Sampler
from adarl.strategies import Forgetful
from adarl.types import Pool


class Shuffled(Forgetful):
    def choose(self, count: int, step: Sampler) -> list[Pool]:
        return step.start(step.take(count))
