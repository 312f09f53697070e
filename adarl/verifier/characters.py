"""Unicode -> LaTeX, one character at a time: what a person reads as mathematics, written as LaTeX."""

import re
import unicodedata

# Superscript and subscript characters with their plain ones.
_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱ", "0123456789+-=()ni", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎", "0123456789+-=()", strict=True))

_SYMBOLS = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "×": r"\times ", "⋅": r"\cdot ", "·": r"\cdot ",
    "∙": r"\cdot ", "∗": "*", "÷": r"\div ", "∕": "/", "⁄": "/", "±": r"\pm ", "∓": r"\mp ", "∞": r"\infty ",
    "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "≡": r"\equiv ",
    "∪": r"\cup ", "∩": r"\cap ", "∖": r"\setminus ", "∈": r"\in ", "∅": r"\emptyset ", "∨": r"\lor ",
    "∧": r"\land ", "∠": r"\angle ", "°": r"^{\circ}", "º": r"^{\circ}", "′": "'", "’": "'", "‘": "'",
    "“": '"', "”": '"', "…": r"\ldots ", "⋯": r"\ldots ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}",
    "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}", "⌊": r"\lfloor ", "⌋": r"\rfloor ",
    "⌈": r"\lceil ", "⌉": r"\rceil ", "⟨": r"\langle ", "⟩": r"\rangle ", "∣": "|", "∑": r"\sum ",
    "∏": r"\prod ", "∫": r"\int ", "ℯ": "e", "∶": ":",
}  # fmt: skip
_ROOT = re.compile(r"([√∛∜])\s*(\d+|[a-zA-Z]|\([^()]*\)|\{[^{}]*\}|\\[a-zA-Z]+)")
_ROOT_INDEX = {"√": "", "∛": "[3]", "∜": "[4]"}


class UnreadableCharacter(ValueError):
    """A control character: nobody can say what is meant."""


def to_latex(text: str) -> str:
    """`text` with unicode mathematics written as LaTeX; letters of other scripts stay what they are.

    Invisible format characters (zero-width space and the like) are dropped, full-width forms become plain
    ones. A Cyrillic А stays Cyrillic: it is not the choice A. Control characters raise UnreadableCharacter.
    """
    if text.isascii():
        if any(
            ord(character) < 32 and character not in "\t\n\r\f\v" or character == "\x7f" for character in text
        ):
            raise UnreadableCharacter("the answer holds a control character")
        return text
    pieces = _grouped_scripts("".join(_one(character) for character in text))
    return _ROOT.sub(lambda root: rf"\sqrt{_ROOT_INDEX[root[1]]}{{{root[2].strip('(){}')}}}", pieces)


def _one(character: str) -> str:
    if character in _SYMBOLS:
        return _SYMBOLS[character]
    if (
        character in _SUPERSCRIPTS
        or character in _SUBSCRIPTS
        or character.isascii()
        and character.isprintable()
    ):
        return character
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    if category in ("Zs", "Zl", "Zp") or character in "\t\n\r\f\v":
        return " "
    if category == "Cc":
        raise UnreadableCharacter("the answer holds a control character")
    plain = unicodedata.normalize("NFKC", character)
    if category == "No" and "⁄" in plain:  # ½ and its kin
        numerator, _, denominator = plain.partition("⁄")
        return rf"\frac{{{numerator}}}{{{denominator}}}"
    name = unicodedata.name(character, "")
    greek = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER ([A-Z]+)", name)
    if greek is not None:
        letter = "lambda" if greek[2] == "LAMDA" else greek[2].lower()
        return rf"\{letter if greek[1] == 'SMALL' else letter.capitalize()} "
    if name.startswith(("FULLWIDTH", "MATHEMATICAL", "IDEOGRAPHIC")):
        return plain
    return character


def _grouped_scripts(text: str) -> str:
    """Runs of superscript or subscript characters as `^{...}` and `_{...}`."""
    for table, command in ((_SUPERSCRIPTS, "^"), (_SUBSCRIPTS, "_")):
        pieces = re.split(f"([{''.join(table)}]+)", text)  # every second piece is a run
        pieces[1::2] = [command + "{" + "".join(table[one] for one in run) + "}" for run in pieces[1::2]]
        text = "".join(pieces)
    return text
