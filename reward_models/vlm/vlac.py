"""VLAC: which of two images is closer to the goal, and by how much of the way that was left.

Source: Zhai et al., 2025, arXiv:2509.15937. Weights: InternRobotics/VLAC. A positive answer is the share of what was
left at the first image, its reverse is antisymmetric: semantics "remaining" of `reward_models.decode`. Images are
squeezed to 448 x 448; with a reference demonstration in the question, the first image of the episode is shown too.

Deviation from the released code: an answer that is no number makes the score invalid instead of ending the program.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from reward_models.interface import (
    Capabilities,
    ClipQuery,
    Frame,
    Instruction,
    PairQuery,
    Score,
    clip_score,
    pair_score,
)
from reward_models.vlm.config import VlacSettings
from reward_models.vlm.images import Album, square
from reward_models.vlm.model import LargeModel, ask, identify
from reward_models.vlm.prompt import Answer, Backend, Part, Prompt
from reward_models.vlm.reading import (
    THOUGHT_ENDS,
    after_thought,
    one_against_other,
    share,
    signed_percent,
    soft_percent,
    unit,
)
from reward_models.vlm.wording import Wording
from robot_stack.types.errors import RewardError

CODE = "vlac 2"
SIDE_PX = 448
ALTERNATIVES = 10
"""Per token, for soft decoding."""
LONGEST_ANSWER = 16
LONGEST_THOUGHT = 512

_SYSTEM = "You watch robots work and judge from camera images how far a task has come."
_COMPARE = """Image-1: {before}
Image-2: {after}
The task is <task>{task}</task>. Which of the two images is closer to its goal? Give one signed number in percent. \
If Image-2 is closer it is positive: the share that was done of all that was still to do in Image-1. If Image-1 is \
closer it is negative, by the same measure from Image-2 to Image-1. If nothing changed for the task it is 0.
"""
_REFERENCE = """This is how the task is done, from beginning to end, with the progress of each image:
<trajectory>
{reference}</trajectory>
This is the first image of the attempt to judge, at 0%: {first}
"""
_BRIEF = "Write the number and nothing else.\n<score>"
_THINK = """First reason briefly within <think> and </think>, and end the reasoning with the lines \
"first image progressing: X%" and "second image progressing: Y%". After </think> write the number and nothing else.
<score>"""
_DONE = "The task is <task>{task}</task>. Is it finished in the image to judge? Write 1 for yes or 0 for no.\n<done>"

WORDINGS = {
    "reference": Wording(user="{percent}%: {image}", optional=frozenset({"percent", "number"})),
    "pair": Wording(system=_SYSTEM, user=_COMPARE + _BRIEF),
    "pair_reference": Wording(system=_SYSTEM, user=_REFERENCE + _COMPARE + _BRIEF),
    "think": Wording(system=_SYSTEM, user=_COMPARE + _THINK),
    "think_reference": Wording(system=_SYSTEM, user=_REFERENCE + _COMPARE + _THINK),
    "done": Wording(system=_SYSTEM, user="Image to judge: {image}\n" + _DONE),
    "done_goal": Wording(
        system=_SYSTEM,
        user="The finished task: {goal}\nImage to judge: {image}\n" + _DONE,
        optional=frozenset({"task"}),
    ),
}

_SECOND = re.compile(r"second\s++image\s++progressing\s*+:\s*+([0-9]{1,3}(?:\.[0-9]{1,4})?)\s*+%", re.IGNORECASE)


class Vlac(LargeModel):
    """VLAC as a `RewardModel` that scores pairs and done, and progress if it reasons."""

    def __init__(self, backend: Backend, settings: VlacSettings, wordings: dict[str, Wording]) -> None:
        params = settings.model_dump(include={"view", "references", "soft", "think"})
        super().__init__(
            "vlac",
            identify(CODE, [backend.identity], wordings, params),
            Capabilities(
                pair="remaining", progress=settings.think, done=True, views=(settings.view,), max_batch=backend.batch
            ),
            [backend],
        )
        self._backend = backend
        self._settings = settings
        self._wordings = wordings

    def shown_for_progress(self, frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
        """Return the first and the last frame of a clip, which are compared."""
        return frames[0], frames[-1]

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Score pairs of frames with *remaining* semantics, in [-1, 1]."""
        return self._compare(queries, self._read_pair, pair_score)

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score the progress of each clip, in [0, 1], if the model reasons.

        It is what the model says of the second image when it reasons about the first and the last frame.
        """
        if not self._settings.think:
            return super().score_progress(queries)
        pairs = []
        for query in queries:
            first, last = self.shown_for_progress(query.frames)
            pairs.append(PairQuery(instruction=query.instruction, before=first, after=last, start=first))
        return self._compare(pairs, lambda answer: second_progress(answer.text), clip_score)

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score whether the last frame of each clip shows the finished task, in [0, 1].

        The goal image is shown where the instruction has one.
        """
        album = Album(square(SIDE_PX))
        view, soft = self._settings.view, self._settings.soft
        prompts = []
        for query in queries:
            task = query.instruction
            self.capabilities.check(task, query.frames[-1:])
            image = album.image(query.frames[-1], view)
            if task.goal is None:
                prompts.append(self._wordings["done"].fill(task=task.text, image=image))
            else:
                goal = album.image(task.goal, view)
                prompts.append(self._wordings["done_goal"].fill(task=task.text, image=image, goal=goal))

        def read(answer: Answer) -> float:
            return one_against_other(answer.tokens, "1", "0") if soft else share(answer.text)

        return self._ask(prompts, read, clip_score, LONGEST_ANSWER)

    def _compare(
        self, queries: Sequence[PairQuery], read: Callable[[Answer], float], score: Callable[[float, str], Score]
    ) -> list[Score]:
        album = Album(square(SIDE_PX))
        prompts = []
        for query in queries:
            self.capabilities.check(query.instruction, (query.start, query.before, query.after))
            prompts.append(self._comparison(album, query))
        return self._ask(prompts, read, score, LONGEST_THOUGHT if self._settings.think else LONGEST_ANSWER)

    def _ask(
        self,
        prompts: Sequence[Prompt],
        read: Callable[[Answer], float],
        score: Callable[[float, str], Score],
        longest: int,
    ) -> list[Score]:
        top = ALTERNATIVES if self._settings.soft else 0
        return ask(self._backend, prompts, read, score, max_tokens=longest, top_logprobs=top)

    def _read_pair(self, answer: Answer) -> float:
        if self._settings.soft:
            return soft_percent(after_thought(answer.tokens) if self._settings.think else answer.tokens)
        if not self._settings.think:
            return signed_percent(answer.text)
        _, thought, number = answer.text.rpartition(THOUGHT_ENDS)
        return signed_percent(number) if thought else math.nan

    def _comparison(self, album: Album, query: PairQuery) -> Prompt:
        view, task = self._settings.view, query.instruction
        name = "think" if self._settings.think else "pair"
        before, after = album.image(query.before, view), album.image(query.after, view)
        if not task.reference:
            return self._wordings[name].fill(task=task.text, before=before, after=after)
        return self._wordings[f"{name}_reference"].fill(
            task=task.text,
            before=before,
            after=after,
            first=album.image(query.start, view),
            reference=self._reference(album, task),
        )

    def _reference(self, album: Album, task: Instruction) -> list[Part]:
        """Show the demonstration in a few images, each in the words of the section "reference"."""
        shown = reference_frames(len(task.reference), self._settings.references)
        parts: list[Part] = []
        for k, index in enumerate(shown):
            image = album.image(task.reference[index], self._settings.view)
            words = self._wordings["reference"]
            parts += words.fill(
                image=image, percent=str(100 * index // (len(task.reference) - 1)), number=str(k + 1)
            ).user
            parts.append("\n")
        return parts


def reference_frames(length: int, count: int) -> list[int]:
    """Choose the frames of a demonstration to show, the first and the last among them.

    >>> reference_frames(11, 6)
    [0, 2, 4, 6, 8, 10]

    Raises:
        RewardError: If the demonstration has no second frame.
    """
    if length < 2:
        raise RewardError(f"reference has {length} frames, must have at least 2; take a whole demonstration")
    count = min(count, length)
    return [k * (length - 1) // (count - 1) for k in range(count)]


def second_progress(text: str) -> float:
    """Read the progress of the second image from the reasoning, in [0, 1]; NaN if it does not say."""
    reasoning, thought, _ = text.rpartition(THOUGHT_ENDS)
    found = _SECOND.findall(reasoning) if thought else []
    return unit(float(found[-1]) / 100) if found else math.nan
