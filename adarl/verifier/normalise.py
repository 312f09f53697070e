"""Answer text -> one plain dialect of LaTeX, so that everything behind has a single form to read.

Layout is dropped, synonyms become one command, arguments get their braces, words are wrapped in \\text{}.
Pure string work, no parser.
"""

import re
from functools import lru_cache

from adarl.verifier.characters import to_latex
from adarl.verifier.commands import (
    COMMAND_FOR,
    DROPPED,
    DROPPED_WITH_ARGUMENT,
    FUNCTIONS,
    NUM_ARGUMENTS,
    REPLACED,
    TEXT_COMMANDS,
    UNWRAPPED,
    WITH_NAME,
)
from adarl.verifier.guards import group_end
from adarl.verifier.units import SCALES, is_bare_unit

_COMMAND = re.compile(r"\\(?:[a-zA-Z]+\*?|.)", re.DOTALL)
_NUMERAL_GROUPS = re.compile(
    r"(?<![\d.])(\d{1,3})((?:\{,\}|,\\!|\\,|\\;|\\ |\\!,|~)\s*\d{3}(?!\d))(?:(?:\{,\}|,\\!|\\,|\\;|\\ |\\!,|~)\s*\d{3}(?!\d))*"
)
_SPACED_GROUPS = re.compile(r"(?<![\d.,/}])(?<!\d )(\d{1,3}(?: \d{3})+)(?![\d/]| \d|\s*\\frac)")
_UNIT_LETTERS = re.compile(r"[a-zA-Z]+(?:\^?\{?-?\d\}?)?(?:\s*[/ ]\s*[a-zA-Z]+(?:\^?\{?-?\d\}?)?)*")
# The two-letter words that answers hold; other pairs of letters are products.
_SHORT_WORDS = frozenset("no up to of in is it on at by if as be we he or".split())
_BARE_WORD = re.compile(r"(?<![a-zA-Z\\])(?<!\\begin\{)(?<!\\end\{)(?<!\\mathbb\{)[a-zA-Z]{2,}(?![a-zA-Z])")
# 6th, 6^{\text{th}}: which one is its number.
_ORDINAL = re.compile(r"(?<=\d)\s*(?:\^\s*)?\{?\s*(?:\\text\{\s*)?(?:st|nd|rd|th)\s*\}?\s*\}?\s*$")
# Environments that set one statement under the other; a matrix or an array is none of them.
_ROWS = re.compile(r"\\begin\{(cases|aligned|align\*?|gathered|split)\}(.*?)\\end\{\1\}", re.DOTALL)
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz".upper())


@lru_cache(maxsize=4096)
def normalise(answer: str) -> str:
    """The answer in the plain dialect; raises UnreadableCharacter for control characters."""
    text = to_latex(answer).strip()
    if "\\begin" not in text:
        text = re.sub(r"\\\\(?=[a-zA-Z])", r"\\", text)  # doubled by somebody's JSON
    text = text.removeprefix("**").removesuffix("**")
    text = re.sub(r"\\\\\s*\[[^\[\]]*\]", r"\\\\ ", text)  # row distance: \\[4pt]
    text = _ROWS.sub(lambda rows: _listed(rows[2]), text)
    text = _joined_numerals(text)
    text = re.sub(r"\\\$", r"\\usd ", text).replace("$", "")
    text = re.sub(r"\\[()\[\]]", " ", text)
    text = _commands(text)
    text = _choose_and_over(text)
    text = _arguments(text)
    text = _words(text)
    text = re.sub(
        r"\^\s*(?:\{\s*\\circ\s*\}|\\circ)|(?<=\d)\^\s*(?:\{\s*o\s*\}|o(?![a-zA-Z]))", r"\\degree ", text
    )
    text = re.sub(r"(?<![\\^_])\{\s*(\\times|\\cdot|\\div|[=<>+/-])\s*\}", r" \1 ", text)
    text = re.sub(r"\\mu\s*\\text\{\s*([a-zA-Z])", r"\\text{µ\1", text)
    text = re.sub(_ORDINAL, "", text)
    text = re.sub(r"^\s*\\(?:therefore|implies|Rightarrow|Longrightarrow)(?![a-zA-Z])", "", text)
    text = re.sub(r"(?<=\d)\s*m\s*/\s*s(\s*\^\s*\{?2\}?)?\s*$", r" \\text{m/s}\1", text)
    text = re.sub(r"(?<=[\d}\s])\\Omega\s*$", r"\\text{ohm}", text)
    text = re.sub(r"(?<!\\)%", r"\\%", text)
    text = re.sub(r"\.{3,}", r"\\ldots ", text)
    text = text.replace("<=", r"\le ").replace(">=", r"\ge ").replace("!=", r"\ne ").replace("**", "^")
    return _trimmed(re.sub(r"\s+", " ", text))


