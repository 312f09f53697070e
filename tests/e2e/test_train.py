"""`adarl train` on the real stack: vLLM, DeepSpeed ZeRO-3 and the verifier on CPU."""

import json

import pytest

from tests.e2e import runs


def test_a_run_leaves_everything_behind(whole_run):
    names = {p.name for p in whole_run.iterdir()}
    assert {"recipe.yaml", "environment.json", "metrics.jsonl", "samples", "checkpoints", "model"} <= names
    assert [row["step"] for row in runs.metrics(whole_run)] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert json.loads((whole_run / "environment.json").read_text())["world_size"] == 1
    assert (whole_run / "checkpoints" / "step-000008" / "state.json").exists()


def test_the_base_model_behaves_like_an_untuned_one(whole_run):
    first = runs.metrics(whole_run)[0]
    assert 0.15 < first["reward/first_round"] < 0.40
    assert first["groups/signal_share"] > 0.85


def test_engine_and_learner_agree_on_every_token(whole_run):
    assert max(row["gap/mean_abs"] for row in runs.metrics(whole_run)) < 1e-5  # float32 on both sides


def test_the_exported_model_loads_with_transformers(whole_run):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(whole_run / "model")
    tokenizer = AutoTokenizer.from_pretrained(whole_run / "model")
    ids = tokenizer("2+3=", return_tensors="pt", add_special_tokens=False)["input_ids"]
    text = tokenizer.decode(model.generate(ids, max_new_tokens=8, do_sample=False)[0])
    assert "\\boxed{" in text


def test_the_same_seed_gives_the_same_lines_when_resumed_and_without_validation(whole_run, tmp_path):
    folder = tmp_path / "run"
    runs.train(folder, "run.max_steps=4", "validation=null")
    assert (folder / "validation.jsonl").read_text() == ""
    assert runs.metrics(folder) == runs.metrics(whole_run)[:4]
    assert runs.pools(folder, 4) == runs.pools(whole_run, 4)
    result = runs.train(folder, "run.max_steps=8", "validation=null")
    assert "resuming after step 4" in result.stdout
    assert runs.metrics(folder) == runs.metrics(whole_run)
    assert runs.pools(folder, 8) == runs.pools(whole_run, 8)


def test_two_ranks_draw_the_pools_of_one(whole_run, tmp_path):
    folder = tmp_path / "run"
    runs.run(
        "deepspeed", "--num_accelerators", "2", "--module", "adarl.train", "recipes/tiny_cpu.yaml",
        "run.max_steps=3", f"run.dir={folder}", "validation=null",
    )  # fmt: skip
    assert len(list((folder / "samples").glob("step-000001.rank-*.jsonl"))) == 2
    assert runs.pools(folder, 1) == runs.pools(whole_run, 1)
    one, two = runs.metrics(whole_run)[:3], runs.metrics(folder)
    assert two[0]["update/loss"] == pytest.approx(one[0]["update/loss"], rel=1e-5)
    assert two[0]["update/grad_norm"] == pytest.approx(one[0]["update/grad_norm"], rel=1e-5)
    # Rounding may pull later steps apart, but not far: 192 first-round samples a step.
    for a, b in zip(one, two, strict=True):
        assert b["reward/first_round"] == pytest.approx(a["reward/first_round"], abs=0.15)


def test_without_the_weight_sync_the_gap_grows(tmp_path):
    """The check of the gap can fail: an engine that keeps the base model's weights is seen at once."""
    folder = tmp_path / "run"
    runs.run(
        "python",
        "-m",
        "tests.e2e.no_sync",
        "recipes/tiny_cpu.yaml",
        f"run.dir={folder}",
        "run.max_steps=6",
        "validation=null",
    )
    gaps = [row["gap/mean_abs"] for row in runs.metrics(folder)]
    assert gaps[0] < 1e-5
    assert gaps[1] < gaps[3] < gaps[5]
    assert gaps[5] > 0.01


def test_several_updates_a_step_in_bfloat16_move_away_from_the_old_policy_and_the_gap_stays_small(tmp_path):
    folder = tmp_path / "run"
    runs.train(
        folder, "run.max_steps=3", "validation=null", "algorithm.updates_per_step=4", "learner.lr=1e-3",
        "learner.dtype=bfloat16", "engine.dtype=bfloat16",
    )  # fmt: skip
    rows = runs.metrics(folder)
    assert [row["policy_version"] for row in rows] == [4, 8, 12]
    assert rows[-1]["update/approx_kl"] > 0
    assert max(row["gap/mean_abs"] for row in rows) < 0.02


def test_a_step_without_signal_skips_the_update(tmp_path):
    data = tmp_path / "impossible.jsonl"
    rows = [{"id": str(i), "problem": f"{i}+1=", "answer": "123456"} for i in range(10)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder = tmp_path / "run"
    result = runs.train(
        folder, "run.max_steps=1", "validation=null", f"data.path={data}", "data.prompts_per_step=8"
    )
    assert "no prompt had a signal: update skipped" in result.stdout
    assert runs.metrics(folder)[0]["update/updates"] == 0
    assert runs.metrics(folder)[0]["policy_version"] == 0


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("data.path=/nowhere.jsonl", "adarl: /nowhere.jsonl: neither a local file or folder nor"),
        ("model.path=/nowhere", "adarl: model.path = /nowhere: "),
        ("data.prompts_per_step=100000", "lower it or bring more prompts"),
        ("model.path=prepared:nothing/model", "nothing"),
        (
            "engine.vllm.blok_size=32",
            "engine.vllm.blok_size: vLLM has no such argument: did you mean 'block_size'?",
        ),
    ],
)
def test_bad_input_is_one_sentence_before_a_model_loads(tmp_path, override, sentence):
    result = runs.run(
        "adarl", "train", "recipes/tiny_cpu.yaml", f"run.dir={tmp_path / 'run'}", override, check=False,
        HF_HUB_OFFLINE="1",
    )  # fmt: skip
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_a_run_of_other_settings_is_not_overwritten(whole_run):
    before = (whole_run / "recipe.yaml").read_text()
    result = runs.run(
        "adarl",
        "train",
        "recipes/tiny_cpu.yaml",
        f"run.dir={whole_run}",
        "run.max_steps=8",
        "validation.every=2",
        "run.seed=5",
        check=False,
    )
    assert result.returncode == 2
    assert "holds a run with other settings (run.seed)" in result.stderr
    assert (whole_run / "recipe.yaml").read_text() == before


def test_adapters_are_trained_merged_for_the_engine_and_exported_both_ways(tmp_path):
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from adarl.prepared import locate

    folder, exported = tmp_path / "run", tmp_path / "exported"
    runs.train(
        folder, "run.max_steps=3", "validation=null", "learner.lora.rank=8", "learner.lr=1e-3",
        "learner.warmup_updates=0",
    )  # fmt: skip
    assert max(row["gap/mean_abs"] for row in runs.metrics(folder)) < 1e-5
    runs.run("adarl", "export", str(folder), str(exported))

    def load(path):
        return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)

    base = locate("prepared:tiny_arithmetic/model")
    merged, adapted = load(folder / "model"), PeftModel.from_pretrained(load(base), folder / "model/adapter")
    ids = torch.tensor([[4, 5, 6, 7]])
    torch.testing.assert_close(merged(ids).logits, adapted(ids).logits, rtol=1e-4, atol=1e-4)
    assert (merged(ids).logits - load(base)(ids).logits).abs().max() > 0.01
    for name, tensor in load(exported).state_dict().items():
        torch.testing.assert_close(tensor, merged.state_dict()[name], rtol=1e-6, atol=1e-6)
