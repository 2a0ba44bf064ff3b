"""A live reward model behind its frozen trunk, as a reward model that takes images like any other."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from policies.encoders.config import EmbeddedConfig
from policies.encoders.embedded import DemoFrames
from policies.encoders.registry import make_trunk
from policies.encoders.thumbnails import thumbnails_of
from policies.encoders.trunk import Trunk
from reward_models.classifier.config import ClassifierConfig
from reward_models.classifier.model import SuccessClassifier
from reward_models.classifier_gated import ClassifierGatedModel, labelled
from reward_models.decode import gated
from reward_models.interface import (
    Capabilities,
    ClipQuery,
    Frame,
    OtherWords,
    PairQuery,
    Score,
    Unsupported,
    clip_score,
    pair_score,
)
from reward_models.model_per_task import ModelPerTask
from reward_models.progress.clips import ScoredEpisode, prefix_indices
from reward_models.progress.config import LiveRewardConfig, ProgressConfig
from reward_models.progress.model import FrameScores, ProgressModel, plain_columns
from robot_stack.learner.data.training_data import distance_progress, proprio_columns, reward_inputs, to_go
from robot_stack.learner.fitting import OnStep, RewardNetwork, fit_reward, image_shapes
from robot_stack.types.errors import RewardError
from robot_stack.types.spec import Spec
from sim.episodes import GeneratedEpisode

KEPT = 4096
"""Frames whose features are remembered: an episode is asked about frame by frame."""


WHOLE = 100_000
"""Frames that a model looks at which says nothing of a window."""


class EmbeddedModel:
    """A live reward model as a `RewardModel`: scores frames by images of the trunk's cameras and proprio.

    It is of one task, whose words it is given and does not read; any other task is refused.

    Args:
        trunk: Of the run.
        model: Of the task; of one for several tasks, the part of the first.
        name: Under which it is registered.
        gate: How fast Φ stops following where its members contradict each other, as the run's settings have it.

    Attributes:
        network: The model without a classifier beside it.
        classifier: The classifier beside it, None without one.
    """

    def __init__(self, trunk: Trunk, model: RewardNetwork, name: str = "progress", *, gate: float = 0.0) -> None:
        self.trunk, self.name, self._gate = trunk, name, gate
        model = model.first if isinstance(model, ModelPerTask) else model
        self.network = model.model if isinstance(model, ClassifierGatedModel) else model
        self._ensemble = self.network if isinstance(self.network, ProgressModel) else None
        self.classifier = model.classifier if isinstance(model, ClassifierGatedModel) else None
        self._rows = _InputRows(trunk)
        self.version = f"{trunk.identity}-{model.version}"
        self.capabilities = Capabilities(
            pair=None if self._ensemble is None else "hop",
            progress=True,
            done=True,
            views=tuple(sorted(trunk.shapes)),
            history=WHOLE if self._ensemble is None else self._ensemble.config.window,
            max_batch=256,
        )

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Score pairs of frames by their hop, see `RewardModel`."""
        if self._ensemble is None:
            raise Unsupported(f"reward model {self.name} scores no pairs, must be asked about clips")
        if not queries:
            return []
        self._check_words(queries)
        rows = self._inputs([frame for query in queries for frame in (query.before, query.after)])
        return [pair_score(float(hop)) for hop in self._ensemble.compare(rows[::2], rows[1::2])]

    def looked_at(self, frames: Sequence[Frame]) -> tuple[FrameScores, np.ndarray]:
        """Return the scores of an episode's frames and its standardised inputs, as a run's monitor reads them."""
        rows = self._inputs(frames)
        return self.network.score(rows), self.network.standardised(rows)

    def _check_words(self, queries: Sequence[PairQuery] | Sequence[ClipQuery]) -> None:
        """Refuse every task but that which the model was fitted on: it is of one task, and knows no other's progress.

        Raises:
            OtherWords: If a question is about another one.
        """
        for query in queries:
            if query.instruction.text != self.network.text:
                raise OtherWords(
                    f"task is {query.instruction.text[:200]!r}, must be {self.network.text!r}, on which reward model "
                    f"{self.network.version} was fitted; it reads no language, so take those words or fit it anew"
                )

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score clips by their progress Φ, see `RewardModel`."""
        phi = self._gated(queries) if self._gate else self._score(queries).progress
        return [clip_score(float(value)) for value in phi]

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score clips by the probability of success, see `RewardModel`."""
        return [clip_score(float(p)) for p in self._score(queries).success]

    def _score(self, queries: Sequence[ClipQuery]) -> FrameScores:
        self._check_words(queries)
        if self._ensemble is None:
            return self._score_each(queries)
        window = self._ensemble.config.window
        shown = [[q.frames[i] for i in prefix_indices(len(q.frames) - 1, window)] for q in queries]
        rows = self._inputs([frame for clip in shown for frame in clip]).reshape(len(queries), window, -1)
        scores = self._ensemble.score_prefixes(rows)
        if self.classifier is not None:
            seen = self.classifier.score(rows[:, -1, self._ensemble.plain]) >= self.classifier.threshold
            return scores._replace(success=np.where(seen, scores.success, np.float32(0)))
        return scores

    def _gated(self, queries: Sequence[ClipQuery]) -> np.ndarray:
        """Return the gated Φ of the last frame of each clip, for which all frames before it are scored too."""
        found = np.empty(len(queries))
        for i, query in enumerate(queries):
            prefixes = [replace(query, frames=query.frames[: t + 1]) for t in range(len(query.frames))]
            scores = self._score(prefixes)
            found[i] = gated(scores.progress, scores.spread, alpha=self._gate)[-1]
        return found

    def _score_each(self, queries: Sequence[ClipQuery]) -> FrameScores:
        """Score clips one by one, as any live model can."""
        found = []
        for query in queries:
            rows = self._inputs(query.frames)
            found.append([float(part[0]) for part in self.network.score(rows, len(rows) - 1)[:3]])
        return FrameScores(*np.array(found, np.float32).reshape(-1, 3).T)

    def _inputs(self, frames: Sequence[Frame]) -> np.ndarray:
        wanted = None if self._ensemble is None else self._ensemble.inputs
        rows = self._rows.of(frames)
        if not len(rows):
            return np.zeros((0, wanted or 0), np.float32)
        if wanted is not None and rows.shape[1] != wanted:
            raise RewardError(
                f"inputs of a frame are {rows.shape[1]}, must be {wanted}; its proprio is of another task"
            )
        return rows


