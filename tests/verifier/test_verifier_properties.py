"""Generated answers: a random value in a random equivalent form is accepted, a different value is not."""

from fractions import Fraction

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from adarl.types import Verdict
from adarl.verifier.extraction import extract_answer
from adarl.verifier.grading import grade_math

quick = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

integers = st.integers(-(10**6), 10**6)
small = st.integers(-99, 99)
naturals = st.integers(1, 60)
wrappers = st.sampled_from(
    ["{}", " {} ", "{{{}}}", r"\displaystyle {}", r"\left({}\right)", "${}$", r"\({}\)", r"\boxed{{{}}}", "{}.",
     r"\, {} \,", r"\large {}", r"\color{{blue}}{{{}}}"]
)  # fmt: skip


def accepted(gold: str, answer: str) -> bool:
    return grade_math(answer, gold) is Verdict.CORRECT


def fraction_forms(value: Fraction, times: int) -> list[str]:
    upper, lower = abs(value.numerator), value.denominator
    sign = "-" if value < 0 else ""
    forms = [
        rf"{sign}\frac{{{upper}}}{{{lower}}}", rf"{sign}\dfrac{{{upper}}}{{{lower}}}", f"{sign}{upper}/{lower}",
        rf"{sign}\frac{{{upper * times}}}{{{lower * times}}}", rf"\frac{{{sign}{upper}}}{{{lower}}}",
        rf"{sign}{{{upper} \over {lower}}}", rf"{sign}{upper} \div {lower}", rf"\frac{{{upper}}}{{{sign}{lower}}}",
    ]  # fmt: skip
    if lower > 1 and upper > lower:
        whole, rest = divmod(upper, lower)
        forms += [rf"{sign}{whole}\frac{{{rest}}}{{{lower}}}", f"{sign}{whole} {rest}/{lower}"]
    if all(prime in (2, 5) for prime in _primes(lower)):
        forms.append(f"{float(value):.12f}".rstrip("0"))
    return forms


def _primes(number: int) -> list[int]:
    found, prime = [], 2
    while number > 1:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime += 1
    return found


fractions = st.builds(Fraction, small, naturals)


@quick
@given(fractions, st.integers(2, 9), wrappers, st.data())
def test_fractions(value: Fraction, times: int, wrapper: str, data: st.DataObject) -> None:
    gold = data.draw(st.sampled_from(fraction_forms(value, times)))
    assert accepted(gold, wrapper.format(data.draw(st.sampled_from(fraction_forms(value, times)))))
    other = data.draw(fractions.filter(lambda number: number != value))
    assert not accepted(gold, wrapper.format(data.draw(st.sampled_from(fraction_forms(other, times)))))


def integer_forms(value: int) -> list[str]:
    sign, digits = ("-" if value < 0 else ""), str(abs(value))
    forms = [str(value), f"{value}.0", f"{sign}0{digits}", f"{sign}{abs(value):,}", rf"\text{{{value}}}",
             f"{sign}{abs(value):,}".replace(",", "{,}"), f"{sign}{abs(value):,}".replace(",", r"\,"),
             f"{sign}{abs(value):,}".replace(",", r",\!"), f"x = {value}", rf"\mathbf{{{value}}}",
             rf"{value} \text{{ apples}}", f"{value - 7}+7", rf"\frac{{{value * 6}}}{{6}}"]  # fmt: skip
    return forms + ([f"−{digits}"] if value < 0 else [])


@quick
@given(integers, wrappers.filter(lambda wrapper: "left(" not in wrapper), st.data())  # (1,000) is a pair
def test_integers(value: int, wrapper: str, data: st.DataObject) -> None:
    gold = data.draw(st.sampled_from([str(value), f"{value:,}"]))
    assert accepted(gold, wrapper.format(data.draw(st.sampled_from(integer_forms(value)))))
    other = data.draw(integers.filter(lambda number: number != value))
    assert not accepted(gold, wrapper.format(data.draw(st.sampled_from(integer_forms(other)))))


@quick
@given(st.integers(1, 9999), st.integers(-20, 20), st.data())
def test_scientific_notation(mantissa: int, exponent: int, data: st.DataObject) -> None:
    gold = f"{mantissa / 1000}e{exponent}"
    forms = [rf"{mantissa / 1000} \times 10^{{{exponent}}}", f"{mantissa / 100}e{exponent - 1}",
             rf"{mantissa}\cdot 10^{{{exponent - 3}}}", f"{mantissa / 1000}E{exponent}"]  # fmt: skip
    assert accepted(gold, data.draw(st.sampled_from(forms)))
    assert not accepted(gold, rf"{mantissa / 1000} \times 10^{{{exponent + 1}}}")
    assert not accepted(gold, f"{(mantissa + 1) / 1000}e{exponent}")


