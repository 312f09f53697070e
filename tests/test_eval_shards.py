import json
import os

import pytest

from adarl.errors import UserError
from eval.files import open_folder, write_whole
from eval.shards import Shard, finished_rows, wait_for_rows


def test_what_was_appended_is_found_again(tmp_path):
    with Shard(tmp_path / "s", 0) as shard:
        shard.append({"key": "a", "text": "é\n1"})
        shard.append({"key": "b"})
        assert finished_rows(tmp_path / "s") == {"a": {"key": "a", "text": "é\n1"}, "b": {"key": "b"}}
    assert finished_rows(tmp_path / "none") == {}


def test_a_half_written_last_line_is_made_again(tmp_path):
    with Shard(tmp_path, 0) as shard:
        shard.append({"key": "a"})
        shard.append({"key": "b", "text": "x" * 3_000_000})
    path = tmp_path / "rank-0.jsonl"
    os.truncate(path, path.stat().st_size - 10)
    assert list(finished_rows(tmp_path)) == ["a"]
    with Shard(tmp_path, 0) as shard:
        shard.append({"key": "b"})
    assert path.read_text() == '{"key": "a"}\n{"key": "b"}\n'


def test_a_file_that_is_half_a_line_starts_anew(tmp_path):
    (tmp_path / "rank-0.jsonl").write_text('{"key": "a')
    assert finished_rows(tmp_path) == {}
    with Shard(tmp_path, 0) as shard:
        shard.append({"key": "b"})
    assert (tmp_path / "rank-0.jsonl").read_text() == '{"key": "b"}\n'


def test_rows_of_another_number_of_ranks_count(tmp_path):
    for rank, key in enumerate(["a", "b", "c"]):
        with Shard(tmp_path, rank) as shard:
            shard.append({"key": key})
    assert list(wait_for_rows(tmp_path, ["c", "a"])) == ["a", "b", "c"]


def test_two_processes_never_write_one_shard(tmp_path):
    with Shard(tmp_path, 0), pytest.raises(UserError, match="another process is writing there"):
        Shard(tmp_path, 0)
    Shard(tmp_path, 0)


def test_a_damaged_line_is_named(tmp_path):
    (tmp_path / "rank-1.jsonl").write_text('{"key": "a"}\nrubbish\n')
    with pytest.raises(UserError, match="rank-1.jsonl, line 2: damaged"):
        finished_rows(tmp_path)


def test_a_folder_takes_one_configuration(tmp_path):
    folder = tmp_path / "out"
    open_folder(folder, {"k": 4, "examples": ()})
    open_folder(folder, {"k": 4, "examples": ()})
    with pytest.raises(UserError, match="k is 4 there, 8 now. Give another folder"):
        open_folder(folder, {"k": 8, "examples": ()})
    with pytest.raises(UserError, match="limit is null there, 5 now"):
        open_folder(folder, {"k": 4, "examples": (), "limit": 5})
    assert json.loads((folder / "config.json").read_text()) == {"k": 4, "examples": []}


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="exists and holds no results"):
        open_folder(tmp_path, {"k": 4})
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_is_whole_or_absent(tmp_path):
    write_whole(tmp_path / "a", "text")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "text")]