def canonical(normalised: str) -> str:
    """The shortest form: two answers with the same one are the same text to a person."""
    text = re.sub(r"\{([^{}\\])\}", r"\1", normalised)
    return re.sub(r"(?<![a-zA-Z0-9.])\s+|\s+(?![a-zA-Z0-9.])", "", text)


def _joined_numerals(text: str) -> str:
    """1{,}000, 1,\\!000, 1\\,000\\,000 and 1 000 000 as one number each."""
    text = _NUMERAL_GROUPS.sub(lambda number: re.sub(r"\D", "", number[0]), text)
    text = re.sub(r"(?<=\d)\\!(?=\d)", "", text)  # drawn closer together
    return _SPACED_GROUPS.sub(lambda number: number[1].replace(" ", ""), text)


def _listed(rows: str) -> str:
    """Rows one under the other as a list; a row that starts with `=` goes on with the one before it."""
    statements: list[str] = []
    for row in re.split(r"\\\\", rows.replace(r"\&", "")):
        row = re.sub(r"&\s*(?=[=<>\\])|^\s*&", "", row).strip().rstrip(",;.").strip()
        if row.startswith("=") and statements:
            statements[-1] += " " + row
        elif row:
            statements.append(row)
    return " " + ", ".join(statements) + " "


def _commands(text: str) -> str:
    """One name for each command, no layout, no invisible or crossed-out arguments."""
    out: list[str] = []
    position = 0
    while position < len(text):
        if text[position] == "~":
            out.append(" ")
            position += 1
            continue
        if text[position] != "\\":
            out.append(text[position])
            position += 1
            continue
        match = _COMMAND.match(text, position)
        name = match.group().rstrip("*") if match else "\\"
        position = match.end() if match else position + 1
        name = COMMAND_FOR.get(name, name)
        if name in DROPPED:
            out.append(DROPPED[name])
            if name in (r"\left", r"\right") and text[position : position + 1] == ".":
                position += 1
        elif name in DROPPED_WITH_ARGUMENT:
            position = group_end(text, _skip_spaces(text, position))
        elif name == r"\textcolor":
            position = group_end(text, _skip_spaces(text, position))
        elif name in UNWRAPPED or name in TEXT_COMMANDS:
            start = _skip_spaces(text, position)
            if text[start : start + 1] != "{":
                continue
            position = group_end(text, start)
            content = text[start + 1 : position - 1]
            out.append(_commands(content) if name in UNWRAPPED else _text(content, "".join(out[-12:]), name))
        elif name in REPLACED:
            out.append(REPLACED[name])
        elif name == r"\not" and text[position : position + 1] in ("=", "\\"):
            follows = re.match(r"=|\\in\b", text[position:])
            out.append(r"\ne " if follows and follows[0] == "=" else r"\notin ")
            position += follows.end() if follows else 0
        elif name == "\\ ":
            out.append(" ")
        else:
            out.append(name + " " if name[1:].isalpha() and name not in WITH_NAME else name)
    return "".join(out)


