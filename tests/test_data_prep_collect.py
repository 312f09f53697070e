import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import data_prep
from adarl.errors import UserError
from adarl.prompts import Problem
from adarl.templated import templated
from adarl.types import Verdict
from adarl.verifier import VerifierSettings
from data_prep.candidates import Candidate, clean, read_candidates, source_name
from data_prep.collect import evaluation_sets, sift, summarise
from data_prep.collect_settings import CollectSettings, Source, load_settings
from data_prep.filters import (
    grams_of,
    without_benchmarks,
    without_duplicates,
    without_empty,
    without_long,
    without_near_duplicates,
)
from data_prep.golds import check_golds, unverified
from data_prep.overlap import GramIndex, grams, skeleton, tokens
from eval.benchmarks import ProblemSet


def candidate(id, problem, answer="1", source="s"):
    return Candidate(id, source, problem, answer)


def ids(candidates):
    return [c.id for c in candidates]


def test_white_space_is_normalised():
    assert clean("  Let  $x$\t be \n\n\n\n  real.  \n Find $x$. ") == "Let $x$ be\n\nreal.\nFind $x$."


def test_a_skeleton_knows_copies_from_variants():
    assert skeleton("Find $x^{2}$ at \\left( 3, 7 \\right).") == skeleton("find x^2 at $(3,7)$")
    assert skeleton("\\[ \\cos^3 \\frac{2 \\pi}{7} \\]") == skeleton("$\\cos ^{3} \\dfrac{2\\pi}{7}$.")
    different = [
        "x+1",
        "x-1",
        "x+11",
        "(x+1)",
        "x+1.5",
        "x+15",
        "x+1,5",
        "x > 1",
        "x < 1",
        "8/4/2",
        "8/(4/2)",
    ]
    assert len({skeleton(text) for text in different}) == len(different)


def test_tokens_are_words_numbers_and_signs():
    assert tokens("Let $x_12 = 3y$.") == ["let", "$", "x", "_", "12", "=", "3", "y", "$", "."]


def test_a_text_of_n_tokens_has_n_minus_7_grams():
    assert len(grams("a b c d e f g h i j")) == 3
    assert len(grams("a b c")) == 1
    assert grams("a b c") == grams("A  b c") != grams("a b d")


def test_the_closest_text_is_found_with_its_share():
    letters = "a b c d e f g h i j k l"  # 5 grams
    index = GramIndex()
    index.add("first", grams(letters))
    index.add("same", grams(letters))
    index.add("long", grams(letters + " m n o p q"))  # 10 grams, 5 of them shared
    assert index.closest(grams(letters), 0.5) == ("first", 1.0)
    assert index.closest(grams("x a b c d e f g h i"), 0.5) == ("first", 2 / 3)  # 2 of its 3 grams
    assert index.closest(grams("x a b c d e f g h i"), 0.7) is None
    of_longer = GramIndex(of_longer=True)
    of_longer.add("long", grams(letters + " m n o p q"))
    assert of_longer.closest(grams(letters), 0.5) == ("long", 0.5)
    assert of_longer.closest(grams(letters), 0.51) is None


def test_empty_rows_go():
    kept, dropped = without_empty([candidate("1", "p"), candidate("2", ""), candidate("3", "p", "")])
    assert ids(kept) == ["1"]
    assert [(d.id, d.stage, d.reason) for d in dropped] == [
        ("2", "empty", "no problem"),
        ("3", "empty", "no answer"),
    ]


def test_the_first_of_each_problem_stays():
    rows = [candidate("1", "Find $x+1$."), candidate("2", "Find x + 1", "2"), candidate("3", "Find x - 1")]
    kept, dropped = without_duplicates(rows)
    assert ids(kept) == ["1", "3"]
    assert dropped[0].reason == "the same problem as 1, which has the answer 1 and not 2"


TRAIN = "How many ways are there to put 4 balls in 2 boxes if the balls are distinguishable but the boxes are not?"


