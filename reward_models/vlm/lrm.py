"""Large Reward Models: one checkpoint with an adapter for each of three questions.

Source: Wu et al., 2026, arXiv:2603.16065. Weights: USC-PSI-Lab/LRM-models on Qwen/Qwen3-VL-8B-Instruct. The adapter
"progress" says Φ of the current image beside the first one, "completion" whether it is done, and "contrastive" only
which of two images is further. An adapter that is not in the settings is not loaded, and its question not answered.

Deviations from the released code: an answer that cannot be read is not valid instead of 0, and no score is held for
several steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from reward_models.interface import Capabilities, ClipQuery, Frame, PairQuery, Score, clip_score, pair_score
from reward_models.vlm.config import LrmSettings
from reward_models.vlm.images import Album, within
from reward_models.vlm.model import LargeModel, ask, identify
from reward_models.vlm.prompt import Backend
from reward_models.vlm.reading import unit
from reward_models.vlm.wording import Wording

CODE = "lrm 1"
LONGEST_ANSWER = 512
MIN_PIXELS = 12_544
PATCH_PX = 32

_SYSTEM = "You judge camera images of a robot at work."
WORDINGS = {
    "contrastive": Wording(
        system=_SYSTEM,
        user="""Task: {task}
ImageA: {before}
ImageB: {after}
Both images are of the same attempt. Compare them in a few sentences: what of the task is done in each? Then say in \
which the task is further, as JSON on the last line: {"more_complete_image": "ImageA"} or \
{"more_complete_image": "ImageB"}""",
    ),
    "progress": Wording(
        system=_SYSTEM,
        user="""Task: {task}
First image of the attempt: {start}
Current image: {image}
How much of the task is done in the current image? 0.0 is nothing, 1.0 is all. Answer with JSON on the last line, like \
{"completion_progress": 0.0}""",
    ),
    "progress_goal": Wording(
        system=_SYSTEM,
        user="""Task: {task}
First image of the attempt: {start}
The finished task, of another attempt: {goal}
Current image: {image}
How much of the task is done in the current image? 0.0 is nothing, 1.0 is all. Answer with JSON on the last line, like \
{"completion_progress": 0.0}""",
    ),
    "completion": Wording(
        system=_SYSTEM,
        user="""Task: {task}
Current image: {image}
Is the task finished in this image? Answer with JSON on the last line: {"task_completed": "yes"} or \
{"task_completed": "no"}""",
    ),
}

_FURTHER = re.compile(r'"more_complete_image"\s*+:\s*+"\s*+Image[ _]?([AB])\s*+"', re.IGNORECASE)
_PROGRESS = re.compile(r'"completion_progress"\s*+:\s*+"?([0-9]{1,3}(?:\.[0-9]{1,9})?)"?\s*+[,}]')
_COMPLETED = re.compile(r'"task_completed"\s*+:\s*+"?\s*+(yes|no|true|false)\s*+"?\s*+[,}]', re.IGNORECASE)


class Lrm(LargeModel):
    """Large Reward Models as a `RewardModel`; it answers the questions that it has adapters for."""

    def __init__(self, backends: Mapping[str, Backend], settings: LrmSettings, wordings: dict[str, Wording]) -> None:
        names = sorted(backends)
        params = settings.model_dump(include={"view", "max_pixels"}) | {"questions": names}
        super().__init__(
            "lrm",
            identify(CODE, [backends[name].identity for name in names], wordings, params),
            Capabilities(
                pair="sign" if "contrastive" in backends else None,
                progress="progress" in backends,
                done="completion" in backends,
                views=(settings.view,),
                max_batch=min(backend.batch for backend in backends.values()),
            ),
            list(backends.values()),
        )
        self._asked = dict(backends)
        self._view = settings.view
        self._resize = within(min_pixels=MIN_PIXELS, max_pixels=settings.max_pixels, multiple_px=PATCH_PX)
        self._wordings = wordings

    def shown_for_progress(self, frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
        """Return the first and the last frame of a clip, which are compared."""
        return frames[0], frames[-1]

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Score pairs by sign: 1 if the second image is further, -1 if the first is; it cannot be decoded."""
        if "contrastive" not in self._asked:
            return super().score_pairs(queries)
        album = Album(self._resize)
        prompts = []
        for query in queries:
            self.capabilities.check(query.instruction, (query.before, query.after))
            before, after = (album.image(frame, self._view) for frame in (query.before, query.after))
            words = self._wordings["contrastive"]
            prompts.append(words.fill(task=query.instruction.text, before=before, after=after))
        backend = self._asked["contrastive"]
        return ask(backend, prompts, lambda a: read_further(a.text), pair_score, max_tokens=LONGEST_ANSWER)

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score the progress of each clip by its first and last frame, in [0, 1].

        The goal image is shown where the instruction has one.
        """
        if "progress" not in self._asked:
            return super().score_progress(queries)
        album = Album(self._resize)
        prompts = []
        for query in queries:
            task, (first, last) = query.instruction, self.shown_for_progress(query.frames)
            self.capabilities.check(task, (first, last))
            start, image = album.image(first, self._view), album.image(last, self._view)
            if task.goal is None:
                prompts.append(self._wordings["progress"].fill(task=task.text, start=start, image=image))
            else:
                goal = album.image(task.goal, self._view)
                words = self._wordings["progress_goal"]
                prompts.append(words.fill(task=task.text, start=start, image=image, goal=goal))
        backend = self._asked["progress"]
        return ask(backend, prompts, lambda a: read_progress(a.text), clip_score, max_tokens=LONGEST_ANSWER)

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score whether the last frame of each clip shows the finished task, 0 or 1."""
        if "completion" not in self._asked:
            return super().score_done(queries)
        album = Album(self._resize)
        prompts = []
        for query in queries:
            self.capabilities.check(query.instruction, query.frames[-1:])
            image = album.image(query.frames[-1], self._view)
            prompts.append(self._wordings["completion"].fill(task=query.instruction.text, image=image))
        backend = self._asked["completion"]
        return ask(backend, prompts, lambda a: read_completed(a.text), clip_score, max_tokens=LONGEST_ANSWER)


def read_further(text: str) -> float:
    """Read which image is further from an answer: 1 for B, -1 for A, the last that is named; NaN if none is."""
    found = _FURTHER.findall(text)
    return {"A": -1.0, "B": 1.0}[found[-1].upper()] if found else math.nan


def read_progress(text: str) -> float:
    """Read the last progress in an answer, in [0, 1]; NaN if there is none, it is cut off or out of range.

    >>> read_progress('{"completion_progress": 0.4}'), read_progress('{"completion_progress": 0.')
    (0.4, nan)
    """
    found = _PROGRESS.findall(text)
    return unit(float(found[-1])) if found else math.nan


def read_completed(text: str) -> float:
    """Read whether the task is done from an answer: 1 for yes, 0 for no, the last said; NaN if nothing is."""
    found = _COMPLETED.findall(text)
    return float(found[-1].lower() in ("yes", "true")) if found else math.nan