@quick
@given(st.integers(1, 40), st.integers(2, 30), st.integers(-30, 30), st.data())
def test_surds(factor: int, radicand: int, summand: int, data: st.DataObject) -> None:
    gold = rf"{summand}+{factor}\sqrt{{{radicand}}}"
    forms = [rf"{factor}\sqrt{{{radicand}}}+({summand})", rf"{summand}+\sqrt{{{factor**2 * radicand}}}",
             rf"{summand}+{factor}\cdot {radicand}^{{1/2}}", rf"\frac{{{2 * summand}+{2 * factor}\sqrt{{{radicand}}}}}{{2}}",
             rf"{summand}+{factor}√{radicand}"]  # fmt: skip
    assert accepted(gold, data.draw(st.sampled_from(forms)))
    assert not accepted(gold, rf"{summand}+{factor + 1}\sqrt{{{radicand}}}")
    assert not accepted(gold, rf"{summand}-{factor}\sqrt{{{radicand}}}")


@quick
@given(st.lists(small, min_size=2, max_size=5, unique=True), st.randoms(use_true_random=False), st.data())
def test_lists_and_sets_in_any_order(values: list[int], chance: object, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(values))
    texts = [str(value) for value in shuffled]
    forms = [", ".join(texts), r"\{" + ", ".join(texts) + r"\}", r"\left\{" + ",".join(texts) + r"\right\}",
             ", ".join(texts[:-1]) + r" \text{ and } " + texts[-1], "x = " + r" \text{ or } x = ".join(texts),
             r"x \in \{" + ",".join(texts) + r"\}", "; ".join(texts)]  # fmt: skip
    gold = data.draw(
        st.sampled_from([", ".join(map(str, values)), r"\{" + ", ".join(map(str, values)) + r"\}"])
    )
    assert accepted(gold, data.draw(st.sampled_from(forms)))
    assert not accepted(gold, ", ".join(texts[:-1]) if len(texts) > 2 else texts[0])
    assert not accepted(gold, ", ".join([*texts, "100"]))
    assert not accepted(gold, ", ".join([*texts[:-1], "100"]))


@quick
@given(st.lists(fractions, min_size=2, max_size=4), st.data())
def test_tuples_in_their_order(values: list[Fraction], data: st.DataObject) -> None:
    parts = [data.draw(st.sampled_from(fraction_forms(value, 3)[:5])) for value in values]
    gold = "(" + ", ".join(str(value) for value in values) + ")"
    names = ", ".join("wxyz"[-len(values) :])
    forms = [f"({', '.join(parts)})", rf"\left({','.join(parts)}\right)", f"({names}) = ({', '.join(parts)})",
             r"\begin{pmatrix} " + r" \\ ".join(parts) + r" \end{pmatrix}", rf"\langle {', '.join(parts)} \rangle"]  # fmt: skip
    assert accepted(gold, data.draw(st.sampled_from(forms)))
    turned = values[1:] + values[:1]
    assume(turned != values)
    assert not accepted(gold, "(" + ", ".join(map(str, turned)) + ")")


@quick
@given(small, st.integers(1, 50), st.booleans(), st.booleans(), st.data())
def test_intervals(start: int, width: int, left: bool, right: bool, data: st.DataObject) -> None:
    end = start + width
    opening, closing = "([ "[left], ")] "[right]
    gold = f"{opening}{start}, {end}{closing}"
    below, above = ("<", r"\le")[left], ("<", r"\le")[right]
    forms = [rf"\left{opening}{start},{end}\right{closing}", rf"x \in {opening}{start},{end}{closing}",
             f"{start} {below} x {above} {end}", rf"{opening}{start}, \frac{{{end * 2}}}{{2}}{closing}"]  # fmt: skip
    assert accepted(gold, data.draw(st.sampled_from(forms)))
    assert not accepted(gold, f"{'[('[left]}{start}, {end}{closing}")
    assert not accepted(gold, f"{opening}{start}, {end + 1}{closing}")
    assert not accepted(gold, str(end))


@quick
@given(st.integers(1, 20), st.integers(-20, 20), st.integers(2, 5), st.data())
def test_lines(slope: int, shift: int, times: int, data: st.DataObject) -> None:
    gold = f"y = {slope}x + ({shift})"
    forms = [f"{slope}x - y + ({shift}) = 0", f"{times}y = {times * slope}x + ({times * shift})",
             f"y - ({shift}) = {slope}x", f"{slope}x + ({shift})", f"x = (y - ({shift}))/{slope}"]  # fmt: skip
    assert accepted(gold, data.draw(st.sampled_from(forms)))
    assert not accepted(gold, f"y = {slope + 1}x + ({shift})")
    assert not accepted(gold, f"y = {slope}x + ({shift + 1})")