def test_what_overlaps_a_benchmark_goes():
    sets = [ProblemSet("b", (Problem("b-1", TRAIN, "8"), Problem("b-2", "Find $d$.", "2")), 2, "b.jsonl")]
    rows = [
        candidate("copy", "Find d"),
        candidate("near", TRAIN.replace("are not", "are too")),
        candidate("far", TRAIN.replace("4 balls", "5 balls")),
        candidate("other", "Count the sheep."),
    ]
    kept, dropped = without_benchmarks(rows, grams_of(rows), sets, 0.6)
    # 23 tokens make 16 grams: the last word but one is in 2 of them, the number, which is the eighth, in 8.
    assert ids(kept) == ["far", "other"]
    assert [(d.id, d.stage, d.reason) for d in dropped] == [
        ("copy", "overlaps_eval", "the same problem as b-2"),
        ("near", "overlaps_eval", "88% of the 8-grams in common with b-1"),
    ]


def test_near_duplicates_go_but_not_problems_that_hold_others():
    longer = (
        TRAIN + " Explain in a few words why the answer would be larger if the boxes had different colours."
    )
    rows = [candidate("1", TRAIN), candidate("2", TRAIN.replace("not?", "not")), candidate("3", longer)]
    kept, dropped = without_near_duplicates(rows, grams_of(rows), 0.8)
    assert ids(kept) == ["1", "3"]
    assert [(d.stage, d.reason) for d in dropped] == [
        ("near_duplicate", "94% of the 8-grams in common with 1")
    ]


def test_long_problems_go_by_tokens():
    def tokenizer(text, add_special_tokens):
        return {"input_ids": text.split()}

    kept, dropped = without_long([candidate("1", "a" * 50), candidate("2", "a b c d e f")], tokenizer, 5)
    assert ids(kept) == ["1"]
    assert dropped[0].reason == "6 tokens, more than 5"


@pytest.mark.parametrize(
    ("gold", "solutions", "strict", "passes"),
    [
        (Verdict.CORRECT, [], False, True),
        (Verdict.UNPARSABLE, [], False, False),
        (Verdict.UNPARSABLE, [Verdict.INCORRECT, Verdict.CORRECT], False, True),
        (Verdict.CORRECT, [Verdict.INCORRECT], False, True),
        (Verdict.CORRECT, [Verdict.INCORRECT], True, False),
        (Verdict.CORRECT, [Verdict.NO_ANSWER, Verdict.CORRECT], True, True),
    ],
)
def test_a_gold_passes_by_itself_or_by_a_solution(gold, solutions, strict, passes):
    assert (unverified(gold, solutions, strict) is None) is passes


def test_golds_are_verified_once_and_kept_on_disk(tmp_path):
    rows = [
        Candidate("ok", "s", "p", "\\frac{1}{2}"),
        Candidate("bad", "s", "p", "-37_8"),
        Candidate("solved", "s", "p", "7", ("so it is \\boxed{8}", "no, \\boxed{7}")),
        Candidate("unsolved", "s", "p", "7", ("so it is \\boxed{8}", "I cannot tell")),
    ]
    kept, dropped = check_golds(rows, VerifierSettings(), False, tmp_path, print)
    assert ids(kept) == ["ok", "solved", "unsolved"]
    assert [(d.id, d.stage) for d in dropped] == [("bad", "unreadable_gold")]
    lines = (tmp_path / "shards" / "rank-0.jsonl").read_bytes()
    assert len(lines.splitlines()) == 4

    def fail(line):
        raise AssertionError("a verified problem was verified again")

    assert check_golds(rows, VerifierSettings(), False, tmp_path, fail) == (kept, dropped)
    assert (tmp_path / "shards" / "rank-0.jsonl").read_bytes() == lines
    strict = check_golds(rows[2:], VerifierSettings(), True, tmp_path / "strict", print)
    assert ids(strict[0]) == ["solved"]
    assert strict[1][0].reason == "reference solutions: incorrect, no_answer"


