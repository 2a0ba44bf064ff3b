"""GRM of Robo-Dopamine: the hop from one instant to another, seen by up to three cameras.

Source: Tan et al., 2025, arXiv:2512.23703. Weights: tanhuajie2001/Robo-Dopamine-GRM-3B. Always eight images: the
episode's first front image and a finished one for orientation, then three views before and three after. A cell with
fewer cameras shows the front image in the missing places, as the released code does.

Φ comes from three anchors, which `reward_models.potential` asks for and joins: from the frame before, from the start,
and from the goal. Success is then Φ close to 1, to be confirmed by something else.

Deviation from the released code: what cannot be read is not valid, neither 0 nor a text; with the goal in the place of
BEFORE, the wrist images are the goal's own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from reward_models.interface import Capabilities, PairQuery, Score, pair_score
from reward_models.vlm.config import GrmSettings
from reward_models.vlm.images import Album, within
from reward_models.vlm.model import LargeModel, ask, identify
from reward_models.vlm.prompt import Backend, Prompt
from reward_models.vlm.wording import Wording
from robot_stack.types.errors import RewardError

CODE = "grm 1"
LONGEST_ANSWER = 64
MIN_PIXELS = 12_544
PATCH_PX = 28
SLOTS = ("front", "left_wrist", "right_wrist")

WORDINGS = {
    "pair": Wording(
        user="""You judge how a robot gets on with a task, from camera images of two moments.
Task: {task}
For orientation only, perhaps from another attempt: START, before anything is done: {start}
END, when all is done: {goal}
BEFORE, front camera: {before_front}
BEFORE, left wrist camera: {before_left_wrist}
BEFORE, right wrist camera: {before_right_wrist}
AFTER, front camera: {after_front}
AFTER, left wrist camera: {after_left_wrist}
AFTER, right wrist camera: {after_right_wrist}
How did the task change from BEFORE to AFTER?
- If it got better: plus the share that was done of all that was left from BEFORE to END.
- If it got worse: minus the share that was lost of all that had been reached from START to BEFORE.
- Never beyond -100% or +100%.
- Whether something is gripped or touched, the wrist cameras know better than the front camera.
- A failure that undoes the task counts if any one camera shows it.
- If you cannot tell, it is 0%.
Answer with one line and nothing else, in the form <score>+NN%</score>"""
    )
}

_SCORE = re.compile(r"\s*+([+-]?[0-9]{1,6}(?:\.[0-9]{1,6})?)\s*+(%?)\s*+(</score>)?")


class Grm(LargeModel):
    """Robo-Dopamine's GRM as a `RewardModel` that scores pairs as hops."""

    def __init__(self, backend: Backend, settings: GrmSettings, wordings: dict[str, Wording]) -> None:
        params = settings.model_dump(include={"views", "max_pixels"})
        super().__init__(
            "grm",
            identify(CODE, [backend.identity], wordings, params),
            Capabilities(
                pair="hop", fusion=settings.fusion, views=settings.views, needs_goal=True, max_batch=backend.batch
            ),
            [backend],
        )
        self._backend = backend
        self._settings = settings
        self._wording = wordings["pair"]
        self._views = settings.views + (settings.views[0],) * (len(SLOTS) - len(settings.views))

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Score pairs of frames as hops, in [-1, 1]."""
        album = Album(within(min_pixels=MIN_PIXELS, max_pixels=self._settings.max_pixels, multiple_px=PATCH_PX))
        prompts = []
        for query in queries:
            self.capabilities.check(query.instruction, (query.start, query.before, query.after))
            prompts.append(self._prompt(album, query))
        return ask(self._backend, prompts, lambda answer: read_hop(answer.text), pair_score, max_tokens=LONGEST_ANSWER)

    def _prompt(self, album: Album, query: PairQuery) -> Prompt:
        task = query.instruction
        if task.goal is None:
            raise RewardError("goal image is missing, must show the finished task")
        images = {"start": (query.start, self._views[0]), "goal": (task.goal, self._views[0])}
        for moment, frame in (("before", query.before), ("after", query.after)):
            images |= {f"{moment}_{slot}": (frame, view) for slot, view in zip(SLOTS, self._views, strict=True)}
        return self._wording.fill(
            task=task.text, **{name: album.image(frame, view) for name, (frame, view) in images.items()}
        )


def read_hop(text: str) -> float:
    """Read the last score in an answer, in [-1, 1]; NaN if there is none or it is cut off.

    >>> read_hop("<score>+12.5%</score>"), read_hop("<score>+1"), read_hop("Fine.")
    (0.125, nan, nan)
    """
    _, tag, rest = text.rpartition("<score>")
    match = _SCORE.match(rest) if tag else None
    if match is None or not (match[2] or match[3]):
        return math.nan
    return max(-1.0, min(1.0, float(match[1]) / 100))
