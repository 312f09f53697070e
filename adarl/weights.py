"""Whole weights out of a sharded model, a bucket at a time."""

from collections.abc import Iterable, Iterator
from typing import Any

from deepspeed.runtime.zero import GatheredParameters
from torch import Tensor

MIB = 1 << 20


def gathered(named: Iterable[tuple[str, Any]], bound: int) -> Iterator[tuple[str, Tensor]]:
    """(name, tensor) pairs of parameters that ZeRO-3 has partitioned; all ranks iterate together.

    A tensor is whole only until the next one is asked for.

    Args:
        named: names and parameters.
        bound: bytes gathered at a time.
    """
    for bucket in _buckets(named, bound):
        with GatheredParameters([p for _, p in bucket], modifier_rank=None):
            yield from ((name, p.data) for name, p in bucket)


def _buckets(named: Iterable[tuple[str, Any]], bound: int) -> Iterator[list[tuple[str, Any]]]:
    """Cut parameters into runs of at most `bound` bytes; a larger one is a bucket of its own."""
    bucket: list[tuple[str, Any]] = []
    size = 0
    for name, parameter in named:
        numel = getattr(parameter, "ds_numel", None) or parameter.numel()
        nbytes = numel * parameter.element_size()
        if bucket and size + nbytes > bound:
            yield bucket
            bucket, size = [], 0
        bucket.append((name, parameter))
        size += nbytes
    if bucket:
        yield bucket
