"""The run directory and its metrics."""

import json

import pytest
import yaml
from rich.console import Console

from adarl.advantages import Estimator, global_mean
from adarl.config import Recipe, RecipeError
from adarl.groups import build_group, keep_balanced
from adarl.report import summarise
from adarl.run_folder import choose_folder, differing_keys, dump_samples, open_folder, remove_samples_after
from adarl.tracker import Tracker, read_metrics
from tests.conftest import make_pool


def make_recipe(**run) -> Recipe:
    return Recipe.model_validate(
        {
            "name": "small",
            "run": {"max_steps": 3, **run},
            "model": {"path": "m"},
            "data": {"path": "d", "prompts_per_step": 2},
            "sampling": {"max_response_tokens": 8},
        }
    )


def test_a_new_run_records_its_recipe_and_environment(tmp_path):
    folder = tmp_path / "run"
    open_folder(folder, make_recipe(seed=7))
    assert yaml.safe_load((folder / "recipe.yaml").read_text())["run"]["seed"] == 7
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["seed"] == 7
    assert environment["versions"]["torch"].startswith("2.")


def test_a_different_run_is_never_overwritten(tmp_path):
    open_folder(tmp_path / "run", make_recipe(seed=1))
    with pytest.raises(
        RecipeError, match=r"holds a run with other settings \(run.seed\): set run.dir to a new"
    ):
        open_folder(tmp_path / "run", make_recipe(seed=2))
    assert yaml.safe_load((tmp_path / "run" / "recipe.yaml").read_text())["run"]["seed"] == 1


def test_the_same_run_may_go_on_longer_but_not_start_anew(tmp_path):
    open_folder(tmp_path / "run", make_recipe())
    open_folder(tmp_path / "run", make_recipe(max_steps=9))
    with pytest.raises(RecipeError, match="holds this run already"):
        open_folder(tmp_path / "run", make_recipe(resume="never"))


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(RecipeError, match="is not a run directory"):
        open_folder(tmp_path, make_recipe())


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RecipeError, match=r"file/run cannot be made \(Not a directory\): set run.dir"):
        open_folder(tmp_path / "file" / "run", make_recipe())


def test_differing_keys_are_dotted():
    assert differing_keys({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}, "d": 4}) == ["a.c", "d"]


def test_the_default_folder_carries_the_recipes_name():
    assert str(choose_folder(make_recipe())).startswith("runs/small-20")
    assert str(choose_folder(make_recipe(dir="elsewhere"))) == "elsewhere"


def test_a_resumed_tracker_keeps_the_lines_up_to_its_checkpoint(tmp_path):
    lines = [json.dumps({"step": s, "x": s}) + "\n" for s in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines) + '{"step": 4, "x"')
    tracker = Tracker(tmp_path, make_recipe(), last_step=2, console=Console(quiet=True))
    tracker.log(3, {"x": 30.0})
    tracker.close()
    assert [(r["step"], r["x"]) for r in read_metrics(tmp_path)] == [(1, 1), (2, 2), (3, 30.0)]


def test_a_run_that_starts_anew_keeps_no_line(tmp_path):
    (tmp_path / "validation.jsonl").write_text('{"step": 0, "x": 1}\n')  # killed before its first checkpoint
    Tracker(tmp_path, make_recipe(), last_step=0, console=Console(quiet=True)).close()
    assert read_metrics(tmp_path, "validation.jsonl") == []


def test_wandb_offline_needs_no_key(tmp_path):
    recipe = Recipe.model_validate({**make_recipe().model_dump(), "tracking": {"wandb": "offline"}})
    tracker = Tracker(tmp_path, recipe, 0, Console(quiet=True))
    tracker.log(1, {"x": 1.0})
    tracker.close()
    identity = (tmp_path / "wandb-run-id").read_text().strip()
    assert len(list(tmp_path.glob(f"wandb/offline-run-*-{identity}"))) == 1
    Tracker(tmp_path, recipe, 1, Console(quiet=True)).close()  # resumed
    assert (tmp_path / "wandb-run-id").read_text().strip() == identity


def test_every_sample_is_dumped_with_its_advantage(tmp_path):
    pool = make_pool("+-----", id="q")
    group = build_group(pool, keep_balanced(4), Estimator(global_mean), seed=0)
    dump_samples(tmp_path, 2, 1, [pool], [group])
    rows = [
        json.loads(line)
        for line in (tmp_path / "samples" / "step-000002.rank-1.jsonl").read_text().splitlines()
    ]
    assert [r["index"] for r in rows] == [0, 1, 2, 3, 4, 5]
    assert (rows[0]["prompt_id"], rows[0]["verdict"], rows[0]["round"]) == ("q", "correct", 0)
    assert rows[0]["advantage"] == pytest.approx(5 / 6)
    assert sum(r["advantage"] is not None for r in rows) == 4


def test_samples_of_steps_that_are_taken_anew_are_removed(tmp_path):
    (tmp_path / "samples").mkdir()
    for name in ("step-000002.rank-0.jsonl", "step-000003.rank-0.jsonl", "step-000003.rank-1.jsonl"):
        (tmp_path / "samples" / name).touch()
    remove_samples_after(tmp_path, 2)
    assert [p.name for p in (tmp_path / "samples").iterdir()] == ["step-000002.rank-0.jsonl"]


def test_the_summary_says_what_the_reward_did(tmp_path):
    rows = [
        {"step": s, "reward/first_round": s / 20, "sampling/samples": 10, "time/step": 0.5}
        for s in range(1, 21)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    text = summarise(tmp_path, 12.0)
    assert "0.275 (first 10 steps) -> 0.775 (last 10 of 20 steps), 200 samples" in text
    assert "12 s in all, 0.50 s a step" in text