@quick
@given(
    st.integers(2, 999),
    st.sampled_from(["cm", "m", "kg", "hours", "dollars", "apples", "degrees"]),
    st.data(),
)
def test_units(value: int, unit: str, data: st.DataObject) -> None:
    forms = [
        str(value),
        rf"{value} \text{{ {unit}}}",
        rf"{value}\,\mathrm{{{unit}}}",
        rf"{value}\mbox{{ {unit}}}",
    ]
    gold, answer = data.draw(st.sampled_from(forms)), data.draw(st.sampled_from(forms))
    assert accepted(gold, answer)
    assert not accepted(rf"{value} \text{{ {unit}}}", rf"{value} \text{{ liters}}")
    assert not accepted(gold, rf"{value + 1} \text{{ {unit}}}")


@quick
@given(st.integers(1, 999), st.data())
def test_percent(tenths: int, data: st.DataObject) -> None:
    gold = rf"{tenths / 10}\%"
    forms = [rf"{tenths / 10}\%", f"{tenths / 10}%", rf"{tenths / 10} \text{{ percent}}", f"{tenths / 1000}",
             rf"\frac{{{tenths}}}{{1000}}", rf"\frac{{{tenths}}}{{10}}\%"]  # fmt: skip
    assert accepted(gold, data.draw(st.sampled_from(forms)))
    assert not accepted(gold, rf"{(tenths + 1) / 10}\%")
    assert not accepted(gold, rf"{tenths / 1000}\%")


@quick
@given(st.lists(st.integers(-9, 9), min_size=3, max_size=3), st.integers(1, 5), st.data())
def test_polynomials(coefficients: list[int], root: int, data: st.DataObject) -> None:
    a, b, c = coefficients
    assume(a != 0)
    gold = f"{a}x^2 + ({b})x + ({c})"
    forms = [f"({c}) + ({b})x + ({a})x^{{2}}", f"x(({a})x+({b}))+({c})", rf"{a}x² + ({b})\cdot x + ({c})",
             rf"\frac{{{2 * a}x^2+({2 * b})x+({2 * c})}}{{2}}",
             f"{a}(x-{root})^2 + ({b + 2 * a * root})(x-{root}) + ({c + b * root + a * root * root})"]  # fmt: skip
    assert accepted(gold, data.draw(st.sampled_from(forms)))
    assert not accepted(gold, f"{a}x^2 + ({b})x + ({c + 1})")
    assert not accepted(gold, f"{a}y^2 + ({b})y + ({c})")


@quick
@given(small, small.filter(bool), st.data())
def test_complex_numbers(real: int, imaginary: int, data: st.DataObject) -> None:
    gold = f"{real}+({imaginary})i"
    forms = [f"({imaginary})i+{real}", f"{real}-({-imaginary})i", rf"{real}+i\cdot({imaginary})",
             rf"\frac{{{3 * real}+({3 * imaginary})i}}{{3}}"]  # fmt: skip
    assert accepted(gold, data.draw(st.sampled_from(forms)))
    assert not accepted(gold, f"{real}-({imaginary})i")
    assert not accepted(gold, str(real))


@quick
@given(
    st.text(max_size=300),
    st.sampled_from(["5", r"\frac{1}{2}", "C", "(1,2)", r"\{1,2\}", "x=5", r"\text{no}"]),
)
def test_no_text_raises(answer: str, gold: str) -> None:
    assert grade_math(answer, gold) in set(Verdict)
    extract_answer(rf"text \boxed{{{answer}")
    extract_answer(answer, "last_boxed_or_final_answer")


latex_soup = st.lists(
    st.sampled_from(
        list("0123456789xyabABCDE+-*/^_=<>()[]{}|!,.;: $%&\n") + [r"\frac", r"\sqrt", r"\text{", r"\left", r"\right", r"\{",
         r"\}", r"\pm", r"\cup", r"\in", r"\le", r"\infty", r"\binom", r"\sum", r"\begin{pmatrix}", r"\end{pmatrix}", r"\\",
         r"\boxed{", r"\%", r"^\circ", r"\ldots", r"\overline", r"\pi", r"\sin", r"\log", "e", "i"]),
    max_size=30,
).map("".join)  # fmt: skip


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(latex_soup)
def test_no_latex_soup_raises_or_is_worth_a_plain_number(answer: str) -> None:
    assert grade_math(answer, "8675309") is not Verdict.CORRECT
    grade_math("5", answer)
