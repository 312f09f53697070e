"""Groups of all ranks -> packed microbatches of this rank.

Sequences (prompt + response without its last token) lie back to back in rows; position ids restart at each sequence, which
is how transformers builds block-diagonal attention. Every rank computes the same deterministic
partition and keeps its part, with the same number of microbatches everywhere, because ZeRO-3 hangs
otherwise.

Shape suffixes: R rows of a microbatch, W width of a row, L trained tokens of a microbatch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from heapq import heappop, heappush

import numpy as np
import torch
from torch import Tensor

from adarl.seeds import derive_seed
from adarl.types import Group, Prompt, Sample


@dataclass(frozen=True, slots=True)
class TrainSequence:
    """One kept sample as compact arrays: what ranks exchange and the learner needs."""

    label: str  # of the pool: sequences of one label are one group
    prompt_ids: np.ndarray  # int32
    response_ids: np.ndarray  # int32, the trained tokens
    engine_logprobs: np.ndarray  # float32, one a response token
    advantage: float
    entropy_weight: float = 0.0  # of the group

    @property
    def length(self) -> int:
        """Tokens that the policy reads: all but the last, which predicts nothing."""
        return len(self.prompt_ids) + len(self.response_ids) - 1


def train_sequence(
    label: str, prompt: Prompt, sample: Sample, advantage: float = 0.0, entropy_weight: float = 0.0
) -> TrainSequence:
    """One sample as arrays."""
    return TrainSequence(
        label,
        np.asarray(prompt.token_ids, np.int32),
        np.asarray(sample.token_ids, np.int32),
        np.asarray(sample.engine_logprobs, np.float32),
        advantage,
        entropy_weight,
    )


def train_sequences(group: Group) -> list[TrainSequence]:
    """The samples of a group as arrays; samples without a token are left out: nothing to train on."""
    return [
        train_sequence(group.label, group.prompt, scored.sample, advantage, group.entropy_weight)
        for scored, advantage in zip(group.samples, group.advantages, strict=True)
        if scored.sample.token_ids
    ]


@dataclass(frozen=True, slots=True)
class Microbatch:
    """One forward and backward pass of one rank."""

    input_ids_RW: Tensor
    position_ids_RW: Tensor
    loss_positions_L: Tensor  # index into the R * W hidden states: the one that predicts the token
    targets_L: Tensor
    sequences_L: Tensor  # which sequence of the microbatch a token belongs to, from 0
    advantages_L: Tensor
    entropy_weights_L: Tensor
    engine_logprobs_L: Tensor
    loss_mask_L: Tensor  # 1 where trained; 0 only in the stand-in of a rank that has no sequence left
    labels: tuple[str, ...] = ()  # of the sequences
    spans: tuple[tuple[int, int], ...] = ()  # of the sequences, in the R * W positions

    def to(self, device: torch.device) -> "Microbatch":
        tensors = {
            f.name: getattr(self, f.name).to(device) for f in fields(self) if f.name[-2:] in ("_L", "RW")
        }
        return replace(self, **tensors)


@dataclass(frozen=True, slots=True)
class UpdateBatch:
    """The microbatches of one optimizer step on this rank."""

    microbatches: tuple[Microbatch, ...]
    num_loss_tokens: int  # over all ranks: the denominator of the token mean
    num_sequences: int  # over all ranks


def split_updates(
    sequences: Sequence[TrainSequence], num_updates: int, seed: int
) -> list[list[TrainSequence]]:
    """Cut a step into at most `num_updates` parts of whole groups, nearly equal in groups.

    The order of the groups depends on the seed and their labels alone, so it is the same however
    the prompts lay on the ranks.
    """
    groups: dict[str, list[TrainSequence]] = {}
    for sequence in sequences:
        groups.setdefault(sequence.label, []).append(sequence)
    ordered = [groups[label] for label in sorted(groups, key=lambda label: (derive_seed(seed, label), label))]
    parts = min(num_updates, len(groups))
    chunks = np.array_split(np.arange(len(groups)), parts) if parts else []
    return [[s for i in chunk for s in ordered[i]] for chunk in chunks]


def flops(length: int, hidden_size: int) -> float:
    """Cost of a sequence relative to one token without attention: l + l^2 / (6 h).

    A token costs about 24 h^2 multiplications a layer in the linear maps and 4 l h in attention.
    """
    return length + length * length / (6.0 * hidden_size)


def balance(costs: Sequence[float], sizes: Sequence[int], bins: int, capacity: int) -> list[list[int]] | None:
    """Longest first into the cheapest bin that still has room; None where something does not fit.

    Deterministic: ties go to the lower index. An item larger than the capacity travels alone.
    """
    contents: list[list[int]] = [[] for _ in range(bins)]
    size = [0] * bins
    by_cost = [(0.0, b) for b in range(bins)]  # a heap
    for item in sorted(range(len(costs)), key=lambda i: (-costs[i], i)):
        full = []
        while by_cost:
            cost, b = heappop(by_cost)
            if not contents[b] or size[b] + sizes[item] <= capacity:
                break
            full.append((cost, b))
        else:
            return None
        contents[b].append(item)
        size[b] += sizes[item]
        for entry in (*full, (cost + costs[item], b)):
            heappush(by_cost, entry)
    return contents


def partition(
    lengths: Sequence[int], world_size: int, max_tokens: int, row_tokens: int, hidden_size: int
) -> list[list[list[list[int]]]]:
    """Sequence indices by rank, microbatch and row.

    Args:
        lengths: tokens of each sequence.
        max_tokens: bound on R * W of a microbatch; a longer sequence travels alone.
        row_tokens: width of a row. 0: the width that makes the least work, right where attention costs R * W^2
            (sdpa with a mask); max_tokens: one row, right for varlen kernels.
    """
    costs = [flops(length, hidden_size) for length in lengths]
    rows, width = _rows(costs, lengths, row_tokens, max_tokens, hidden_size)
    rows_per_microbatch = max(1, max_tokens // width)
    bins = -(-len(rows) // (world_size * rows_per_microbatch)) * world_size
    row_costs = [sum(costs[i] for i in row) for row in rows]
    # Fewer rows than ranks: spread the sequences themselves, so that no rank stands idle for nothing.
    if len(rows) < bins <= len(lengths):
        rows = balance(costs, lengths, bins, width) or rows
        row_costs = [sum(costs[i] for i in row) for row in rows]
    filled = balance(row_costs, [1] * len(rows), bins, rows_per_microbatch)
    assert filled is not None, "bins were counted to hold all rows"
    order = sorted(range(bins), key=lambda b: (-sum(row_costs[r] for r in filled[b]), b))
    microbatches = [[rows[r] for r in sorted(filled[b])] for b in order]
    return [microbatches[rank::world_size] for rank in range(world_size)]


def _rows(
    costs: Sequence[float], lengths: Sequence[int], row_tokens: int, max_tokens: int, hidden_size: int
) -> tuple[list[list[int]], int]:
    """Sequences in rows alike in cost, and the width of a row.

    Where the width is free, the cheapest one from the longest sequence to four times that: wider rows have less
    padding at their ends, and more attention that the mask throws away.
    """
    longest = max(lengths)
    widths = [longest * quarters // 4 for quarters in (4, 5, 6, 8, 12, 16)]
    widths = [width for width in widths if width <= max(longest, max_tokens)]
    if row_tokens >= longest:
        widths = [row_tokens]
    best: tuple[list[list[int]], int] | None = None
    least = float("inf")
    for width in widths:
        num_rows = max(1, -(-sum(lengths) // width))
        while num_rows * flops(width, hidden_size) < least:
            rows = balance(costs, lengths, num_rows, width)
            if rows is not None:
                best, least = ([row for row in rows if row], width), num_rows * flops(width, hidden_size)
            num_rows += 1 + num_rows // 32  # a few per cent at a time: large batches take few tries
    assert best is not None
    return best


def pack(
    sequences: Sequence[TrainSequence],
    *,
    world_size: int,
    rank: int,
    max_tokens: int,
    row_tokens: int,
    hidden_size: int,
) -> UpdateBatch:
    """The microbatches of this rank for one update over all ranks' sequences."""
    parts = partition([s.length for s in sequences], world_size, max_tokens, row_tokens, hidden_size)
    microbatches = tuple(microbatch([[sequences[i] for i in row] for row in rows]) for rows in parts[rank])
    num_loss_tokens = sum(len(s.response_ids) for s in sequences)
    return UpdateBatch(microbatches, num_loss_tokens, len(sequences))


