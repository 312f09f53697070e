"""Checkpoints are whole or not there, on every rank alike."""

import json
import shutil

import pytest

from adarl import checkpoint, manifest
from adarl.checkpoint import CheckpointError, RunState
from adarl.draws import OneRank
from adarl.saves import best_steps
from adarl.together import Place, RankError, find_place
from tests.ranks import on_ranks

ONE = Place()


def fill(folder):
    (folder / "shards").mkdir()
    (folder / "shards" / "weights").write_bytes(b"w" * 1000)


def save(run, step, keep_last=2, **state):
    return checkpoint.save(run, OneRank(), ONE, RunState(step=step, **state), fill, keep_last=keep_last)


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)


def newest(run, said=None):
    found = checkpoint.newest_whole(run, OneRank(), ONE, (said if said is not None else []).append)
    return found and found[0].name


def test_checkpoints_are_pruned_and_found_in_order(tmp_path):
    for step in (1, 2, 3):
        save(tmp_path, step, data_position=8 * step)
    assert [p.name for p in checkpoint.find(tmp_path)] == ["step-000002", "step-000003"]
    assert checkpoint.load_state(checkpoint.find(tmp_path)[-1]).data_position == 24


def test_the_manifest_lists_every_file_with_its_size_and_a_checksum(tmp_path):
    listed = json.loads((save(tmp_path, 1) / "manifest.json").read_text())["files"]
    assert sorted(listed) == ["shards/weights", "state.json"]
    # as `xxhsum -H2` says it
    assert listed["shards/weights"] == {"bytes": 1000, "xxh3_128": "aec7cf595ec38a7e4ac08ee5da1c44c7"}


def test_a_flipped_bit_is_found_and_named_and_the_one_before_is_taken(tmp_path):
    save(tmp_path, 1)
    flip_a_bit(save(tmp_path, 2) / "shards" / "weights")
    said = []
    assert newest(tmp_path, said) == "step-000001"
    assert "step-000002 is damaged (shards/weights has the right size but another checksum)" in said[0]


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (lambda p: (p / "shards" / "weights").write_bytes(b"w" * 999), "has 999 bytes instead of 1000"),
        (lambda p: (p / "shards" / "weights").unlink(), "shards/weights cannot be read"),
        (lambda p: (p / "manifest.json").write_text("{"), "manifest.json is missing or damaged"),
    ],
)
def test_a_damaged_checkpoint_that_the_user_names_is_an_error(tmp_path, harm, sentence):
    path = save(tmp_path, 1)
    harm(path)
    with pytest.raises(CheckpointError, match=sentence) as caught:
        checkpoint.given(path, OneRank(), ONE)
    assert f"run.resume = {path}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("gone", "there is no such folder"), ("", "was never finished, or is no checkpoint")],
)
def test_what_is_no_checkpoint_is_refused_before_a_run_directory_is_made(tmp_path, name, sentence):
    with pytest.raises(CheckpointError, match=sentence):
        checkpoint.check_given(str(tmp_path / name))
    checkpoint.check_given("auto")
    checkpoint.check_given("never")


def test_an_unfinished_checkpoint_is_no_checkpoint(tmp_path):
    path = save(tmp_path, 1)
    (path / "manifest.json").unlink()
    assert newest(tmp_path) is None
    with pytest.raises(CheckpointError, match="was never finished"):
        checkpoint.given(path, OneRank(), ONE)


def test_a_run_whose_checkpoints_are_all_damaged_does_not_start_anew_by_itself(tmp_path):
    flip_a_bit(save(tmp_path, 1) / "shards" / "weights")
    with pytest.raises(CheckpointError, match="has no other checkpoint: start anew in another run.dir"):
        newest(tmp_path)


def test_leftovers_of_a_killed_save_are_removed(tmp_path):
    save(tmp_path, 1)
    leftover = tmp_path / "checkpoints" / ".step-000002.tmp"
    leftover.mkdir()
    (leftover / "half").write_text("x")
    checkpoint.clean(tmp_path, ONE)
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-000001"]


