import json
from dataclasses import replace

import pytest

from adarl.errors import UserError
from adarl.types import Verdict
from data_prep import pass_rate as stage
from eval.job import Job, run_job
from eval.models import LoadedModel
from eval.shards import Shard
from tests.eval_fakes import problem_task, result
from tests.test_eval_models import Characters

RECIPE = """
run: {max_steps: 1, seed: 5}
model: {path: o/m}
data: {path: PATH, prompts_per_step: 64, max_prompt_tokens: 12, prompt_suffix: "?"}
sampling: {max_response_tokens: 20}
"""


def job(tasks):
    return Job("m", "path", None, {"dtype": "float32"}, {"workers": 1}, 30, 20, 1.0, 2, True, tasks)


def row(verdict):
    return {"verdict": verdict, "answer": "1", "num_tokens": 3, "truncated": False, "token_digest": "d"}


def test_a_job_reads_back_as_it_was_written(tmp_path):
    written = job([problem_task("x", "1", seed=2**62)])
    written.write(tmp_path / "job.json")
    assert Job.read(tmp_path / "job.json") == written


def test_what_all_ranks_have_finished_starts_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr("eval.job.subprocess.Popen", None)
    work = job([problem_task("x", "1"), problem_task("y", "1")])
    assert work.keys == ["b/x#0", "b/x#1", "b/y#0", "b/y#1"]
    for rank, keys in enumerate([work.keys[3:], work.keys[:3]]):
        with Shard(tmp_path / "shards", rank) as shard:
            for key in keys:
                shard.append({"key": key, **row("correct" if "x" in key else "timeout")})
    problems = run_job(work, tmp_path, num_devices=1)
    assert [(p.id, p.num_correct) for p in problems] == [("x", 2), ("y", 0)]
    assert problems[1].samples[0].verdict is Verdict.TIMEOUT
    monkeypatch.setenv("RANK", "1")
    assert run_job(work, tmp_path, num_devices=1) is None


def test_a_rank_that_fails_is_a_sentence_and_ends_the_others(tmp_path):
    broken = replace(job([problem_task("x", "1")]), verifier={"workers": 0})
    with pytest.raises(UserError, match="run the same command again"):
        run_job(broken, tmp_path, num_devices=1)
    assert not list(tmp_path.glob(".job*"))


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    rows = [
        {"id": "a", "problem": "1+1", "answer": "2"},
        {"id": "b", "problem": "a problem of many words", "answer": "2"},
        {"id": "c", "problem": "2+2", "answer": "4"},
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "r.yaml").write_text(RECIPE.replace("PATH", str(tmp_path / "data.jsonl")))
    monkeypatch.setattr(stage, "load_tokenizer", lambda model, revision: LoadedModel(Characters(), 22))
    return tmp_path / "r.yaml"


def test_pass_rates_use_the_recipe_s_prompts_lengths_and_seed(tmp_path, monkeypatch, recipe):
    seen = []

    def fake_run_job(work, folder, num_devices):
        seen.append(work)
        return [result(t.prompt.id, [t.prompt.answer, "7"], gold=t.prompt.answer) for t in work.tasks]

    monkeypatch.setattr(stage, "run_job", fake_run_job)
    stage.pass_rate(str(recipe), [], out=tmp_path / "out", k=2, num_devices=1)
    (work,) = seen
    assert ["".join(map(chr, t.prompt.token_ids)) for t in work.tasks] == ["1+1?", "2+2?"]
    assert (work.max_new_tokens, work.max_sequence, work.k, work.keep_texts) == (20, 22, 2, False)
    lines = [json.loads(line) for line in open(tmp_path / "out" / "pass_rates.jsonl")]
    assert [(line["id"], line["num_correct"], line["num_samples"]) for line in lines] == [
        ("a", 1, 2),
        ("c", 1, 2),
    ]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["mean_pass_rate"], summary["seed"], summary["k"]) == (0.5, 5, 2)
    assert summary["left_out"] == ["1 prompts are longer than data.max_prompt_tokens = 12"]

    with pytest.raises(UserError, match="k is 2 there, 3 now"):
        stage.pass_rate(str(recipe), [], out=tmp_path / "out", k=3, num_devices=1)
