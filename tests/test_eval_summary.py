import json

import pytest

from adarl.errors import UserError
from eval.benchmarks import Listed
from eval.compare import compare
from eval.report import make_results, markdown, read_results, write_results
from eval.summary import summarise, table_rows
from eval.table import find_results, our_cells, read_paper, repeats, settings_of
from tests.eval_fakes import result

CONFIG = {
    "k": 2,
    "temperature": 1.0,
    "benchmarks": {
        "a": {"source": "a.jsonl", "problems": 2, "of": 5, "digest": "x"},
        "b": {"source": "b.jsonl", "problems": 1, "of": 1, "digest": "y"},
    },
}


def problems():
    return [
        result("1", ["4", "5"], benchmark="a"),
        result("2", ["4", "4"], benchmark="a"),
        result("1", ["", "7"], benchmark="b"),
    ]


def test_a_row_by_hand():
    row = summarise(problems(), "all")
    assert (row.num_problems, row.k) == (3, 2)
    assert row.avg_at_k == pytest.approx(0.5)  # (1/2 + 1 + 0) / 3
    assert row.standard_error == pytest.approx(0.5 / 3**0.5)
    assert row.pass_at_k == pytest.approx({1: 0.5, 2: 2 / 3})
    assert row.maj_at_k == pytest.approx(2 / 3)  # the tie of problem 1 goes to its first answer, 4
    assert row.mean_tokens == 15
    assert row.truncated_share == pytest.approx(1 / 6)
    assert row.verdicts == {
        "correct": 3,
        "incorrect": 2,
        "unparsable": 0,
        "no_answer": 1,
        "timeout": 0,
        "error": 0,
    }


def test_the_average_is_weighted_by_number_of_problems():
    rows = table_rows(problems(), [Listed("a", ("a",)), Listed("b", ("b",))])
    assert [r.name for r in rows] == ["a", "b", "average"]
    assert [r.avg_at_k for r in rows] == pytest.approx([0.75, 0.0, (2 * 0.75 + 1 * 0.0) / 3])


def test_a_group_has_a_row_and_its_members_have_one_each():
    rows = table_rows(problems(), [Listed("both", ("a", "b"))])
    assert [(r.name, r.is_member, r.num_problems) for r in rows] == [
        ("both", False, 3),
        ("a", True, 2),
        ("b", True, 1),
        ("average", False, 3),
    ]


def results(problems=problems, model="m", recipe=None):
    rows = table_rows(problems(), [Listed("a", ("a",)), Listed("b", ("b",))])
    return make_results(model, CONFIG, recipe or {}, rows, problems())


def test_results_read_back_as_they_were_written(tmp_path):
    write_results(tmp_path, results(), problems())
    assert read_results(tmp_path) == results()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "pass_at_k.png",
        "results.json",
        "results.md",
        "samples.parquet",
    ]
    assert "| a | 2 | 75.0 | 25.0 |" in markdown(results())
    assert "Note: not all problems: a 2 of 5, b 1 of 1." in markdown(results())


def test_every_sample_can_be_read_again(tmp_path):
    import datasets

    write_results(tmp_path, results(), problems())
    rows = datasets.load_dataset(
        "parquet",
        data_files=str(tmp_path / "samples.parquet"),
        split="train",
        cache_dir=str(tmp_path / "cache"),
    )
    assert len(rows) == 6
    first = {key: rows[0][key] for key in ("benchmark", "id", "sample", "verdict", "gold", "answer")}
    assert first == {
        "benchmark": "a",
        "id": "1",
        "sample": 0,
        "verdict": "correct",
        "gold": "4",
        "answer": "4",
    }


def test_two_evaluations_are_compared_problem_by_problem():
    def better():
        return [result("1", ["4", "4"], benchmark="a"), *problems()[1:]]

    rows = compare(results(), results(better))
    assert [(r.name, r.num_problems) for r in rows] == [("a", 2), ("b", 1), ("average", 3)]
    assert rows[0].difference == pytest.approx(0.25)  # differences 0.5 and 0
    assert rows[0].standard_error == pytest.approx(0.25)
    assert rows[2].difference == pytest.approx(1 / 6)


def test_other_problems_cannot_be_compared():
    other = json.loads(json.dumps(CONFIG))
    other["benchmarks"]["a"]["digest"] = "z"
    rows = table_rows(problems(), [Listed("a", ("a",))])
    with pytest.raises(UserError, match="^a: the two were evaluated on different problems"):
        compare(results(), make_results("n", other, {}, rows, problems()))


def test_a_folder_without_results_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="holds no results of an evaluation"):
        read_results(tmp_path)


def test_the_paper_s_averages_follow_from_its_columns():
    columns, rows = read_paper()
    assert columns == ["math500", "minerva_math", "olympiadbench", "aime_like", "average"]
    assert len(rows) == 20
    counts = (500, 272, 675, 230)
    for row in rows:
        weighted = sum(n * v for n, v in zip(counts, row.values[:4], strict=True)) / 1677
        # Not all of the printed averages are: 44.6 stands where 44.3 follows. A slip of the pen would be more.
        assert weighted == pytest.approx(row.values[4], abs=0.31), row


def test_a_run_is_found_in_the_paper_by_its_recipe():
    recipe = {
        "model": {"path": "Qwen/Qwen2.5-Math-1.5B"},
        "data": {"path": "RLHFlow/reinforce_ada_hard_prompt_1-5b"},
        "sampling": {"strategy": "balanced", "group_size": 4},
    }
    ours = settings_of(results(recipe=recipe).training)
    matching = [row for row in read_paper()[1] if repeats(ours, row.settings)]
    assert [(row.algorithm, row.values[4]) for row in matching] == [("Reinforce-Ada-balance", 45.5)]
    assert settings_of({}) is None


def test_what_was_evaluated_in_part_says_so_and_has_no_average():
    assert our_cells(results(), ["a", "c", "average"]) == ["75.0 (of 2)", "", ""]
    assert our_cells(results(), ["a", "b", "average"]) == ["75.0 (of 2)", "0.0 (of 1)", "50.0 (of 3)"]


def test_all_results_below_a_folder_are_found(tmp_path):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        write_results(tmp_path / name, results(model=name), problems())
    assert [r.model for r in find_results(tmp_path)] == ["x", "y"]