def _text(content: str, before: str, command: str) -> str:
    """The content of a text command: words stay text, numbers and letters become mathematics again."""
    content = re.sub(r"\\[,;:! ]|~", " ", content).replace("$", "").replace("\\%", "%")
    content = re.sub(r"(?i)(?<![a-z])([ap])\.\s?m\.?(?![a-z])", r"\1m", content)
    words = content.strip()
    if command == r"\operatorname":
        return f"\\{words} " if words in FUNCTIONS else _wrapped(content)
    if not words:
        return " "
    if "\\" in words:
        return " " + _commands(words) + " "
    connective = re.fullmatch(r"[,;]?\s*(and|or)[,]?", words)
    if connective:
        return rf" \l{connective[1]} "
    if words.lower() in ("percent", "percentage", "pct"):
        return r"\% "
    if words.lower() == "infinity":
        return r"\infty "
    counted = re.fullmatch(r"([+-]?\d[\d.,]*)\s+([^\d]+)", words)
    if counted:  # \text{30 students}
        return f"{counted[1]} " + _text(counted[2], counted[1], command)
    # Behind a number upright letters are a unit (5 \text{m}, 3 \mathrm{m/s}), unless they are a constant.
    behind_number = re.search(r"(?:[\d}]|\\mu\s*|[\d}]\s*\\frac\s*\{|/\s*\{?|\}\s*\{)\s*$", before)
    if behind_number and _UNIT_LETTERS.fullmatch(words) and words not in ("e", "i", "d"):
        return re.sub(r"([a-zA-Z]+)(?:\^?\{?(-?\d)\}?)?", _unit_power, words)
    if not re.search(r"[^\W\d_]{2}", words):
        return " " + _commands(words) + " " if len(words) > 1 else words
    if words in FUNCTIONS and command != r"\text":
        return f"\\{words} "
    return _wrapped(content)


def _unit_power(match: re.Match[str]) -> str:
    return _wrapped(match[1]) + (f"^{{{match[2]}}}" if match[2] else "")


def _wrapped(words: str) -> str:
    return rf"\text{{{' '.join(words.split())}}}"


