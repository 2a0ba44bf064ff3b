"""How a reward model generalises: its figures where a scene is not as in the demonstrations, a factor at a time.

The model is fitted once, on demonstrations of the scene as it is. Each row then has synthetic episodes of its own, of
all kinds, in which one factor draws from its held-out range; another row has the task in other words. Beside what the
model says stands whether a run would notice: which alarms of its monitor rise (`reward_models.alarms`) while episodes
of the row come one after the other that could come in a run, those in which hand and part stay together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from reward_models.alarms import EpisodeEvidence, Normal, Watch, nearest_distance
from reward_models.evaluate.accuracy import accuracy, discrimination, ordering
from reward_models.evaluate.document import jsonable
from reward_models.evaluate.estimate import UNKNOWN, Estimate, Rate
from reward_models.evaluate.harness import judge_all
from reward_models.evaluate.judge import CLASSES, Judged, thinned
from reward_models.interface import Frame, LabelledEpisode
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.reward.embedded import EmbeddedModel
from robot_stack.learner.reward.evaluation import GeneratedModel, Say, done_rule, generated_model
from robot_stack.learner.reward.judged_model import Wanted
from robot_stack.learner.reward.synthetic import frames_of, generate, labelled, shared_out
from robot_stack.types.errors import RewardError
from robot_stack.workcell.variations import AS_TRAINED, rows, tested_override, words

PARAPHRASE = "words"
"""The row in which the task is said in other words."""
OTHER_WORDS = "put the orange peg into the hole of the blue block"
WANTED_VOC, WANTED_FALSE = 0.85, 0.02
"""What a model must keep where the scene is another, unless the run's monitor says that it is."""
OF_THE_SCENE = ("disagreement", "unfamiliar", "lacking")
"""The alarms that need no operator and say that a scene is another one."""


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
        alarms: Kinds of alarm that a run's monitor would raise; None of a model that is not watched in this way.
        refused: Episodes that the model refused, but for those that ask for another task.
        why: Why it refused the first of them, "" if none.
    """

    varied: str
    voc: Estimate
    mae: Estimate
    auc: Estimate
    false_done: Rate
    missed: Rate
    alarms: tuple[str, ...] | None
    refused: int
    why: str

    @property
    def holds(self) -> bool | None:
        """Return whether order and verdicts are as they must be; None where one of them is not known."""
        if not self.false_done.n or not self.voc.n:
            return None
        return self.voc.value >= WANTED_VOC and self.false_done.count <= WANTED_FALSE * self.false_done.n

    def document(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        said: dict[str, Any] = jsonable(asdict(self) | {"holds": self.holds})
        return said


def evaluate_generalisation(
    resolve: Callable[[Sequence[str]], ResolvedRun], *, wanted: Wanted | None, episodes: int, seed: int, say: Say
) -> tuple[GeneratedModel, Iterator[tuple[str, Generalised]]]:
    """Evaluate a model on synthetic episodes row by row, the row as in the demonstrations first.

    Args:
        resolve: The run under overrides `dotted.key=value`.
        wanted: Which model; None is the live one of the run.
        episodes: Of each row, shared out over all kinds.
        seed: Of demonstrations, fit and episodes; those of all rows have the same seeds.
        say: Told how far it is.

    Returns:
        The model, and the rows as they are measured.

    Raises:
        ConfigError: If no synthetic episodes can be made of the task, they are too few, or the model's settings are
            missing.
        RewardError: If the model cannot be had, or, from the rows, if it can be asked about no episode of the first.
    """
    plain, counts = resolve(()), shared_out(episodes)
    about = generated_model(plain, wanted=wanted, seed=seed, say=say)
    table = _Table(about, plain, seed, say)

    def found() -> Iterator[tuple[str, Generalised]]:
        for row, tested in rows(plain).items():
            varied = resolve([tested_override(tested)]) if tested else plain
            made = generate(varied, counts, seed=(seed, 1), on_episode=_told(say, f"synthetic episode, {row}"))
            shown = labelled(made, shown=about.demos[0])
            yield row, table.row(row, words(plain, tested), shown)
            if row == AS_TRAINED:
                other = [replace(e, instruction=replace(e.instruction, text=OTHER_WORDS)) for e in _of_the_task(shown)]
                yield PARAPHRASE, table.row(PARAPHRASE, f"the task as {OTHER_WORDS!r}", other)

    return about, found()


def _told(say: Say, what: str) -> Callable[[int, int], None]:
    return lambda number, count: say(what, number, count)


def _of_the_task(episodes: Sequence[LabelledEpisode]) -> list[LabelledEpisode]:
    return [episode for episode in episodes if episode.kind != "mismatch"]


class _Table:
    """The rows of one model, each from its episodes."""

    def __init__(self, about: GeneratedModel, resolved: ResolvedRun, seed: int, say: Say) -> None:
        self._about, self._seed, self._say = about, seed, say
        self._rule, self._dt_s = done_rule(resolved), resolved.spec().period_s * about.every
        self._monitor = SceneMonitor.of(about)

    def row(self, name: str, varied: str, episodes: Sequence[LabelledEpisode]) -> Generalised:
        """Judge the episodes of one row, and watch those that could come in a run."""
        judged: list[Judged] = []
        refused: dict[str, str] = {}
        watched: list[EpisodeEvidence] = []
        for number, episode in enumerate(episodes, start=1):
            found, _, why, _ = judge_all(self._about.model, [thinned(episode, self._about.every)], self._rule)
            judged += found
            refused |= why
            if self._monitor is not None and found and CLASSES.get(episode.kind) != "apart":
                watched.append(self._monitor.evidence(episode.frames))
            self._say(f"scored episode, {name}", number, len(episodes))
        if not judged and name == AS_TRAINED:
            first, why_not = next(iter(refused.items()))
            raise RewardError(f"none of {len(episodes)} episodes could be scored; of {first}: {why_not}")
        return self._figures(
            varied, judged, watched, [refused[e.name] for e in _of_the_task(episodes) if e.name in refused]
        )

    def _figures(
        self, varied: str, judged: Sequence[Judged], watched: Sequence[EpisodeEvidence], refused: Sequence[str]
    ) -> Generalised:
        rng = np.random.default_rng(self._seed)
        found = discrimination(judged, rng, dt_s=self._dt_s) if judged else None
        by_class = accuracy(judged, rng)
        monitor = self._monitor
        return Generalised(
            varied=varied,
            voc=ordering(judged, rng).voc,
            mae=by_class["success"].mae if "success" in by_class else UNKNOWN,
            auc=UNKNOWN if found is None else found.auc,
            false_done=Rate.of(0, 0) if found is None else found.false_done,
            missed=Rate.of(0, 0) if found is None else found.missed,
            alarms=None if monitor is None or not watched else monitor.alarms(watched, rng),
            refused=len(refused),
            why=refused[0] if refused else "",
        )


class SceneMonitor:
    """The part of a run's monitor that needs no operator: does the scene look like another one?

    Args:
        model: Embedded.
        about: With the demonstrations that it was fitted on, at least two: each is held against the others to learn
            what is usual.
    """

    def __init__(self, model: EmbeddedModel, about: GeneratedModel) -> None:
        assert about.alarms is not None
        self._model, self._config = model, about.alarms
        demos = [frames_of(demo) for demo in about.demos]
        known = [model.looked_at(frames)[1] for frames in demos]
        self._known = np.concatenate(known)
        self._normal = Normal.of(
            [
                self._held_against(frames, np.concatenate([*known[:number], *known[number + 1 :]]))
                for number, frames in enumerate(demos)
            ]
        )

    @classmethod
    def of(cls, about: GeneratedModel) -> SceneMonitor | None:
        """Return the monitor of a model that was fitted here and has alarms, None of any other."""
        if not isinstance(about.model, EmbeddedModel) or about.alarms is None:
            return None
        return cls(about.model, about)

    def evidence(self, frames: Sequence[Frame]) -> EpisodeEvidence:
        """Return what an episode tells of the scene; all of its frames, as a run scores them."""
        return self._held_against(frames, self._known)

    def alarms(self, episodes: Sequence[EpisodeEvidence], rng: np.random.Generator) -> tuple[str, ...]:
        """Return the kinds of alarm that episodes raise which come one after the other, in a drawn order."""
        watch = Watch(self._config, self._normal)
        raised = {alarm.kind for number in rng.permutation(len(episodes)) for alarm in watch.add(episodes[number])}
        return tuple(kind for kind in OF_THE_SCENE if kind in raised)

    def _held_against(self, frames: Sequence[Frame], known: np.ndarray) -> EpisodeEvidence:
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
