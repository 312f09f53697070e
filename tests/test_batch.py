"""Packing: nothing lost, nothing doubled, the same number of microbatches everywhere."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from adarl.batch import TrainSequence, balance, flops, pack, partition, split_updates, train_sequences
from adarl.types import Group
from tests.conftest import make_prompt, scored


def sequence(prompt: int, response: int, group: int = 0, advantage: float = 1.0) -> TrainSequence:
    ids = np.arange(prompt + response, dtype=np.int32) + 10 * group
    return TrainSequence(
        f"g{group}", ids[:prompt], ids[prompt:], np.full(response, -0.5, np.float32), advantage
    )


def test_two_sequences_in_one_row():
    batch = pack([sequence(2, 3), sequence(1, 2, group=1, advantage=-0.5)], world_size=1, rank=0, max_tokens=8,
                 row_tokens=8, hidden_size=64)  # fmt: skip
    (m,) = batch.microbatches
    assert m.input_ids_RW.tolist() == [[0, 1, 2, 3, 10, 11]]  # without the last tokens, which predict nothing
    assert m.position_ids_RW.tolist() == [[0, 1, 2, 3, 0, 1]]
    assert m.loss_positions_L.tolist() == [1, 2, 3, 4, 5]  # each is the position before its token
    assert m.targets_L.tolist() == [2, 3, 4, 11, 12]
    assert m.advantages_L.tolist() == [1.0, 1.0, 1.0, -0.5, -0.5]
    assert m.loss_mask_L.tolist() == [1.0] * 5
    assert (batch.num_loss_tokens, batch.num_sequences) == (5, 2)


def test_padding_is_a_sequence_of_its_own():
    batch = pack(
        [sequence(2, 4), sequence(1, 2)], world_size=1, rank=0, max_tokens=10, row_tokens=5, hidden_size=64
    )
    (m,) = batch.microbatches
    assert m.input_ids_RW.tolist() == [[0, 1, 2, 3, 4], [0, 1, 0, 0, 0]]
    assert m.position_ids_RW.tolist() == [[0, 1, 2, 3, 4], [0, 1, 0, 1, 2]]


@pytest.mark.parametrize(("hidden_size", "shape"), [(1000, (5, 12)), (1, (9, 8))])
def test_rows_are_as_wide_as_makes_the_least_work(hidden_size, shape):
    """Eight sequences of 6 and one of 8: nine rows of 8 are 72 positions, five of 12 are 60, with more attention."""
    sequences = [sequence(3, 4, group=g) for g in range(8)] + [sequence(3, 6)]
    batch = pack(sequences, world_size=1, rank=0, max_tokens=1000, row_tokens=0, hidden_size=hidden_size)
    assert batch.microbatches[0].input_ids_RW.shape == shape


def test_a_rank_without_sequences_gets_a_masked_stand_in():
    batches = [
        pack([sequence(2, 2)], world_size=2, rank=r, max_tokens=9, row_tokens=0, hidden_size=64)
        for r in (0, 1)
    ]
    assert [len(b.microbatches) for b in batches] == [1, 1]
    assert [b.microbatches[0].loss_mask_L.sum().item() for b in batches] == [2.0, 0.0]
    assert [b.num_loss_tokens for b in batches] == [2, 2]


def test_an_oversized_sequence_travels_alone():
    parts = partition([50, 3, 4], world_size=1, max_tokens=10, row_tokens=0, hidden_size=64)
    assert [[0]] in parts[0] or all(
        [0] in microbatch for microbatch in parts[0] if any(0 in r for r in microbatch)
    )
    assert sorted(i for microbatch in parts[0] for row in microbatch for i in row) == [0, 1, 2]


def test_updates_hold_whole_groups_in_order():
    sequences = [sequence(1, 1, group=g) for g in (3, 0, 3, 5, 0, 7)]
    parts = split_updates(sequences, 2, seed=0)
    ids = [[s.label for s in part] for part in parts]
    assert [len(set(part)) for part in ids] == [2, 2]
    assert sorted(ids[0] + ids[1]) == ["g0", "g0", "g3", "g3", "g5", "g7"]
    assert not set(ids[0]) & set(ids[1])
    assert split_updates([], 4, seed=0) == []
    assert len(split_updates(sequences, 16, seed=0)) == 4


def test_the_order_of_groups_does_not_depend_on_how_ranks_hold_them():
    sequences = [sequence(1, 1, group=g) for g in range(8)]
    interleaved = sequences[0::2] + sequences[1::2]
    orders = [
        [s.label for part in split_updates(x, 3, seed=4) for s in part] for x in (sequences, interleaved)
    ]
    assert orders[0] == orders[1]
    assert orders[0] != [s.label for part in split_updates(sequences, 3, seed=5) for s in part]


def test_samples_without_tokens_are_not_trained_on():
    group = Group(make_prompt(), (scored(True, 0), scored(False, 1, num_tokens=0)), (0.5, -0.5), 0.5)
    assert [s.advantage for s in train_sequences(group)] == [0.5]


@settings(max_examples=150, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=80),
    world_size=st.integers(1, 5),
    max_tokens=st.integers(20, 900),
    one_row=st.booleans(),
)
def test_no_sequence_is_lost_or_doubled(lengths, world_size, max_tokens, one_row):
    parts = partition(lengths, world_size, max_tokens, max_tokens if one_row else 0, hidden_size=64)
    assert len(parts) == world_size
    assert len({len(microbatches) for microbatches in parts}) == 1
    assert sorted(i for p in parts for m in p for row in m for i in row) == list(range(len(lengths)))
    for microbatch in (m for p in parts for m in p if m):
        width = max(sum(lengths[i] for i in row) for row in microbatch)
        alone = sum(map(len, microbatch)) == 1
        assert width * len(microbatch) <= max(max_tokens, max(lengths)) or alone


def test_ranks_are_balanced_on_realistic_lengths():
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.lognormal(6.3, 0.6, 2048).astype(int), 20, 4096).tolist()
    parts = partition(lengths, world_size=8, max_tokens=16384, row_tokens=16384, hidden_size=3584)
    loads = [sum(flops(lengths[i], 3584) for m in p for row in m for i in row) for p in parts]
    assert max(loads) / (sum(loads) / 8) < 1.05


def test_balance_is_longest_first_and_says_when_it_does_not_fit():
    assert balance([5, 4, 3, 3], [5, 4, 3, 3], bins=2, capacity=8) == [[0, 3], [1, 2]]
    assert balance([5, 5, 5], [5, 5, 5], bins=2, capacity=8) is None


def test_the_cost_of_a_sequence_grows_with_its_square():
    assert flops(600, hidden_size=100) == pytest.approx(1200.0)


def test_tensors_have_the_types_that_the_policy_wants():
    (m,) = pack(
        [sequence(2, 2)], world_size=1, rank=0, max_tokens=9, row_tokens=0, hidden_size=64
    ).microbatches
    assert (m.input_ids_RW.dtype, m.targets_L.dtype) == (torch.int64, torch.int64)
    assert (m.advantages_L.dtype, m.engine_logprobs_L.dtype) == (torch.float32, torch.float32)