def _skip_spaces(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _choose_and_over(text: str) -> str:
    """TeX's infix forms: {a \\over b}, {n \\choose k}."""
    for infix, command in ((r"\over ", r"\frac"), (r"\choose ", r"\binom"), (r"\atop ", r"\binom")):
        while (at := text.find(infix)) >= 0:
            start, level = at, 0
            while start > 0 and not (text[start - 1] == "{" and level == 0):
                level += {"}": 1, "{": -1}.get(text[start - 1], 0)
                start -= 1
            end, level = at + len(infix), 0
            while end < len(text) and not (text[end] == "}" and level == 0):
                level += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            fraction = rf"{command}{{{text[start:at].strip()}}}{{{text[at + len(infix) : end].strip()}}}"
            braced = start > 0 and end < len(text)
            text = text[: start - braced] + fraction + text[end + braced :]
    return text


def _arguments(text: str) -> str:
    """\\frac43, \\frac 4 3, \\sqrt2 and the like with braces; `sqrt(2)` without a backslash too."""
    text = re.sub(r"(?<![a-zA-Z\\])sqrt\s*(?=[({])", r"\\sqrt ", text)
    text = re.sub(r"(\\log\s*_)\s*(\d)", r"\1{\2}", text)  # TeX takes one digit: \log_28 is log 8 to base 2
    text = re.sub(r"([_^])\s*(\d+)", r"\1{\2}", text)  # elsewhere 2^10 is meant as it looks
    out: list[str] = []
    position = 0
    for match in re.finditer(r"\\(frac|binom|sqrt|overline|dot|ddot|hat)(?![a-zA-Z])", text):
        if match.start() < position:
            continue
        out.append(text[position : match.start()])
        piece, position = _with_arguments(text, match)
        out.append(piece)
    return "".join(out) + text[position:]


def _with_arguments(text: str, match: re.Match[str]) -> tuple[str, int]:
    name = match.group()
    position = _skip_spaces(text, match.end())
    piece = name
    if name == r"\sqrt" and text[position : position + 1] == "[":
        close = text.find("]", position)
        if close > 0:
            piece += text[position : close + 1]
            position = close + 1
    for _ in range(NUM_ARGUMENTS[name]):
        position = _skip_spaces(text, position)
        end = _argument_end(text, position, name)
        argument = text[position:end]
        inside = (
            argument[1:-1] if argument[:1] == "{" or (name == r"\sqrt" and argument[:1] == "(") else argument
        )
        piece += "{" + _arguments(inside) + "}"
        position = end
    return piece, position


def _argument_end(text: str, position: int, name: str) -> int:
    if position >= len(text):
        return position
    if text[position] == "{" or (name == r"\sqrt" and text[position] == "("):
        return group_end(text, position)
    if text[position] == "\\":
        inner = re.match(r"\\(frac|binom|sqrt)(?![a-zA-Z])", text[position:])
        if inner is not None:
            match = re.compile(r"\\(frac|binom|sqrt)").match(text, position)
            return _with_arguments(text, match)[1] if match else position + 1
        return group_end(text, position)
    return position + 1


def _words(text: str) -> str:
    """Bare words in \\text{}; `and` and `or` become the connectives; scale words become numbers."""
    pieces = re.split(r"(\\text\{[^{}]*\})", text)
    wrapped = "".join(
        piece if piece.startswith(r"\text{") else _BARE_WORD.sub(_bare_word, piece) for piece in pieces
    )
    wrapped = re.sub(r"\\text\{per\s?cent\}|\\text\{per\}\s*\\text\{cent\}", r"\\% ", wrapped)
    # Neighbouring words are one phrase.
    while (joined := re.sub(r"\\text\{([^{}]*)\}\s*\\text\{([^{}]*)\}", _join, wrapped)) != wrapped:
        wrapped = joined
    return re.sub(r"(?<=[\d}])\s*\\text\{(\w+)\b\s*([^{}]*)\}", _scale, wrapped)


def _join(pair: re.Match[str]) -> str:
    return rf"\text{{{pair[1].strip()} {pair[2].strip()}}}"


def _scale(match: re.Match[str]) -> str:
    factor = SCALES.get(match[1].lower().removesuffix("s"))
    if factor is None:
        return match[0]
    rest = match[2].strip()
    return rf" \times {factor}" + (rf" \text{{{rest}}}" if rest else "")


def _bare_word(match: re.Match[str]) -> str:
    word = match.group()
    before = match.string[: match.start()]
    if word in ("and", "or"):
        return rf"\l{word} "
    if word.lower() in ("percent", "percentage", "pct"):
        return r"\% "
    behind_number = re.search(r"[\d})]\s*$", before) is not None
    ends = not match.string[match.end() :].strip(" .")
    if behind_number and (is_bare_unit(word) or (ends and word in ("min", "mins", "deg"))):
        return rf"\text{{{word}}}"
    if word in FUNCTIONS:
        return (
            match.group() if re.search(r"[_^{]\s*\{?$", before) else rf"\{word.replace('infinity', 'infty')} "
        )
    if word.lower() in _SHORT_WORDS and _stands_in_prose(match):
        return rf"\text{{{word}}}"
    if re.search(r"[_^]\s*\{?\s*$", before) or len(word) < 3:
        return word
    return rf"\text{{{word}}}" if is_word(word) else word


def _stands_in_prose(match: re.Match[str]) -> bool:
    """Between words or alone: `no` in `no solution`, but not in `n = no`."""
    before, after = match.string[: match.start()], match.string[match.end() :]
    return bool(
        re.search(r"(?:^|[a-zA-Z}])\s*$", before)
        and re.match(r"\s*$|\s+[a-zA-Z\\]" + (r"|\s+[\d($-]" if match[0] == "is" else ""), after)
    )


def is_word(letters: str) -> bool:
    """Whether a run of letters is a word of a language and not a product of variables."""
    if any(letters in alphabet for alphabet in _ALPHABETS):
        return False
    has_vowel = bool(re.search(r"[aeiouyAEIOUY]", letters))
    return len(letters) >= 3 and has_vowel and not (letters.isupper() and len(letters) <= 4)


def _trimmed(text: str) -> str:
    """Without outer spaces, needless braces and brackets, and the full stop at the end."""
    while True:
        before = text
        text = text.strip()
        if re.search(r"[^.]\.$|^\.$", text) or text[-1:] in (",", ";"):
            text = text[:-1]
        if text.endswith("\\\\") and r"\begin" not in text:
            text = text[:-2]
        if text[:1] in ("{", "(") and group_end(text, 0) == len(text) and len(text) > 1:
            inner = text[1:-1]
            closes = {"{": "}", "(": ")"}[text[0]] == text[-1]
            if closes and not inner.endswith("\\") and (text[0] == "{" or _is_single(inner)):
                text = inner
        if text == before:
            return text


def _is_single(inner: str) -> bool:
    """Brackets round it are only brackets: no tuple, no interval, no choice letter."""
    return "," not in inner and ";" not in inner and not re.fullmatch(r"\s*[A-Z]\s*", inner)