class EmbeddedClassifier:
    """The success classifier behind its frozen trunk as a `RewardModel`, which only says whether the task is done."""

    name = "classifier"

    def __init__(self, trunk: Trunk, classifier: SuccessClassifier) -> None:
        self._rows, self._classifier = _InputRows(trunk), classifier
        self._thumbnails = thumbnails_of(trunk)
        self.version = f"{trunk.identity}-{classifier.version}"
        self.capabilities = Capabilities(done=True, views=tuple(sorted(trunk.shapes)), max_batch=256)

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Raise `Unsupported`: it knows one frame at a time."""
        raise Unsupported("pair question to classifier has no answer, must be whether a frame shows the finished task")

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Raise `Unsupported`: it knows no progress."""
        raise Unsupported("progress question to classifier has no answer, must be whether a frame shows the end")

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score the last frame of each clip by the probability of success."""
        if not queries:
            return []
        rows = self._rows.of([query.frames[-1] for query in queries])
        found = self._classifier.score(rows[:, plain_columns(rows.shape[1], self._thumbnails)])
        return [clip_score(float(p)) for p in found]


class _InputRows:
    """A memory of the inputs of models on a trunk's features: a frame goes through the trunk once while it is kept."""

    def __init__(self, trunk: Trunk) -> None:
        self.trunk = trunk
        self._rows: OrderedDict[str, np.ndarray] = OrderedDict()

    def of(self, frames: Sequence[Frame]) -> np.ndarray:
        """Return features and proprio of the frames, float32, shape (N, D); (0,) without frames."""
        fresh = list({frame.key: frame for frame in frames if frame.key not in self._rows}.values())
        for frame in fresh:
            if frame.proprio is None:
                raise RewardError("proprio of a frame is missing, must be there; the embedded model reads it")
            for view, shape in self.trunk.shapes.items():
                if frame.view(view).shape != tuple(shape):
                    raise RewardError(
                        f"view {view} is {frame.view(view).shape}, must be {tuple(shape)} as the trunk was trained on; "
                        "resize it"
                    )
        if fresh:
            images = {view: np.stack([frame.view(view) for frame in fresh]) for view in self.trunk.shapes}
            proprio = np.stack([np.asarray(frame.proprio, np.float32) for frame in fresh])
            for frame, row in zip(fresh, reward_inputs(self.trunk.encode(images), proprio), strict=True):
                self._rows[frame.key] = row
        found = [self._rows[frame.key] for frame in frames]
        for frame in frames:
            self._rows.move_to_end(frame.key)
        while len(self._rows) > KEPT:
            self._rows.popitem(last=False)
        return np.stack(found) if found else np.zeros(0, np.float32)


