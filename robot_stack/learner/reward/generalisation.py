"""How a reward model generalises: its figures where a scene is not as in the demonstrations, a factor at a time.

The model is fitted once, on demonstrations of the scene as it is. Each row then has synthetic episodes of their own, of
all kinds, in which one factor draws from its held-out range; another row has the task in other words. Beside what the
model says stands whether a run would notice: in how many episodes its monitor finds the model's members at odds, or the
frames unlike all that it was fitted on (`reward_models.alarms`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from reward_models.alarms import AlarmConfig, EpisodeEvidence, Normal, nearest_distance
from reward_models.evaluate.accuracy import accuracy, discrimination, ordering
from reward_models.evaluate.document import jsonable
from reward_models.evaluate.estimate import UNKNOWN, Estimate, Rate
from reward_models.evaluate.harness import judge_all
from reward_models.evaluate.judge import thinned
from reward_models.interface import Frame, LabelledEpisode
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.reward.embedded import EmbeddedModel
from robot_stack.learner.reward.evaluation import GeneratedModel, Say, done_rule, generated_model
from robot_stack.learner.reward.judged_model import Wanted
from robot_stack.learner.reward.synthetic import frames_of, generate, labelled, shared_out
from robot_stack.workcell.variations import rows, tested_override, words

PARAPHRASE = "words"
"""The row in which the task is said in other words."""
OTHER_WORDS = "put the orange peg into the hole of the blue block"
WANTED_VOC, WANTED_FALSE = 0.85, 0.02
"""What a model must keep where the scene is another, unless the run's monitor says that it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generalised:
    """The figures of a reward model in one row.

    Attributes:
        varied: What is not as in the demonstrations, in words.
        voc: Order in time on successes.
        mae: Mean absolute error of Φ on successes.
        auc: Successes told from all others by the final Φ.
        false_done: Episodes without success in which the rule ever said done.
        missed: Successes in which it never did.
        strange: Episodes that the monitor of a run would call strange; None of a model that has no such watch.
        refused: Episodes that the model refused.
        why: Why it refused the first of them, "" if none.
    """

    varied: str
    voc: Estimate
    mae: Estimate
    auc: Estimate
    false_done: Rate
    missed: Rate
    strange: Rate | None
    refused: int
    why: str

    @property
    def noticed(self) -> bool:
        """Return whether the monitor's alarm, three of five episodes, would ring in this scene."""
        alarms = AlarmConfig()
        return self.strange is not None and 5 * self.strange.count >= alarms.strange_episodes * self.strange.n > 0

    @property
    def holds(self) -> bool | None:
        """Return whether order and verdicts are as they must be; None where all episodes were refused."""
        if not self.false_done.n or not self.voc.n:
            return None
        return self.voc.value >= WANTED_VOC and self.false_done.count <= WANTED_FALSE * self.false_done.n

    def document(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        said: dict[str, Any] = jsonable(asdict(self) | {"noticed": self.noticed, "holds": self.holds})
        return said


def evaluate_generalisation(
    resolve: Callable[[Sequence[str]], ResolvedRun], *, wanted: Wanted | None, episodes: int, seed: int, say: Say
) -> Iterator[tuple[str, Generalised]]:
    """Evaluate a model on synthetic episodes row by row, the row as in the demonstrations first.

    Args:
        resolve: The run under overrides `dotted.key=value`.
        wanted: Which model; None is the live one of the run.
        episodes: Of each row, shared out over all kinds.
        seed: Of demonstrations, fit and episodes; those of all rows have the same seeds.
        say: Told how far it is.

    Raises:
        ConfigError: If no synthetic episodes can be made of the task, they are too few, or the model's settings are
            missing.
        RewardError: If the model cannot be had.
    """
    plain, counts = resolve(()), shared_out(episodes)
    about = generated_model(plain, wanted=wanted, seed=seed, say=say)
    watch = StrangeWatch.of(about)
    as_shown: list[LabelledEpisode] = []
    for row, tested in rows(plain).items():
        varied = resolve([tested_override(tested)]) if tested else plain
        made = generate(varied, counts, seed=(seed, 1), on_episode=_told(say, row))
        shown = labelled(made, shown=about.demos[0])
        as_shown = as_shown or shown
        yield row, _row(words(plain, tested), about, watch, shown, plain, seed)
    said = [replace(e, instruction=replace(e.instruction, text=OTHER_WORDS)) for e in as_shown if e.kind != "mismatch"]
    yield PARAPHRASE, _row(f"the task as {OTHER_WORDS!r}", about, watch, said, plain, seed)


def _told(say: Say, row: str) -> Callable[[int, int], None]:
    return lambda number, count: say(f"synthetic episode, {row}", number, count)


def _row(
    varied: str,
    about: GeneratedModel,
    watch: StrangeWatch | None,
    episodes: Sequence[LabelledEpisode],
    resolved: ResolvedRun,
    seed: int,
) -> Generalised:
    rng = np.random.default_rng(seed)
    asked = [thinned(episode, about.every) for episode in episodes]
    judged, kept, refused, _ = judge_all(about.model, asked, done_rule(resolved))
    told = [e for e in asked if e.kind != "mismatch"]
    odd = None if watch is None else Rate.of(sum(watch.strange(e.frames) for e in kept), len(kept))
    others = [why for name, why in refused.items() if name in {e.name for e in told}]
    dt_s = resolved.spec().period_s * about.every
    found = discrimination(judged, rng, dt_s=dt_s) if judged else None
    by_class = accuracy(judged, rng)
    return Generalised(
        varied=varied,
        voc=ordering(judged, rng).voc,
        mae=by_class["success"].mae if "success" in by_class else UNKNOWN,
        auc=UNKNOWN if found is None else found.auc,
        false_done=Rate.of(0, 0) if found is None else found.false_done,
        missed=Rate.of(0, 0) if found is None else found.missed,
        strange=odd,
        refused=len(others),
        why=others[0] if others else "",
    )


class StrangeWatch:
    """The part of a run's monitor that needs no operator: is an episode unlike the demonstrations?

    Args:
        model: Embedded.
        demos: Those that it was fitted on, at least two: each is held against the others to learn what is usual.
    """

    def __init__(self, model: EmbeddedModel, demos: Sequence[tuple[Frame, ...]]) -> None:
        self._model, self._share = model, AlarmConfig().strange_share
        known = [model.looked_at(frames)[1] for frames in demos]
        self._known = np.concatenate(known)
        self._normal = Normal.of(
            [
                self._evidence(frames, np.concatenate([*known[:number], *known[number + 1 :]]))
                for number, frames in enumerate(demos)
            ]
        )

    @classmethod
    def of(cls, about: GeneratedModel) -> StrangeWatch | None:
        """Return the watch over a model that was fitted here, None over any other."""
        if not isinstance(about.model, EmbeddedModel):
            return None
        return cls(about.model, [frames_of(demo) for demo in about.demos])

    def strange(self, frames: Sequence[Frame]) -> bool:
        """Return whether a monitor would call an episode strange."""
        shares = self._normal.strangeness(self._evidence(frames, self._known))
        return max(shares.values()) >= self._share

    def _evidence(self, frames: Sequence[Frame], known: np.ndarray) -> EpisodeEvidence:
        scores, inputs = self._model.looked_at(frames)
        return EpisodeEvidence(
            name="",
            progress=scores.progress,
            spread=scores.spread,
            distance=nearest_distance(inputs, known),
            claimed_at=None,
            refused=False,
            lacking=scores.lacking,
        )
