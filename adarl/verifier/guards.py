"""Cheap static checks before any parser runs: what could blow up is refused by its text alone.

Each rule bounds one way in which a short text stands for a huge computation. A refusal is the verdict
`unparsable`; the time, CPU and memory limits of the worker stand behind these rules.
"""

import re

MAX_CHARS = 8_000  # of an answer
MAX_LEAF_CHARS = 600  # of one expression inside it
MAX_DEPTH = 24  # nested groups
MAX_DIGITS = 1_000  # of one number
MAX_EXPONENT = 5_000  # of a constant power
MAX_EXPONENT_DEPTH = 3  # powers within exponents
MAX_FACTORIAL = 3_000  # n of n!, and the larger argument of a binomial
MAX_E_NOTATION = 400  # exponent after e, as in 6.72e-5

_NUMBER_RUN = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
_GROUP = re.compile(r"[({\[]|[)}\]]")
_E_NOTATION = re.compile(r"\d\.?[eE][+-]?(\d+)")
_DIGITS = re.compile(r"\d+")
_FACTORIAL = re.compile(r"(\d+|[)}])\s*!")
_BINOMIAL = re.compile(r"\\[dt]?binom|\\choose|\bC\(")
_PRODUCT_OF_POWERS = re.compile(r"\d\s*\^")


def refusal(text: str) -> str | None:
    """Why an answer is not even looked at, or None. Runs on the raw text."""
    if len(text) > MAX_CHARS:
        return f"the answer has {len(text)} characters, more than {MAX_CHARS}"
    if _NUMBER_RUN.search(text):
        return f"a number has more than {MAX_DIGITS} digits"
    if any(len(exponent) > 3 or int(exponent) > MAX_E_NOTATION for exponent in _E_NOTATION.findall(text)):
        return f"an exponent is above {MAX_E_NOTATION}"
    return None


def leaf_refusal(latex: str) -> str | None:
    """Why one expression is not handed to the parser, or None. Runs on normalised LaTeX."""
    if len(latex) > MAX_LEAF_CHARS:
        return f"an expression has {len(latex)} characters, more than {MAX_LEAF_CHARS}"
    if depth(latex) > MAX_DEPTH:
        return f"groups are nested deeper than {MAX_DEPTH}"
    return exponent_refusal(latex) or factorial_refusal(latex)


def depth(text: str) -> int:
    """How deep brackets of any kind are nested."""
    deepest = current = 0
    for group in _GROUP.findall(text):
        current += 1 if group in "({[" else -1
        deepest = max(deepest, current)
    return deepest


def exponent_refusal(latex: str) -> str | None:
    """Why the powers of an expression are too large to be evaluated, or None."""
    for exponent in exponents(latex):
        if _nested_powers(exponent) >= MAX_EXPONENT_DEPTH:
            return f"powers are stacked more than {MAX_EXPONENT_DEPTH} high"
        numbers = [int(number) for number in _DIGITS.findall(exponent)]
        if numbers and max(numbers) > MAX_EXPONENT:
            return f"an exponent is above {MAX_EXPONENT}"
        if "!" in exponent and any(number > 6 for number in numbers):
            return "an exponent holds a factorial"
        if _PRODUCT_OF_POWERS.search(exponent) and _power_bound(exponent) > MAX_EXPONENT:
            return f"an exponent is above {MAX_EXPONENT}"
    return None


def exponents(latex: str) -> list[str]:
    """The text of every exponent, nested ones too; `a^b^c` without braces counts as nested."""
    found = []
    for match in re.finditer(r"\^\s*", latex):
        end = group_end(latex, match.end())
        while (chained := re.match(r"\s*\^\s*", latex[end:])) is not None:
            end = group_end(latex, end + chained.end())
        found.append(latex[match.end() : end])
    return found


def group_end(latex: str, start: int) -> int:
    """Index behind the group, command or character that starts at `start`."""
    if start >= len(latex):
        return start
    if latex[start] == "\\":
        command = re.match(r"\\(?:[a-zA-Z]+|.)", latex[start:], re.DOTALL)
        return start + (command.end() if command else 1)
    if latex[start] not in "{(":
        number = re.match(r"\d+", latex[start:])
        return start + (number.end() if number else 1)
    opening = latex[start]
    closing = {"{": "}", "(": ")"}[opening]
    level = 0
    for match in re.finditer(r"\\.|[{}()]", latex[start:], re.DOTALL):
        if match.group() == opening:
            level += 1
        elif match.group() == closing:
            level -= 1
            if level == 0:
                return start + match.end()
    return len(latex)


def _nested_powers(exponent: str) -> int:
    inner = exponents(exponent)
    return 1 + max((_nested_powers(part) for part in inner), default=0)


def _power_bound(text: str) -> float:
    """Upper bound of what the constant powers in a short exponent come to."""
    bound = 1.0
    for base, exponent in re.findall(r"(\d+)\s*\^\s*[{(]?\s*(\d+)", text):
        if int(exponent) > 64:
            return float("inf")
        bound *= float(min(int(base), 10**4)) ** int(exponent)
    return bound


def factorial_refusal(latex: str) -> str | None:
    """Why the factorials and binomials of an expression are too large, or None."""
    for operand in _FACTORIAL.findall(latex):
        if operand.isdigit() and int(operand) > MAX_FACTORIAL:
            return f"a factorial is taken of more than {MAX_FACTORIAL}"
    group_factorial = any(not operand.isdigit() for operand in _FACTORIAL.findall(latex)) or "!!" in latex
    if group_factorial or _BINOMIAL.search(latex):
        largest = max((int(number) for number in _DIGITS.findall(latex)), default=0)
        if largest > 10 * MAX_FACTORIAL or (
            group_factorial and ("^" in latex and _power_bound(latex) > MAX_FACTORIAL)
        ):
            return "a factorial or binomial is taken of a huge number"
        if _BINOMIAL.search(latex) and _power_bound(latex) > 10.0**6 and _binomial_of_power(latex):
            return "a binomial is taken of a huge number"
    return None


def _binomial_of_power(latex: str) -> bool:
    for match in _BINOMIAL.finditer(latex):
        upper = latex[match.end() : group_end(latex, match.end())]
        if "^" in upper and _power_bound(upper) > 10 * MAX_FACTORIAL:
            return True
    return False
