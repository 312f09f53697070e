"""Response text -> the final answer as text. Linear in the length of the response, never a parser."""

import re

from adarl.verifier.settings import Extraction

# The final answer stands at the end: of a longer response only the tail is looked at.
TAIL_CHARS = 262_144

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
_BRACE = re.compile(r"\\.|[{}]|\Z", re.DOTALL)
# Unbraced form, `\boxed 42`: one token, closed by something that cannot belong to it.
_BARE_BOX = re.compile(r"[^\s{}$\\]+(?=[\s$\\])")
_MARKER = re.compile(
    r"####|(?:final\s+answer|answer|correct\s+(?:option|choice))\s*(?:\*\*|\$)?\s*(?:is\b\s*:?|:|=)|final\s+answer\s*\*\*\s*\n",
    re.IGNORECASE,
)
_MATH = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
# Where a sentence ends: a full stop that is not a decimal point, a line break, an exclamation with space.
_SENTENCE_END = re.compile(r"[.;!?](?=\s|$|\*)|\n")
_PRICE = re.compile(r"\$\s?\d[\d,.]*")
_SURROUND = "*_` \t:=\u200b"


def extract_answer(
    response: str, extraction: Extraction = "last_boxed", truncated: bool = False
) -> str | None:
    """The final answer that `response` states, or None where it states none.

    last_boxed: content of the last closed `\\boxed{...}` or `\\fbox{...}`, nothing else.
    last_boxed_or_final_answer: that, else what follows the last "answer is", "Answer:" or "####".
    whole_response: all of it.
    `truncated` says that the length limit cut the response: an answer that touches the cut is none.
    """
    tail = response[-TAIL_CHARS:]
    if extraction == "whole_response":
        return None if truncated else tail.strip() or None
    boxed = last_boxed(tail)
    if boxed is not None or extraction == "last_boxed":
        return boxed
    return final_answer(tail, truncated)


def last_boxed(text: str) -> str | None:
    """Content of the box that closes last, the outermost if boxes are nested; None without a closed box."""
    first = _BOX.search(text)
    if first is None:
        return None
    answer: str | None = None
    open_braces: list[int] = []  # for each open brace: where the content of its box starts, or -1
    position = first.start()
    while True:
        box = _BOX.match(text, position)
        if box is not None:
            position = box.end()
            if text[position : position + 1] == "{":
                open_braces.append(position + 1)
                position += 1
            elif (bare := _BARE_BOX.match(text, position)) is not None:
                answer = bare.group().rstrip(".,;:")
                position = bare.end()
            continue
        token = _BRACE.search(text, position)
        if token is None or token.group() == "":
            return answer
        position = token.end()
        if token.group() == "{":
            open_braces.append(-1)
        elif token.group() == "}":
            start = open_braces.pop() if open_braces else -1
            if start >= 0:
                answer = text[start : token.start()].strip()
        elif _BOX.match(text, token.start()) is not None:
            position = token.start()


def final_answer(text: str, truncated: bool = False) -> str | None:
    """What follows the last phrase that announces an answer, up to the end of its sentence."""
    markers = list(_MARKER.finditer(text))
    if not markers:
        return None
    rest = text[markers[-1].end() :]
    if _BOX.search(rest):
        return None  # a box that was not closed
    rest = rest.lstrip(_SURROUND + "\n")
    math = _MATH.match(rest)
    if math is not None:
        return next(group for group in math.groups() if group is not None).strip() or None
    end = _SENTENCE_END.search(rest)
    if end is None and truncated:
        return None
    answer = rest[: end.start()] if end is not None else rest
    if end is not None and _PRICE.fullmatch(answer.strip(_SURROUND)):
        return "\\" + answer.strip(_SURROUND)
    if answer.count("$") % 2:
        return None  # mathematics that was not closed
    return answer.strip(_SURROUND) or None