def fit_embedded(
    demos: Sequence[GeneratedEpisode],
    spec: Spec,
    *,
    seed: int,
    config: LiveRewardConfig,
    on_step: OnStep = lambda step, steps, loss: None,
) -> EmbeddedModel:
    """Fit the embedded model on nothing but successful demonstrations: first its trunk, then itself.

    Args:
        demos: At least one.
        spec: Of the cell that they were made in.
        seed: Seeds weights and draws.
        config: Of the live reward model.
        on_step: Told of each step of either fit.

    Raises:
        RewardError: If there is no successful demonstration.
    """
    trunk = _fit_trunk(demos, spec, seed=seed, on_step=on_step)
    episodes = [scored_episode(demo, trunk, spec, config) for demo in demos]
    model, _, _ = fit_reward(episodes, config, text=demos[0].text, seed=seed, on_step=on_step)
    return EmbeddedModel(trunk, model, config.part, gate=config.gate)


def fit_classifier(
    demos: Sequence[GeneratedEpisode],
    spec: Spec,
    *,
    seed: int,
    config: ClassifierConfig,
    on_step: OnStep = lambda step, steps, loss: None,
) -> EmbeddedClassifier:
    """Fit the success classifier on nothing but successful demonstrations, as `fit_embedded` does its model.

    Raises:
        RewardError: If there are fewer than two successful demonstrations.
    """
    trunk = _fit_trunk(demos, spec, seed=seed, on_step=on_step)
    episodes = [scored_episode(demo, trunk, spec, ProgressConfig()) for demo in demos]
    plain = plain_columns(episodes[0].frames.shape[1], episodes[0].thumbnails)
    classifier, _ = SuccessClassifier.fit(labelled(episodes, plain), config, seed=seed, on_step=on_step)
    return EmbeddedClassifier(trunk, classifier)


def _fit_trunk(demos: Sequence[GeneratedEpisode], spec: Spec, *, seed: int, on_step: OnStep) -> Trunk:
    shown = [
        DemoFrames(images=demo.images, proprio=demo.proprio, actions=demo.actions, to_go=to_go(demo.proprio, spec))
        for demo in demos
    ]
    return make_trunk("embedded", image_shapes(spec), EmbeddedConfig(), demos=shown, seed=seed, on_step=on_step)


def scored_episode(demo: GeneratedEpisode, trunk: Trunk, spec: Spec, config: LiveRewardConfig) -> ScoredEpisode:
    """Encode a synthetic episode, and label it as the run would."""
    frames = reward_inputs(trunk.encode(demo.images), demo.proprio)
    return ScoredEpisode(
        frames=frames,
        success=demo.success,
        done_frames=1 if demo.done_at is None else len(demo.proprio) - demo.done_at,
        progress=distance_progress(demo.proprio, spec) if config.labels == "distance" and demo.success else None,
        thumbnails=thumbnails_of(trunk),
        parts=proprio_columns(frames.shape[1], spec),
    )
