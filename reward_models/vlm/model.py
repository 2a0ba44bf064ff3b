"""The base of all large reward models: no question is answered unless a family says how.

A model's version names all that decides an answer.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from reward_models.interface import Capabilities, ClipQuery, Frame, PairQuery, Score, Unsupported
from reward_models.vlm.prompt import Answer, Backend, BreakerState, Prompt
from reward_models.vlm.wording import Wording

LONGEST_TEXT = 8192
"""Characters of an answer that is read; 512 tokens, the most that a family asks for, have a quarter of it."""


class LargeModel:
    """A `RewardModel` that supports no question; a family overrides those that its weights were trained for."""

    def __init__(self, name: str, version: str, capabilities: Capabilities, backends: Sequence[Backend]) -> None:
        self.name = name
        self.version = version
        self.capabilities = capabilities
        self._backends = tuple(backends)

    @property
    def breaker(self) -> BreakerState:
        """Return the worst state among the backends' breakers; "closed" is normal work."""
        states = [backend.breaker for backend in self._backends]
        return next((state for state in ("open", "half-open") if state in states), "closed")

    def shown_for_progress(self, frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
        """Return the frames of a clip that a question about its progress shows: the last, unless a family says."""
        return frames[-1:]

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Raise `Unsupported`: a family that scores pairs overrides this."""
        raise Unsupported(f"pair question to {self.name} has no answer, must be one of {self._answers()}")

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Raise `Unsupported`: a family that scores progress overrides this."""
        raise Unsupported(f"progress question to {self.name} has no answer, must be one of {self._answers()}")

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Raise `Unsupported`: a family that tells whether the task is done overrides this."""
        raise Unsupported(f"done question to {self.name} has no answer, must be one of {self._answers()}")

    def close(self) -> None:
        """Give memory and connections back."""
        for backend in self._backends:
            backend.close()

    def _answers(self) -> list[str]:
        can = self.capabilities
        return [name for name, able in (("pair", can.pair), ("progress", can.progress), ("done", can.done)) if able]


def ask(
    backend: Backend,
    prompts: Sequence[Prompt],
    read: Callable[[Answer], float],
    score: Callable[[float, str], Score],
    *,
    max_tokens: int,
    top_logprobs: int = 0,
    whole: bool = True,
) -> list[Score]:
    """Ask a backend and return the scores of the answers, in order; one that never came or has no end is not valid.

    Args:
        read: From an answer to its value, NaN if it cannot be read.
        score: `pair_score` or `clip_score`.
        whole: Whether an answer that was cut off is not valid either.

    Raises:
        RewardError: If none was answered.
    """
    if not prompts:
        return []
    asked = time.monotonic()
    answers = backend.answer(prompts, max_tokens=max_tokens, top_logprobs=top_logprobs)
    took = time.monotonic() - asked
    scores = []
    for answer in answers:
        readable = not answer.problem and (answer.complete or not whole) and _length(answer) <= LONGEST_TEXT
        value = read(answer) if readable else math.nan
        scores.append(replace(score(value, answer.problem or answer.text), latency_s=took, lost=bool(answer.problem)))
    return scores


def _length(answer: Answer) -> int:
    """Return the characters of an answer, or its tokens where those are more: a token may have none."""
    return max(len(answer.text), len(answer.tokens), sum(len(token.text) for token in answer.tokens))


def identify(code: str, weights: Sequence[str], wordings: Mapping[str, Wording], params: Mapping[str, object]) -> str:
    """Hash the identity of weights, prompts, decoding and code to 16 characters.

    Args:
        code: Name of the family and number of its code; raise the number when the same answer is read otherwise.
        params: Settings that decide what is shown and how it is read.
    """
    facts = {
        "code": code,
        "weights": list(weights),
        "wordings": {name: [wording.system, wording.user] for name, wording in wordings.items()},
        "params": dict(params),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
