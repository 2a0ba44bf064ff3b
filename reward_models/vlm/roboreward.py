"""RoboReward: progress of a clip in five steps, from no change to perfect.

Source: Lee et al., 2026, arXiv:2601.00675. Weights: teetone/RoboReward-4B and -8B, on Qwen3-VL. Deviation: the model
was trained on videos; here it is shown the frames one by one, so that nothing needs a video library and every server
can be asked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from reward_models.absolute import between
from reward_models.interface import Capabilities, ClipQuery, Frame, Score, clip_score
from reward_models.progress.clips import prefix_indices
from reward_models.vlm.config import RoboRewardSettings
from reward_models.vlm.images import Album, within
from reward_models.vlm.model import LargeModel, ask, identify
from reward_models.vlm.prompt import Backend, Part
from reward_models.vlm.wording import Wording

CODE = "roboreward 1"
LONGEST_ANSWER = 128
MIN_PIXELS = 12_544
PATCH_PX = 32

WORDINGS = {
    "progress": Wording(
        user="""A robot works on a task. These are frames of its attempt in order, the last one is the present:
{frames}Task: {task}
Judge by the last frame how far the task has come, however long it took:
1: nothing that the task asks for has changed
2: a little has changed, far from enough
3: much is done, but something important or several things are missing
4: all but one small thing is right
5: everything is as the task asks
End your answer with ANSWER: and the number."""
    )
}

_ANSWER = re.compile(r"ANSWER\s*+:\s*+\**+\s*+([1-5])(?![0-9]|\.[0-9])", re.IGNORECASE)


class RoboReward(LargeModel):
    """The RoboReward model as a `RewardModel` that scores progress."""

    def __init__(self, backend: Backend, settings: RoboRewardSettings, wordings: dict[str, Wording]) -> None:
        params = settings.model_dump(include={"view", "frames", "max_pixels"})
        super().__init__(
            "roboreward",
            identify(CODE, [backend.identity], wordings, params),
            Capabilities(progress=True, views=(settings.view,), history=settings.frames, max_batch=backend.batch),
            [backend],
        )
        self._backend = backend
        self._settings = settings
        self._wording = wordings["progress"]

    def shown_for_progress(self, frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
        """Return the frames of a clip that are shown, evenly spread."""
        return tuple(frames[index] for index in spread(len(frames), self._settings.frames))

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score the progress of each clip as one of 0, 1/4, 1/2, 3/4 and 1."""
        album = Album(within(min_pixels=MIN_PIXELS, max_pixels=self._settings.max_pixels, multiple_px=PATCH_PX))
        prompts = []
        for query in queries:
            self.capabilities.check(query.instruction, query.frames)
            shown: list[Part] = []
            for frame in self.shown_for_progress(query.frames):
                shown += [album.image(frame, self._settings.view), "\n"]
            prompts.append(self._wording.fill(task=query.instruction.text, frames=shown))
        return ask(self._backend, prompts, lambda a: read_step(a.text), clip_score, max_tokens=LONGEST_ANSWER)


def spread(length: int, count: int) -> list[int]:
    """Choose at most `count` frames of a clip, evenly spread, each once, always with the last.

    >>> spread(3, 16), spread(9, 3), spread(9, 1)
    ([0, 1, 2], [0, 4, 8], [8])
    """
    if count == 1:
        return [length - 1]
    return [int(index) for index in np.unique(prefix_indices(length - 1, count))]


def read_step(text: str) -> float:
    """Read Φ from the last ANSWER, in [0, 1]; NaN if there is none from 1 to 5.

    >>> read_step("Nearly. ANSWER: 4"), read_step("ANSWER: 10")
    (0.75, nan)
    """
    found = _ANSWER.findall(text)
    return float(between(1, 5, np.array(float(found[-1])))) if found else math.nan