def test_a_checkpoint_can_be_written_again(tmp_path):
    save(tmp_path, 1, data_position=1)
    save(tmp_path, 1, data_position=2)
    (found,) = checkpoint.find(tmp_path)
    assert checkpoint.load_state(found).data_position == 2
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-000001"]


def test_checkpoints_of_another_future_are_set_aside(tmp_path):
    for step in (2, 4, 6):
        save(tmp_path, step, keep_last=9)
    aside = checkpoint.set_aside_newer(tmp_path, 2)
    assert sorted(p.name for p in aside) == ["step-000004.set-aside", "step-000006.set-aside"]
    assert newest(tmp_path) == "step-000002"


def test_spared_checkpoints_stay_beside_the_newest(tmp_path):
    for step in (1, 2, 3):
        checkpoint.save(
            tmp_path, OneRank(), ONE, RunState(step=step), fill,
            spared=lambda p: checkpoint.step_of(p) == 1, keep_last=1,
        )  # fmt: skip
    assert [p.name for p in checkpoint.find(tmp_path)] == ["step-000001", "step-000003"]


def test_of_equal_scores_the_earlier_is_better():
    assert best_steps({20: 0.5, 40: 0.7, 60: 0.7, 80: 0.6}, 2) == [40, 60]
    assert best_steps({20: 0.5}, 3) == [20]


def test_a_rank_that_cannot_write_fails_the_save_on_all_and_the_old_one_stays(tmp_path):
    save(tmp_path, 1)

    def work(ranks):
        def fill_here(folder):
            (folder / f"shard-{ranks.rank}").write_text("x")
            if ranks.rank == 1:
                raise OSError(28, "No space left on device")

        place = Place(0, ranks.rank, 2)
        checkpoint.save(tmp_path, ranks, place, RunState(step=2), fill_here)

    outcomes = on_ranks(2, work)
    assert [type(o) for o in outcomes] == [RankError, RankError]
    assert str(outcomes[0]) == str(outcomes[1]) == "rank 1: [Errno 28] No space left on device"
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["step-000001"]


def save_on_two_nodes(tmp_path, steps):
    """Each rank has a run directory of its own, as on nodes without a shared disk."""

    def work(ranks):
        folder = tmp_path / f"node-{ranks.rank}"
        folder.mkdir(exist_ok=True)
        place = find_place(folder, ranks)
        for step in steps:
            checkpoint.save(
                folder, ranks, place, RunState(step=step),
                lambda p: (p / f"shard-{ranks.rank}").write_text("x"), keep_last=2,
            )  # fmt: skip
        return place

    return on_ranks(2, work)


def test_nodes_without_a_shared_disk_keep_their_own_shards(tmp_path):
    assert save_on_two_nodes(tmp_path, [1]) == [Place(0, 0, 1, False), Place(1, 0, 1, False)]
    for rank in (0, 1):
        (found,) = checkpoint.find(tmp_path / f"node-{rank}")
        assert sorted(p.name for p in found.iterdir()) == ["manifest.json", f"shard-{rank}", "state.json"]


def test_a_checkpoint_counts_when_every_node_has_it(tmp_path):
    save_on_two_nodes(tmp_path, [1, 2])
    shutil.rmtree(tmp_path / "node-1" / "checkpoints" / "step-000002")  # killed before its rename

    def work(ranks):
        folder = tmp_path / f"node-{ranks.rank}"
        found = checkpoint.newest_whole(folder, ranks, find_place(folder, ranks), lambda line: None)
        return found[1].step

    assert on_ranks(2, work) == [1, 1]


def test_ranks_on_a_shared_disk_share_the_checksums(tmp_path):
    def work(ranks):
        place = find_place(tmp_path, ranks)
        return place, list(place.share(["a", "b", "c"]))

    assert on_ranks(2, work) == [(Place(0, 0, 2), ["a", "c"]), (Place(0, 1, 2), ["b"])]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_counts_as_whole_once_its_manifest_is_there(tmp_path):
    (tmp_path / "file").write_text("x")
    assert not manifest.is_closed(tmp_path)
    manifest.close(tmp_path, manifest.entries(tmp_path, manifest.files(tmp_path)))
    assert manifest.problem(tmp_path) is None
