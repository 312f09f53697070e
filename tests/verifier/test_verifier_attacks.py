"""Nothing that a model writes is executed, and nothing wrong is rewarded for its form."""

import contextlib
from pathlib import Path

import pytest

from adarl.types import Verdict
from adarl.verifier import Verifier, VerifierSettings

ATTACKS = [
    "__import__('os').system('touch {file}')", "exec('open(\"{file}\",\"w\")')", "open('{file}','w')",
    "(lambda: open('{file}','w'))()", "[x for x in ().__class__.__base__.__subclasses__()]", "{{0.__class__.__init__}}",
    r"\input{{|touch {file}}}", r"\write18{{touch {file}}}", r"\immediate\write18{{touch {file}}}", "$(touch {file})",
    "`touch {file}`", "; touch {file};", "%s%s%n", "os.system('touch {file}')", "sympy.sympify('open(\"{file}\",\"w\")')",
    r"\text{{__import__('pathlib').Path('{file}').touch()}}", r"\operatorname{{exec}}(open('{file}','w'))",
    "Symbol('x').func(open('{file}','w'))", "f(open('{file}','w'))", "x.__class__", "getattr(x,'y')", "eval('1')", "exit()",
    "quit()", "raise SystemExit", "import os; os.abort()", r"\openout15={file}", "1 if open('{file}','w') else 2",
    "!touch {file}", "@open", "<script>", "Path('{file}').touch()", "\\u005f\\u005fimport__('os')", "{file}",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["math", "numeric", "exact"])
def test_attack_strings_leave_no_file_and_earn_nothing(math: Verifier, kind: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    texts = [attack.format(file=victim) for attack in ATTACKS]
    with (
        contextlib.nullcontext(math)
        if kind == "math"
        else Verifier(VerifierSettings(kind=kind, workers=1)) as verifier
    ):
        for gold in ("0", "1", "True", "x"):
            found = verifier.verify([rf"\boxed{{{text}}}" for text in texts], [gold] * len(texts))
            assert {one.verdict for one in found} <= {
                Verdict.INCORRECT,
                Verdict.UNPARSABLE,
                Verdict.NO_ANSWER,
            }
            as_gold = verifier.verify([rf"\boxed{{{gold}}}"] * len(texts), texts)
            assert not any(one.verdict.is_correct for one in as_gold)
    assert list(tmp_path.iterdir()) == []


HEDGES = [
    "3,4,5,6,7", r"5 \text{ or } 7", "x", "[0, 100]", r"5 \pm 1000", r"\frac{0}{0}", r"\text{NaN}", r"\infty", "a+b",
    r"\text{the correct answer}", r"\mathbb{Z}", r"\mathbb{R}", "(-1)^{n}5", r"\max(5, x)", r"\phantom{5}7", r"\cancel{5}\,7",
    r"5 \text{ is wrong, it is } 6", "5?6", r"\{5, 6\}", "5|6", "5/6/7", "4<5<6", r"5 \ne 6", r"\text{5 or maybe not}",
    ",".join(str(number) for number in range(1, 101)), r"x \ge 5", "5x", "x=5, x=6", r"\text{answer}", r"5 \to 6",
    r"\begin{cases}5\\6\end{cases}", r"\binom{5}{x}", r"5_x", "5'", r"\overline{5x}", r"5 \approx 6", r"5=6", "4=5",
]  # fmt: skip


def test_hedges_and_wildcards_are_not_correct(math: Verifier) -> None:
    found = math.verify([rf"\boxed{{{hedge}}}" for hedge in HEDGES], ["5"] * len(HEDGES))
    assert [hedge for hedge, one in zip(HEDGES, found, strict=True) if one.verdict.is_correct] == []


def test_a_sum_that_restates_the_problem_is_no_answer(math: Verifier) -> None:
    (found,) = math.verify([r"\boxed{\sum_{k=1}^{100} k}"], ["5050"])
    assert found.verdict is Verdict.UNPARSABLE
