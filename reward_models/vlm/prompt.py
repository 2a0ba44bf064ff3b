"""Prompts to a large model and its answers, whichever way it is reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

Part = str | np.ndarray
"""Text, or an image: uint8 RGB, shape (H, W, 3)."""

BreakerState = Literal["closed", "open", "half-open"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prompt:
    """A question to a large model, in text and images.

    Attributes:
        user: Text and images in the order in which the model shall read them.
        system: What the system role says, "" for nothing.
    """

    user: tuple[Part, ...]
    system: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A generated token of an answer, with its alternatives.

    Attributes:
        top: What might have stood there, with its log-probability, most probable first.
    """

    text: str
    top: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a model to one prompt.

    Attributes:
        text: In its own words; "" if there is a problem.
        tokens: How it came to be, where log-probabilities were asked for.
        complete: It was said to its end. An answer that was cut off is not read: "+4" may have been "+45".
        problem: Why there is no answer, "" if there is one.
    """

    text: str = ""
    tokens: tuple[Token, ...] = ()
    complete: bool = True
    problem: str = ""


class Backend(Protocol):
    """A way to reach a model; for one thread at a time."""

    name: str
    batch: int

    @property
    def identity(self) -> str:
        """Return the identity of the weights, and of all else outside the prompt that decides an answer."""
        ...

    @property
    def breaker(self) -> BreakerState:
        """Return whether the model is asked at all: "open" after many failures, "closed" in normal work."""
        ...

    def answer(self, prompts: Sequence[Prompt], *, max_tokens: int, top_logprobs: int = 0) -> list[Answer]:
        """Return greedy answers, one a prompt and in their order.

        Args:
            max_tokens: At which an answer is cut.
            top_logprobs: Alternatives per token to report, 0 for none.

        Raises:
            RewardError: If none of the prompts was answered, with model, address and reason.
        """
        ...

    def close(self) -> None:
        """Give memory and connections back."""
        ...