@pytest.mark.parametrize(
    "problem",
    [
        "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n",
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>1+1?<|eot_id|>",
        "<start_of_turn>user 1+1?",
        "[INST] 1+1? [/INST]",
        "User: 1+1?\nAssistant: ",
        "1+1? Let's think step by step and output the final answer within \\boxed{}.",
        "1+1? Please reason step by step, and put your final answer within \\boxed{}.",
    ],
)
def test_rendered_prompts_are_noticed(problem):
    assert "problem holds" in templated(problem)


@pytest.mark.parametrize(
    "problem",
    [
        "What is $1+1$?",
        "Solve step by step: $|x| < 3$.",
        "Let $[INS]$ be a triangle.",
        "A boxed set $\\boxed{3}$.",
        "Assistant: a person who helps. How many letters?",
    ],
)
def test_plain_problems_pass(problem):
    assert templated(problem) is None


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_columns_are_mapped_and_rows_numbered(tmp_path):
    rows = [{"q": "1+1?", "a": {"b": 2}, "s": ["x", None, "y"]}, {"q": " 2+2? ", "a": {"b": "4"}, "s": "z"}]
    source = Source(
        path=write(tmp_path / "sums.jsonl", rows), problem="q", answer="a.b", solutions=("s",), licence="l"
    )
    assert read_candidates([source]) == [
        Candidate("sums-0", "sums", "1+1?", "2", ("x", "y")),
        Candidate("sums-1", "sums", "2+2?", "4", ("z",)),
    ]
    assert source_name(Source(path="open-r1/OpenR1-Math-220k", licence="l")) == "open-r1/OpenR1-Math-220k"


def test_rendered_prompts_and_repeated_ids_are_refused(tmp_path):
    prompt = write(tmp_path / "a.jsonl", [{"problem": "<|im_start|>user\n1+1?", "answer": "2"}])
    with pytest.raises(
        UserError, match="a.jsonl, row 0: the problem holds '<|im_start|>'".replace("|", r"\|")
    ):
        read_candidates([Source(path=prompt, licence="l")])
    twice = write(tmp_path / "b.jsonl", [{"id": "x", "problem": p, "answer": "2"} for p in "ab"])
    with pytest.raises(UserError, match="row 1: id 'x' stands in .*b.jsonl, row 0 too"):
        read_candidates([Source(path=twice, id="id", licence="l")])
    with pytest.raises(UserError, match="no column 'prompt'; there are id, problem, answer"):
        read_candidates([Source(path=twice, problem="prompt", licence="l")])
    with pytest.raises(UserError, match="there is no such file, and it is not the form of a hub id"):
        read_candidates([Source(path="/nowhere.jsonl", licence="l")])


def test_the_configuration_is_checked(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump({"sources": [{"path": "a/b", "licence": "l"}]}))
    changed = load_settings(path, ["sources.0.path=c/d", "near_duplicate_share=0.9"])
    assert (changed.sources[0].path, changed.near_duplicate_share) == ("c/d", 0.9)
    with pytest.raises(UserError, match="near_share: Extra inputs are not permitted"):
        load_settings(path, ["near_share=0.9"])
    with pytest.raises(UserError, match="solutions_must_verify needs reference solutions"):
        load_settings(path, ["solutions_must_verify=true"])
    with pytest.raises(UserError, match="is not of the form key=value"):
        load_settings(path, ["--out"])
    with pytest.raises(UserError, match="not readable as YAML"):
        load_settings(tmp_path / "none.yaml")


def test_the_paper_s_configuration_is_valid():
    settings = load_settings(Path(data_prep.__file__).parent / "openr1.yaml")
    assert settings.sources[0].path == "open-r1/OpenR1-Math-220k"
    assert settings.solutions_must_verify


