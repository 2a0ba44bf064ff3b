"""Any vision-language model, asked whether the task is done: P(yes) against P(no) at the word of the answer.

After RoboFuME (Yang et al., 2023, arXiv:2310.15145), whose prompt and weights were not released; the wording is ours.
Without fine-tuning, expect it to miss many successes and check how often it sees one that is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from reward_models.interface import Capabilities, ClipQuery, Score, clip_score
from reward_models.vlm.config import YesNoSettings
from reward_models.vlm.images import Album, within
from reward_models.vlm.model import LargeModel, ask, identify
from reward_models.vlm.prompt import Backend
from reward_models.vlm.reading import one_against_other
from reward_models.vlm.wording import Wording

CODE = "yesno 1"
LONGEST_ANSWER = 8
ALTERNATIVES = 20
MIN_PIXELS = 12_544
PATCH_PX = 28

WORDINGS = {
    "done": Wording(
        user="""Camera image of a robot at work: {image}
Task: {task}
Is the task finished in this image? Answer with one word, yes or no."""
    )
}


class YesNo(LargeModel):
    """Any vision-language model as a `RewardModel` that says whether the task is done.

    Args:
        backend: Weights; a server has to give log-probabilities.
    """

    def __init__(self, backend: Backend, settings: YesNoSettings, wordings: dict[str, Wording]) -> None:
        params = settings.model_dump(include={"view", "max_pixels"})
        super().__init__(
            "yesno",
            identify(CODE, [backend.identity], wordings, params),
            Capabilities(done=True, views=(settings.view,), max_batch=backend.batch),
            [backend],
        )
        self._backend = backend
        self._settings = settings
        self._wording = wordings["done"]

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score the probability of "yes, it is done" for the last frame of each clip, in [0, 1]."""
        album = Album(within(min_pixels=MIN_PIXELS, max_pixels=self._settings.max_pixels, multiple_px=PATCH_PX))
        prompts = []
        for query in queries:
            self.capabilities.check(query.instruction, query.frames[-1:])
            image = album.image(query.frames[-1], self._settings.view)
            prompts.append(self._wording.fill(task=query.instruction.text, image=image))
        return ask(
            self._backend,
            prompts,
            lambda answer: one_against_other(answer.tokens, "yes", "no"),
            clip_score,
            max_tokens=LONGEST_ANSWER,
            top_logprobs=ALTERNATIVES,
            whole=False,  # all is said with the first word
        )