def microbatch(rows: Sequence[Sequence[TrainSequence]]) -> Microbatch:
    """Rows of sequences that lie back to back, as tensors; padded on the right to the longest row."""
    if not rows:
        return _stand_in()
    width = max(sum(s.length for s in row) for row in rows)
    input_ids = np.zeros((len(rows), width), np.int64)
    # Padding at a row's end is a sequence of its own (positions restart at 0); nothing looks at it.
    position_ids = np.zeros((len(rows), width), np.int64)
    positions, order, spans = [], [], []
    for r, row in enumerate(rows):
        start = 0
        for s in row:
            end, first = start + s.length, start + len(s.prompt_ids)
            input_ids[r, start:first], input_ids[r, first:end] = s.prompt_ids, s.response_ids[:-1]
            position_ids[r, start:end] = np.arange(s.length)
            positions.append(np.arange(first - 1, end) + r * width)
            order.append(s)
            spans.append((r * width + start, r * width + end))
            start = end
        position_ids[r, start:] = np.arange(width - start)
    lengths = [len(s.response_ids) for s in order]

    def each_token(values: Sequence[float]) -> Tensor:
        return torch.from_numpy(np.repeat(np.asarray(values, np.float32), lengths))

    return Microbatch(
        input_ids_RW=torch.from_numpy(input_ids),
        position_ids_RW=torch.from_numpy(position_ids),
        loss_positions_L=torch.from_numpy(np.concatenate(positions)),
        targets_L=torch.from_numpy(np.concatenate([s.response_ids for s in order]).astype(np.int64)),
        sequences_L=torch.from_numpy(np.repeat(np.arange(len(order)), lengths)),
        advantages_L=each_token([s.advantage for s in order]),
        entropy_weights_L=each_token([s.entropy_weight for s in order]),
        engine_logprobs_L=torch.from_numpy(np.concatenate([s.engine_logprobs for s in order])),
        loss_mask_L=torch.ones(sum(lengths)),
        labels=tuple(s.label for s in order),
        spans=tuple(spans),
    )


def _stand_in() -> Microbatch:
    """Two tokens with a zero mask: keeps a rank without sequences in step with the others."""
    zero = torch.zeros(1)
    return Microbatch(
        input_ids_RW=torch.zeros((1, 2), dtype=torch.int64),
        position_ids_RW=torch.arange(2).unsqueeze(0),
        loss_positions_L=torch.zeros(1, dtype=torch.int64),
        targets_L=torch.zeros(1, dtype=torch.int64),
        sequences_L=torch.zeros(1, dtype=torch.int64),
        advantages_L=zero,
        entropy_weights_L=zero,
        engine_logprobs_L=zero,
        loss_mask_L=zero,
    )
