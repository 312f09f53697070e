import pytest

from adarl.types import Prompt, Verdict
from adarl.verifier import Verifier, VerifierSettings
from eval.benchmarks import PAPER, listed, load_sets, read_catalogue
from eval.evaluate import answers, assemble, evaluate, task
from eval.metrics import answer_text
from eval.summary import table_rows
from tests.eval_fakes import FakeEngine, problem_task


@pytest.fixture(scope="module")
def verifier():
    with Verifier(VerifierSettings()) as verifier:
        yield verifier


def boxed(text: str) -> str:
    return f"The answer is $\\boxed{{{text}}}$."


def test_each_sample_comes_once_whatever_the_order(verifier):
    tasks = [problem_task(id, gold=id) for id in ("1", "2", "3")]
    engine = FakeEngine(lambda prompt, seed: boxed("2"))
    found = list(answers(tasks, engine, verifier, k=2))
    assert sorted(key for key, _ in found) == ["b/1#0", "b/1#1", "b/2#0", "b/2#1", "b/3#0", "b/3#1"]
    results = assemble(tasks, dict(found), k=2)
    assert [(r.id, r.num_correct, r.num_samples) for r in results] == [("1", 0, 2), ("2", 2, 2), ("3", 0, 2)]
    assert results[0].samples[0].verdict is Verdict.INCORRECT
    assert results[0].samples[0].answer == "2"


def test_what_is_done_is_not_drawn_again(verifier):
    tasks = [problem_task(id, gold=id) for id in ("1", "2")]
    engine = FakeEngine(lambda prompt, seed: boxed("2"))
    found = list(answers(tasks, engine, verifier, k=2, done={"b/1#0", "b/1#1", "b/2#0"}))
    assert [key for key, _ in found] == ["b/2#1"]
    assert len(engine.seeds) == 1
    assert list(answers(tasks, engine, verifier, k=1, done={"b/1#0", "b/2#0"})) == []


def test_the_engine_is_never_given_more_than_it_should_hold(verifier, monkeypatch):
    monkeypatch.setattr("eval.evaluate.MAX_IN_FLIGHT", 5)
    engine = FakeEngine(lambda prompt, seed: boxed("1"))
    found = list(answers([problem_task("1", "1"), problem_task("2", "1")], engine, verifier, k=10))
    assert len(found) == 20
    assert engine.most_queued == 5


def test_every_sample_has_a_seed_of_its_own_that_only_names_decide(verifier):
    def seeds(ids, k, seed=0, benchmark="b", stage="eval"):
        engine = FakeEngine(lambda prompt, seed: boxed("1"))
        tasks = [task(benchmark, Prompt(id, "p", "1", (1,)), seed, stage) for id in ids]
        list(answers(tasks, engine, verifier, k))
        return engine.seeds

    both = seeds(["x", "y"], k=2)
    assert len(set(both)) == 4
    assert both == [*seeds(["x"], k=2), *seeds(["y"], k=2)]
    assert seeds(["x"], k=1) == both[:1]
    for other in (
        seeds(["x"], 2, seed=1),
        seeds(["x"], 2, benchmark="c"),
        seeds(["x"], 2, stage="pass_rate"),
    ):
        assert not set(other) & set(both)


def test_validation_gives_problems_in_the_order_of_the_prompts(verifier):
    prompts = [Prompt(id, "p", id, (1, 2)) for id in ("3", "1", "2")]
    engine = FakeEngine(lambda prompt, seed: boxed("1"))
    results = evaluate(engine, verifier, prompts, k=3, seed=7)
    assert [(r.id, r.mean) for r in results] == [("3", 0.0), ("1", 1.0), ("2", 0.0)]
    assert {r.benchmark for r in results} == {"validation"}
    again = evaluate(FakeEngine(lambda prompt, seed: boxed("1")), verifier, prompts, k=3, seed=7)
    assert again == results


def test_prompts_that_could_not_be_told_apart_are_refused(verifier):
    prompts = [Prompt("1", "p", "1", (1,)), Prompt("1", "q", "2", (1,))]
    with pytest.raises(ValueError, match="same id"):
        evaluate(FakeEngine(lambda prompt, seed: ""), verifier, prompts, k=1, seed=0)


def oracle_rows(shared_data, verifier, answer_of):
    """The table of all benchmarks for an engine that answers a prompt with `answer_of(benchmark, id)`."""
    catalogue = read_catalogue()
    chosen = listed(PAPER, catalogue)
    sets = load_sets(chosen, catalogue, shared_data / "eval", None)
    golds = {s.benchmark: [p.answer for p in s.problems] for s in sets}
    tasks = [
        task(s.benchmark, Prompt(str(i), p.problem, p.answer, (1,)), 0)
        for s in sets
        for i, p in enumerate(s.problems)
    ]

    def respond(prompt, seed):
        benchmark, _, number = prompt.id.partition("/")
        return boxed(answer_of(golds[benchmark], int(number.split("#")[0])))

    found = dict(answers(tasks, FakeEngine(respond), verifier, k=1))
    results = assemble(tasks, found, k=1)
    wrong = [(r.benchmark, r.id, r.gold) for r in results if not r.num_correct]
    return table_rows(results, chosen), wrong


def test_an_oracle_scores_100_percent_on_every_benchmark(shared_data, verifier):
    rows, wrong = oracle_rows(shared_data, verifier, lambda golds, i: golds[i])
    assert wrong == []
    assert {row.avg_at_k for row in rows} == {1.0}
    assert rows[-1].num_problems == 1676


def test_another_problem_s_gold_scores_under_1_percent(shared_data, verifier):
    def another(golds, i):
        """The gold half the benchmark away, or the next one after it that is another text."""
        far = (golds[(i + len(golds) // 2 + step) % len(golds)] for step in range(len(golds)))
        return next(gold for gold in far if answer_text(gold) != answer_text(golds[i]))

    rows, _ = oracle_rows(shared_data, verifier, another)
    assert max(row.avg_at_k for row in rows) < 0.01
