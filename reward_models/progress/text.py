"""The text features of the progress model: hashed n-grams, and the words of other tasks to tell a task from.

No language model and no download: the features tell texts apart, they do not know what they mean. A text that was not
trained on, even one that means the same, is another task; use the words of the task file.
"""

from __future__ import annotations

import itertools
import re
import zlib

import numpy as np

TEXT_SIZE = 256

_GROUPS = (
    ("red", "green", "blue", "yellow", "orange", "black", "white", "purple", "grey"),
    ("peg", "cube", "cup", "plate", "bottle", "cable", "plug", "screw", "gear", "bag", "towel", "spoon"),
    ("socket", "box", "bowl", "drawer", "shelf", "bin", "hole", "tray", "rack", "slot"),
    ("insert", "put", "pick", "push", "pull", "open", "close", "turn", "lift", "wipe", "hang", "fold"),
    ("left", "right", "upper", "lower", "first", "second"),
)
"""Words that stand for one another in another task."""

_FRAMES = ("{verb} the {thing}", "{verb} the {colour} {thing} into the {place}", "{verb} the {thing} on the {place}")


def text_features(text: str) -> np.ndarray:
    """Hash words, pairs of words and trigrams of letters, with a sign; float32, shape (TEXT_SIZE,).

    Their mean square is 1, like that of other inputs; shorter ones are learned too slowly.
    """
    words = re.findall(r"\w+", text.lower())
    grams = [*words, *(" ".join(pair) for pair in itertools.pairwise(words))]
    grams += [word[i : i + 3] for word in (f"<{word}>" for word in words) for i in range(len(word) - 2)]
    features = np.zeros(TEXT_SIZE, np.float32)
    for gram in grams:
        code = zlib.crc32(gram.encode())
        features[code % TEXT_SIZE] += 1.0 if code & 0x10000 else -1.0
    return features * (TEXT_SIZE**0.5 / max(float(np.linalg.norm(features)), 1e-6))


def other_task(text: str, rng: np.random.Generator) -> str:
    """Make up the words of another task: half of the time one word replaced, else another task altogether."""
    words = text.split()
    replaceable = [(i, group) for i, word in enumerate(words) for group in _GROUPS if word.lower().strip(".,") in group]
    if replaceable and rng.random() < 0.5:
        at, group = replaceable[rng.integers(len(replaceable))]
        words[at] = _another(group, words[at].lower().strip(".,"), rng)
        return " ".join(words)
    colour, thing, place, verb = (_another(group, "", rng) for group in _GROUPS[:4])
    other = _FRAMES[rng.integers(len(_FRAMES))].format(verb=verb, thing=thing, colour=colour, place=place)
    return other if other != text else other_task(text, rng)


def _another(group: tuple[str, ...], than: str, rng: np.random.Generator) -> str:
    rest = [word for word in group if word != than]
    return rest[rng.integers(len(rest))]
