"""Splitting normalised LaTeX at the places that stand outside every bracket."""

import re

# Intervals may open with one kind of bracket and close with another: brackets are only counted.
_TOKEN = re.compile(
    r"\\begin\{[a-zA-Z*]+\}|\\end\{[a-zA-Z*]+\}|\\(?:langle|lfloor|lceil)|\\(?:rangle|rfloor|rceil)"
    r"|\\[{}]|\\text\{[^{}]*\}|[\[({]|[\])}]|\\[a-zA-Z]+|\\.|.",
    re.DOTALL,
)
_OPENING = re.compile(r"\\begin.*|\\(?:langle|lfloor|lceil|\{)|[\[({]")
_CLOSING = re.compile(r"\\end.*|\\(?:rangle|rfloor|rceil|\})|[\])}]")


def split_top(text: str, separators: str) -> tuple[list[str], list[str]]:
    """Pieces of `text` and the separators between them; `separators` is a pattern of single tokens."""
    wanted = re.compile(separators)
    pieces, found, level = [""], [], 0
    for token in _TOKEN.findall(text):
        if _OPENING.fullmatch(token):
            level += 1
        elif _CLOSING.fullmatch(token):
            level -= 1
        if level == 0 and wanted.fullmatch(token):
            found.append(token)
            pieces.append("")
        else:
            pieces[-1] += token
    return [piece.strip() for piece in pieces], found


def is_balanced(text: str) -> bool:
    level = 0
    for token in _TOKEN.findall(text):
        if _OPENING.fullmatch(token):
            level += 1
        elif _CLOSING.fullmatch(token):
            level -= 1
            if level < 0:
                return False
    return level == 0


def enclosed(text: str) -> tuple[str, str, str] | None:
    """(opening, inside, closing) if one pair of brackets holds all of `text`, else None."""
    tokens = _TOKEN.findall(text)
    if len(tokens) < 2 or not _OPENING.fullmatch(tokens[0]) or not _CLOSING.fullmatch(tokens[-1]):
        return None
    level = 0
    for index, token in enumerate(tokens):
        if _OPENING.fullmatch(token):
            level += 1
        elif _CLOSING.fullmatch(token):
            level -= 1
        if level == 0 and index < len(tokens) - 1:
            return None
    return tokens[0], "".join(tokens[1:-1]).strip(), tokens[-1]
