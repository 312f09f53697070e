import json

import pytest

from adarl.errors import UserError
from eval.benchmarks import CATALOGUE, PAPER, listed, load_sets, read_catalogue

FOUR_LINES = """benchmarks:
  x:
    local: {file: x.jsonl, count: 3}
    licence: ours
  y:
    local: {file: y.jsonl, count: 2, columns: {problem: question, answer: a.b}}
    licence: ours
groups:
  both: [x, y]
"""


@pytest.fixture
def catalogue(tmp_path):
    (tmp_path / "benchmarks.yaml").write_text(FOUR_LINES)
    write(tmp_path / "x.jsonl", [{"id": f"x{i}", "problem": f"p{i}", "answer": i} for i in range(3)])
    write(tmp_path / "y.jsonl", [{"question": f"q{i}", "a": {"b": str(i)}} for i in range(2)])
    return read_catalogue(tmp_path / "benchmarks.yaml")


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_paper_s_benchmarks_have_their_numbers_of_problems(shared_data):
    catalogue = read_catalogue()
    counts = {}
    for name in PAPER:
        sets = load_sets(listed([name], catalogue), catalogue, shared_data / "eval", None)
        counts[name] = sum(len(s.problems) for s in sets)
    assert counts == {"math500": 500, "minerva_math": 272, "olympiadbench": 674, "aime_like": 230}


def test_a_limit_takes_the_first_and_goes_round_a_group(shared_data):
    catalogue = read_catalogue()
    sets = load_sets(listed(["math500", "aime_like"], catalogue), catalogue, shared_data / "eval", 20)
    assert {s.benchmark: len(s.problems) for s in sets} == {
        "math500": 20,
        "aime24": 3,
        "aime25": 3,
        "hmmt24": 3,
        "hmmt25": 3,
        "brumo25": 3,
        "amc23": 3,
        "cmimc25": 2,
    }
    assert sets[0].problems[0].id == "math500-000"
    assert sets[0].whole_count == 500


def test_columns_may_be_called_otherwise_and_ids_be_row_numbers(tmp_path, catalogue):
    (y,) = load_sets(listed(["y"], catalogue), catalogue, tmp_path, None)
    assert [(p.id, p.problem, p.answer) for p in y.problems] == [("0", "q0", "0"), ("1", "q1", "1")]


def test_other_problems_have_another_digest(tmp_path, catalogue):
    (before,) = load_sets(listed(["y"], catalogue), catalogue, tmp_path, None)
    write(tmp_path / "y.jsonl", [{"question": "q0", "a": {"b": "0"}}, {"question": "q1", "a": {"b": "2"}}])
    (after,) = load_sets(listed(["y"], catalogue), catalogue, tmp_path, None)
    assert before.digest != after.digest


def test_an_unknown_benchmark_is_named_with_the_known_ones(catalogue):
    with pytest.raises(UserError, match="unknown benchmark 'z'; there are x, y, both"):
        listed(["x", "z"], catalogue)
    with pytest.raises(UserError, match="no benchmark named"):
        listed([], catalogue)


def test_a_wrong_count_is_an_error(tmp_path, catalogue):
    write(tmp_path / "x.jsonl", [{"problem": "p", "answer": "1"}])
    with pytest.raises(UserError, match="x.jsonl holds 1 problems, but 3 are declared"):
        load_sets(listed(["x"], catalogue), catalogue, tmp_path, None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"problem": "p"}, "no column 'answer'; there are problem"),
        ({"problem": " ", "answer": "1"}, "the problem or its answer is empty"),
        ({"id": "x0", "problem": "p", "answer": "1"}, "id 'x0' is there twice"),
    ],
)
def test_a_bad_row_is_named(tmp_path, catalogue, row, message):
    write(tmp_path / "x.jsonl", [{"id": "x0", "problem": "p", "answer": "1"}, row])
    with pytest.raises(UserError, match=f"benchmark x .*, row 1: {message}"):
        load_sets(listed(["x"], catalogue), catalogue, tmp_path, None)


def test_a_missing_file_or_folder_is_a_sentence(tmp_path, catalogue):
    (tmp_path / "x.jsonl").unlink()
    with pytest.raises(UserError, match="benchmark x needs x.jsonl there; the folder holds y.jsonl"):
        load_sets(listed(["x"], catalogue), catalogue, tmp_path, None)
    with pytest.raises(UserError, match="there is no such folder"):
        load_sets(listed(["x"], catalogue), catalogue, tmp_path / "nowhere", None)
    with pytest.raises(UserError, match="benchmark x is not on the hub; give DATA_DIR"):
        load_sets(listed(["x"], catalogue), catalogue, None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("benchmarks: {x: {licens: a}}", "benchmarks.x.licence: Field required"),
        ("benchmarks: {}\ngroups: {g: [x]}", "group g names x, which is no benchmark"),
        ("benchmarks: [", "not readable as YAML"),
    ],
)
def test_a_broken_file_of_benchmarks_is_a_sentence(tmp_path, text, message):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        read_catalogue(tmp_path / "bad.yaml")


def test_a_benchmark_takes_four_lines():
    lines = CATALOGUE.read_text().split("  math500:")[1].split("  minerva_math:")[0].splitlines()
    assert len([line for line in lines if line.strip()]) == 3  # and its name
