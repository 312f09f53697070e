"""Whole weights out of a sharded model, a bucket at a time."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from deepspeed.runtime.zero import GatheredParameters
from torch import Tensor

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Source:
    """A weight that goes out and what it is made of."""

    name: str
    parameters: tuple[Any, ...]
    made: Callable[..., Tensor] = lambda tensor: tensor  # of the whole parameters' data

    @property
    def nbytes(self) -> int:
        return sum((getattr(p, "ds_numel", None) or p.numel()) * p.element_size() for p in self.parameters)


def gathered(sources: Iterable[Source], bound: int) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) pairs of parameters that ZeRO-3 has partitioned; all ranks iterate together.

    A tensor is whole only until the next one is asked for.

    Args:
        bound: bytes gathered at a time.
    """
    for bucket in _buckets(sources, bound):
        with GatheredParameters([p for source in bucket for p in source.parameters], modifier_rank=None):
            for source in bucket:
                yield source.name, source.made(*(p.data for p in source.parameters))


def _buckets(sources: Iterable[Source], bound: int) -> Iterator[list[Source]]:
    """Cut sources into runs of at most `bound` bytes; a larger one is a bucket of its own."""
    bucket: list[Source] = []
    size = 0
    for source in sources:
        if bucket and size + source.nbytes > bound:
            yield bucket
            bucket, size = [], 0
        bucket.append(source)
        size += source.nbytes
    if bucket:
        yield bucket
