"""Frames that carry their progress as brightness, and a backend that answers by looking at the images it is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from reward_models.interface import Frame, Instruction
from reward_models.vlm.prompt import Answer, BreakerState, Prompt, Token

DIM, BRIGHT = 20, 220


def image(progress: float, height: int = 40, width: int = 60) -> np.ndarray:
    """Uniform grey; still the same grey after any resizing."""
    return np.full((height, width, 3), round(DIM + (BRIGHT - DIM) * progress), np.uint8)


def frame(progress: float, *views: str) -> Frame:
    return Frame(images={view: image(progress) for view in views or ("front",)})


def seen(prompt: Prompt) -> list[float]:
    """Progress of each image of a prompt, in order."""
    return [(float(part.mean()) - DIM) / (BRIGHT - DIM) for part in prompt.user if not isinstance(part, str)]


def words(prompt: Prompt) -> str:
    """A prompt as text, with its images by size and brightness."""
    user = "".join(
        part if isinstance(part, str) else f"<image {part.shape[1]}x{part.shape[0]} {part.mean():.0f}>"
        for part in prompt.user
    )
    return f"[system]\n{prompt.system}\n[user]\n{user}\n"


def instruction(*, goal: bool = False, reference: int = 0, text: str = "put the peg into the socket") -> Instruction:
    return Instruction(
        text=text,
        goal=frame(1.0) if goal else None,
        reference=tuple(frame(i / (reference - 1)) for i in range(reference)),
    )


def digit_tokens(text: str) -> tuple[Token, ...]:
    """One token a character, each certain."""
    return tuple(Token(text=letter, top=((letter, 0.0),)) for letter in text)


class Spoken:
    """A `Backend` that says what a function makes of each prompt, and remembers the prompts."""

    def __init__(self, say: Callable[[Prompt], str | Answer], *, identity: str = "spoken", batch: int = 8) -> None:
        self.name = "spoken"
        self.batch = batch
        self.identity = identity
        self.breaker: BreakerState = "closed"
        self.prompts: list[Prompt] = []
        self.max_tokens: list[int] = []
        self.closed = False
        self._say = say

    def answer(self, prompts: Sequence[Prompt], *, max_tokens: int, top_logprobs: int = 0) -> list[Answer]:
        self.prompts += prompts
        self.max_tokens.append(max_tokens)
        said = [self._say(prompt) for prompt in prompts]
        return [one if isinstance(one, Answer) else Answer(text=one, tokens=digit_tokens(one)) for one in said]

    def close(self) -> None:
        self.closed = True
