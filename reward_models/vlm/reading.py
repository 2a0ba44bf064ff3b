"""Reading of a model's words as a number in a known range.

Total: any text gives a number or NaN, and never an error. Blanks are matched possessively, here and in the families:
two runs of them side by side would take the square of their length, and no other thread runs meanwhile.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from reward_models.vlm.prompt import Token

LIKELY = 0.1
"""Of the most probable alternative, below which another does not count in soft decoding."""
NO_NUMBER = math.nan

_NUMBER = re.compile(r"\s*+(?:<score>\s*+)?([+-]?)([0-9]{1,3})(\.[0-9]{1,4})?\s*+%?\s*+(?:<[^<>\s]*+>\s*+)*+")
_DIGITS = re.compile(r"[0-9]+")
THOUGHT_ENDS = "</think>"


def signed_percent(text: str) -> float:
    """Read a signed number in percent and nothing else, as a score in [-1, 1].

    >>> signed_percent("-12.5%"), signed_percent("about 40")
    (-0.125, nan)

    Below -100, which labels of the paper can be, it is -1; above 100 nothing is meant and it is NaN.
    """
    match = _NUMBER.fullmatch(text)
    return NO_NUMBER if match is None else _score(match, _size(match))


def soft_percent(tokens: Sequence[Token]) -> float:
    """Read a signed percentage as `signed_percent` does, with expected digits instead of the most probable.

    Each token that is a number is replaced by the expectation over likely numbers in its place.

    Source: "rich" decoding of VLAC's released code: alternatives with at least a tenth of the highest probability.
    Deviation: only numbers of equal length stand for each other, so that each digit keeps its place.
    """
    text = "".join(token.text for token in tokens)
    match = _NUMBER.fullmatch(text)
    if match is None:
        return NO_NUMBER
    begin, end = match.start(2), match.end(3) if match[3] else match.end(2)
    value, place, at = 0.0, len(match[2]), 0
    for token in tokens:
        digits = text[max(at, begin) : max(min(at + len(token.text), end), begin)].replace(".", "")
        at += len(token.text)
        if digits:
            place -= len(digits)
            value += (_expected(token, digits) if token.text.strip() == digits else int(digits)) * 10.0**place
    return _score(match, value)


def after_thought(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens behind the reasoning; none if it does not end at the end of a token."""
    text = ""
    behind: int | None = None
    for i, token in enumerate(tokens):
        text += token.text
        if text.rstrip().endswith(THOUGHT_ENDS):
            behind = i + 1
    return tuple(tokens[behind:]) if behind is not None else ()


def share(text: str) -> float:
    """Read 1, 0 or a number between and nothing else; NaN for any other text.

    >>> share(" 1</done>"), share("2")
    (1.0, nan)
    """
    match = _NUMBER.fullmatch(text)
    return unit(NO_NUMBER if match is None or match[1] == "-" else _size(match))


def unit(value: float) -> float:
    """Return the value if it is in [0, 1], else NaN."""
    return value if 0 <= value <= 1 else NO_NUMBER


def one_against_other(tokens: Sequence[Token], one: str, other: str) -> float:
    """Return P(one) / (P(one) + P(other)) at the first word of an answer; NaN if that is neither of them.

    Args:
        one: In lower case; capitals and blanks around it do not matter.
    """
    for token in tokens:
        if not any(letter.isalnum() for letter in token.text):
            continue
        if token.text.strip().lower() not in (one, other):
            return NO_NUMBER
        mass = {one: 0.0, other: 0.0}
        for text, logprob in token.top:
            word = text.strip().lower()
            if word in mass:
                mass[word] += math.exp(min(logprob, 0.0))
        total = mass[one] + mass[other]
        return unit(mass[one] / total) if total > 0 else NO_NUMBER
    return NO_NUMBER


def _size(match: re.Match[str]) -> float:
    return float(match[2] + (match[3] or ""))


def _score(match: re.Match[str], value: float) -> float:
    """Give the value the sign of what was said, in [-1, 1]; NaN if what was said is above 100."""
    if match[1] == "-":
        return -min(value / 100, 1.0)
    return min(value / 100, 1.0) if _size(match) <= 100 else NO_NUMBER


def _expected(token: Token, digits: str) -> float:
    """Return the expectation over numbers as long as the one that was said, one decimal."""
    floor = math.log(LIKELY) + (token.top[0][1] if token.top else 0.0)
    likely = [
        (int(text.strip()), math.exp(min(logprob, 0.0)))
        for text, logprob in token.top
        if _DIGITS.fullmatch(text.strip()) and len(text.strip()) == len(digits) and logprob > floor
    ]
    total = sum(p for _, p in likely)
    return round(sum(number * p for number, p in likely) / total, 1) if total > 0 else float(digits)