def test_the_planted_overlaps_and_the_variants_of_math500_are_found(shared_data):
    settings = CollectSettings(
        sources=tuple(
            Source(path=str(shared_data / "train" / f"{name}.jsonl"), id="id", licence="l")
            for name in ("math_train_12k", "gsm8k_train")
        )
    )
    read = read_candidates(settings.sources)
    sets = evaluation_sets(settings, shared_data / "eval")
    start = time.process_time()
    kept, dropped = sift(read, settings, sets, None)
    seconds = time.process_time() - start
    reasons = {d.id: d.reason for d in dropped}
    assert reasons["math-train-03443"] == "the same problem as olympiad-2890"
    assert reasons["math-train-04487"] == "the same problem as olympiad-2791"
    assert reasons["math-test-04640"] == "the same problem as olympiad-2713"
    overlaps = [d for d in dropped if d.stage == "overlaps_eval"]
    # 43 problems of MATH500 have variants that share 60 % of their 8-grams; 5 more are held by a longer one
    assert len({d.reason.split()[-1] for d in overlaps if "math500" in d.reason}) == 48
    assert len(overlaps) == 111
    counts = summarise(read, kept, dropped, settings)["sources"]
    assert counts["math_train_12k"]["read"] == 12000
    assert counts["gsm8k_train"] == {
        "licence": "l",
        "read": 7473,
        "empty": 0,
        "duplicate": 0,
        "overlaps_eval": 0,
        "near_duplicate": 1,
        "too_long": 0,
        "unreadable_gold": 0,
        "unverified": 0,
        "kept": 7472,
    }
    assert len(read) / seconds > 2000  # of this process's time: the machine may be busy


def test_the_command_writes_the_same_bytes_twice_and_goes_on_after_a_kill(tmp_path, shared_data):
    rows = [json.loads(line) for line in open(shared_data / "train" / "gsm8k_train.jsonl")][:300]
    rows += [{"id": "copy", "problem": rows[0]["problem"] + " ", "answer": "72"}]
    rows += [{"id": "words", "problem": "What is it?", "answer": "-37_8"}]
    write(tmp_path / "train.jsonl", [{k: r[k] for k in ("id", "problem", "answer")} for r in rows])
    source = {"path": str(tmp_path / "train.jsonl"), "id": "id", "licence": "MIT"}
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"sources": [source], "benchmarks": ["aime24"]}))

    def run(out):
        command = [
            sys.executable,
            "-m",
            "data_prep.collect",
            str(tmp_path / "c.yaml"),
            "--out",
            str(tmp_path / out),
        ]
        command += ["--eval-dir", str(shared_data / "eval")]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "150"})
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "302 problems read from train" in run("a")
    lines = (tmp_path / "a" / "shards" / "rank-0.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 301
    (tmp_path / "b" / "shards").mkdir(parents=True)
    (tmp_path / "b" / "config.json").write_bytes((tmp_path / "a" / "config.json").read_bytes())
    (tmp_path / "b" / "shards" / "rank-0.jsonl").write_bytes(b"".join(lines[:100]) + lines[100][:20])
    assert "100 of 301 problems are finished already" in run("b")
    for name in ("problems.jsonl", "dropped.jsonl", "summary.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    kept = [json.loads(line) for line in open(tmp_path / "b" / "problems.jsonl")]
    assert len(kept) == 300
    assert list(kept[0]) == ["id", "problem", "answer", "source"]
    dropped = [json.loads(line) for line in open(tmp_path / "b" / "dropped.jsonl")]
    assert [(d["id"], d["stage"]) for d in dropped] == [("copy", "duplicate"), ("words", "unreadable_gold")]


def test_an_unknown_key_of_a_source_is_one_sentence(tmp_path):
    path = tmp_path / "collect.yaml"
    path.write_text("sources:\n  - {path: a.jsonl, name: a, licence: MIT}\n")
    with pytest.raises(UserError) as caught:
        load_settings(path)
    assert str(caught.value) == f"{path}: sources.0.name: Extra inputs are not permitted"
