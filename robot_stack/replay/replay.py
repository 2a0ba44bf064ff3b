"""Replay: an index over frames in memory that draws batches; labels and scores join when they come."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_stack.replay.columns import check_step
from robot_stack.replay.frames import NO_ROW, FrameTable
from robot_stack.replay.hindsight import Hindsight, Relabelled, relabel
from robot_stack.replay.identity import check_spec
from robot_stack.replay.outcome import Outcome, OutcomeColumn
from robot_stack.replay.pools import PoolIndex, Pools
from robot_stack.replay.potential import PotentialColumn
from robot_stack.replay.rewards import RewardRule, ended, monte_carlo, returns
from robot_stack.replay.sampling import Draw, check_draw, gather, refill
from robot_stack.replay.step_labels import HANDOVER_S
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.batch import Batch
from robot_stack.types.command import IN_HAND
from robot_stack.types.errors import ResumeError, SpecError, StoreError
from robot_stack.types.event import Label
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodePotential:
    """Φ along an episode.

    Attributes:
        header: Of the episode.
        phi: Φ of each frame, float64, shape (n,): of a demonstration all, of others those until an operator took the
            arm.
        outcome: Of the episode as it is now.
        alone: Whether no operator had the arm.
    """

    header: EpisodeHeader
    phi: np.ndarray
    outcome: Outcome
    alone: bool


class Replay:
    """The replay memory: transitions of all demo and online episodes. Safe for one writer and one sampler thread.

    Args:
        rule: What outcomes are worth.
        feature_size: F of a frozen trunk, or 0; then a transition counts once both frames have features.
        keep_images: False where features replace images.
        handover_s: Length of the blend when an operator takes over, whose steps are not imitated.
        task_ids: Of the tasks that batches are drawn from evenly; where there are fewer than two, evenly by transition.
        imitation_window: Frames over which the rise of Φ weighs what is imitated; 0: all of it weighs the same.
        hindsight: Of rows whose goal is relabelled, for a rule without shaping, as Φ is of the goal that was given;
            None: of no rows.
    """

    def __init__(
        self,
        spec: Spec,
        rule: RewardRule | None = None,
        *,
        feature_size: int = 0,
        keep_images: bool = True,
        handover_s: float = HANDOVER_S,
        task_ids: Sequence[str] = (),
        imitation_window: int = 0,
        hindsight: Hindsight | None = None,
    ) -> None:
        self.frames = FrameTable(spec, feature_size=feature_size, keep_images=keep_images, handover_s=handover_s)
        self.spec = spec
        self._rule = rule if rule is not None else RewardRule()
        self._hindsight = hindsight
        self._lock = threading.RLock()
        self._headers: dict[str, EpisodeHeader] = {}
        self._outcomes = OutcomeColumn()
        self._potential = PotentialColumn(imitation_window=imitation_window)
        self._index = PoolIndex(self.frames, task_ids)
        self._pools: Pools | None = None
        self._batches = 0
        self._settled = 0
        self._refused = {"steps": 0, "episodes": 0, "features": 0, "scores": 0}

    @property
    def pools(self) -> Pools:
        """Return the pools of transitions as they are now."""
        with self._lock:
            if self._pools is None:
                self._pools = self._index.pools(
                    (header, self._outcomes.of(episode_id))
                    for episode_id, header in sorted(self._headers.items())
                    if header.kind is not EpisodeKind.EVAL and self._outcomes.of(episode_id) is not Outcome.DISCARD
                )
            return self._pools

    @property
    def refused(self) -> dict[str, int]:
        """Return how many steps, episodes, features and scores did not fit or were not finite; none is drawn."""
        with self._lock:
            return {**self._refused, "scores": self._refused["scores"] + self._potential.rejected}

    def frame_count(self, episode_id: str) -> int:
        """Return the number of frames held of an episode, which is the index of the step it takes next."""
        with self._lock:
            return len(self.frames.episode(episode_id).rows) if episode_id in self._headers else 0

    def outcome(self, episode_id: str) -> Outcome:
        """Return the present outcome of an episode."""
        with self._lock:
            return self._outcomes.of(episode_id)

    def begin(self, header: EpisodeHeader) -> None:
        """Begin an episode; repeating it is harmless."""
        with self._lock:
            self._headers.setdefault(header.episode_id, header)
            self._settle(header.episode_id)

    def add_step(self, step: Step) -> bool:
        """Take the next step; False if it is there already, its episode has ended, or it is of an EVAL episode.

        Raises:
            StoreError: On a gap or an unknown episode.
            SpecError: If the step does not fit the spec.
        """
        with self._lock:
            header = self._header(step.episode_id)
            held = self.frame_count(step.episode_id)
            if header.kind is EpisodeKind.EVAL or step.index < held or step.episode_id in self._outcomes.ends:
                return False
            if step.index > held:
                raise StoreError(f"step index of {step.episode_id} is {step.index}, must be {held}; resend from there")
            with self._counting_refused("steps"):
                check_step(step, self.spec)
            self.frames.add(step, demo=header.kind is EpisodeKind.DEMO)
            self._pools = None
            if step.end is not None:
                self.end_episode(step.episode_id, step.end)
            return True

    def add_episode(self, episode: StoredEpisode) -> None:
        """Take an episode from disk, closed or not; images may be missing where features replace them.

        Raises:
            StoreError: If it is of another spec, or frames of it are held already.
            SpecError: If a value is not finite.
        """
        episode_id = episode.header.episode_id
        with self._lock, self._counting_refused("episodes"):
            check_spec(episode.spec, self.spec, f"episode {episode_id}")
            self.begin(episode.header)
            if episode.header.kind is EpisodeKind.EVAL:
                return
            if self.frame_count(episode_id):
                raise StoreError(f"frames of {episode_id} are {self.frame_count(episode_id)}, must be 0; add the steps")
            for name in ("proprio", "executed"):
                if not np.isfinite(episode.arrays[name]).all():
                    raise SpecError(f"{name} of {episode_id} is not finite, must be; set the episode aside")
            self.frames.add_episode(episode_id, episode.arrays, demo=episode.header.kind is EpisodeKind.DEMO)
            self._pools = None
            if episode.end is not None:
                self.end_episode(episode_id, episode.end)

    def end_episode(self, episode_id: str, end: EndReason) -> None:
        """End an episode at its newest frame, as when its actor is gone; a second end is ignored."""
        with self._lock:
            if self._header(episode_id).kind is EpisodeKind.EVAL:
                return
            if episode_id not in self._outcomes.ends:
                self._outcomes.ends[episode_id] = end
                self._settle(episode_id)
                self._potential.join(episode_id, self.frames.episode(episode_id))

    def set_features(self, episode_id: str, features: np.ndarray, start: int = 0) -> None:
        """Set the frozen trunk's features, float16 (n, F), of frames start, start+1, ..."""
        with self._lock:
            self._header(episode_id)
            with self._counting_refused("features"):
                self.frames.set_features(episode_id, features, start)
            self._pools = None

    def add_label(self, label: Label) -> None:
        """Take a label, also of an episode not known yet; it may flip outcome, reward and discount."""
        with self._lock:
            self._outcomes.add_label(label)
            self._settle(label.episode_id)

    def add_scores(self, scores: EpisodeScores) -> None:
        """Take scores of any version and episode, in any order; they count once version and episode are settled.

        Raises:
            StoreError: If they are malformed.
        """
        with self._lock:
            ended = scores.episode_id in self._outcomes.ends
            with self._counting_refused("scores"):
                self._potential.add(scores, self.frames.episode(scores.episode_id) if ended else None)

    @property
    def score_version(self) -> str | None:
        """Return the model version whose Φ shapes the reward, or None."""
        return self._potential.version

    def activate_scores(self, version: str | None) -> None:
        """Switch the shaping of rewards to Φ of `version` from the next draw on; None leaves the sparse reward."""
        with self._lock:
            self._potential.activate(version)
            for episode_id in self._outcomes.ends:
                self._potential.join(episode_id, self.frames.episode(episode_id))

    @property
    def revision(self) -> int:
        """Return a number that grows whenever Φ in use, or the outcome of an episode, changes."""
        with self._lock:
            return self._potential.changes + self._settled

    def potentials(self) -> list[EpisodePotential]:
        """Return Φ in use of every episode that has ended, is not discarded and has it, in order of their ids."""
        with self._lock:
            found = []
            for episode_id, header in sorted(self._headers.items()):
                outcome = self._outcomes.of(episode_id)
                if episode_id not in self._outcomes.ends or outcome is Outcome.DISCARD:
                    continue
                rows = np.asarray(self.frames.episode(episode_id).rows, np.int64)
                others = np.flatnonzero(np.isin(self.frames.column("source")[rows[:-1]], IN_HAND))
                alone = header.kind is not EpisodeKind.DEMO and not len(others)
                own = rows if alone or header.kind is EpisodeKind.DEMO else rows[: others[0] + 1]
                phi = self._potential.at(own)
                if len(phi) and not np.isnan(phi).any():
                    found.append(EpisodePotential(header=header, phi=phi, outcome=outcome, alone=alone))
            return found

    def draw(
        self,
        rng: np.random.Generator,
        batch_size: int,
        *,
        gamma: float,
        expert_fraction: float = 0.5,
        n_step: int = 1,
        chunk: int = 1,
        shift: int = 0,
    ) -> Draw:
        """Draw transitions, `expert_fraction` of them from the expert pool, uniformly and with replacement in each.

        Args:
            rng: Draws rows, then goals, then shifts.
            batch_size: B; may be larger than a pool, whose rows then come repeatedly.
            gamma: Discount per control tick, in (0, 1).
            expert_fraction: Share of expert rows, in [0, 1]; 1 as long as there are no online transitions.
            n_step: Transitions summed into one; without a chunk fewer where an operator takes over or gives back, since
                what follows is another's doing.
            chunk: C, actions per row; 1, or `n_step`. With more than 1, rows that cannot fill it give way to others of
                the draw, unless the task ended behind them: elsewhere a value lies behind actions that nobody made.
            shift: Pixels by which images are moved at most, up, down, left and right.

        Raises:
            StoreError: If there is nothing to draw from a pool, no chunk is whole, or an argument is out of range.
        """
        check_draw(batch_size, gamma=gamma, expert_fraction=expert_fraction, n_step=n_step, chunk=chunk)
        frames = self.frames
        frames.images.check_shift(shift)
        with self._lock:
            rows, expert = self.pools.draw(rng, batch_size, expert_fraction)
            path, steps = frames.walk(rows, n_step, one_driver=chunk == 1)
            if chunk > 1:
                chosen = refill(rng, self._whole(path, steps, chunk), expert)
                rows, expert, path, steps = rows[chosen], expert[chosen], path[chosen], steps[chosen]
            relabelled = None
            if self._hindsight is not None:
                relabelled, path, steps = relabel(self._hindsight, frames, rng, path, steps)
            shifts = frames.images.draw_shifts(rng, batch_size, shift) if shift else None
            self._batches += 1
            imitation = self._potential.imitation(rows, expert, self.pools.expert)
            return self._draw_of(
                path, steps, expert, imitation, gamma=gamma, chunk=chunk, shifts=shifts, relabelled=relabelled
            )

    def transitions(self, episode_id: str, most: int, *, gamma: float, n_step: int = 1, chunk: int = 1) -> Draw:
        """Return the transitions of one episode in order, all of them or `most` at even distances; nothing is random.

        Args:
            episode_id: Which episode; one that is held.
            most: Rows at most, 1 or more.
            chunk: As in `draw`; rows that cannot fill it are left out.
        """
        frames = self.frames
        with self._lock:
            rows = np.asarray(frames.episode(episode_id).rows, np.int64)
            rows = rows[frames.column("next_row")[rows] != NO_ROW]
            path, steps = frames.walk(rows, n_step, one_driver=chunk == 1)
            whole = np.flatnonzero(self._whole(path, steps, chunk))
            kept = whole[np.linspace(0, max(0, len(whole) - 1), min(most, len(whole))).astype(np.int64)]
            expert, imitation = np.zeros(len(kept), np.bool_), np.ones(len(kept), np.float32)
            return self._draw_of(path[kept], steps[kept], expert, imitation, gamma=gamma, chunk=chunk)

    def _whole(self, path: np.ndarray, steps: np.ndarray, chunk: int) -> np.ndarray:
        """Return which rows have all the actions that decide something, bool (B,): C, or all until the task ended.

        Source: the `valid` mask of Q-chunking, Li et al., 2025, arXiv:2507.07969.
        """
        return np.asarray((chunk == 1) | (steps == chunk) | ended(self._outcomes.at(path[:, -1])))

    def _draw_of(
        self,
        path: np.ndarray,
        steps: np.ndarray,
        expert: np.ndarray,
        imitation: np.ndarray,
        *,
        gamma: float,
        chunk: int,
        shifts: dict[str, np.ndarray] | None = None,
        relabelled: Relabelled | None = None,
    ) -> Draw:
        """Build the draw of transitions that `FrameTable.walk` has followed, rewarded as things stand now."""
        frames, rows, next_rows = self.frames, path[:, 0], path[:, -1]
        last_rows = frames.last_rows(rows)
        phi, outcome, tick = self._potential.at(rows), self._outcomes.at(next_rows), frames.column("tick")
        if relabelled is not None:
            there = relabelled.rows[relabelled.reached]
            outcome[there] = np.where(outcome[there] == Outcome.FAILURE, Outcome.FAILURE, Outcome.SUCCESS)
        reward, discount = returns(
            self._rule,
            gamma,
            steps=tick[next_rows] - tick[rows],  # more than were made where the last came late
            outcome=outcome,
            phi=phi,
            next_phi=self._potential.at(next_rows),
        )
        mc_return = monte_carlo(
            self._rule,
            gamma,
            steps=tick[last_rows] - tick[rows],
            outcome=self._outcomes.at(last_rows),
            phi=phi,
        )
        if relabelled is not None:
            mc_return[relabelled.rows] = np.nan  # what was done later went for another goal
        return Draw(
            rows=rows,
            next_rows=next_rows,
            action_rows=np.where(np.arange(chunk) < steps[:, None], path[:, :chunk], NO_ROW),
            reward=reward,
            discount=discount,
            mc_return=mc_return,
            expert=expert,
            imitation=imitation,
            shifts=shifts,
            relabelled=relabelled,
        )

    def sample(
        self,
        rng: np.random.Generator,
        batch_size: int,
        *,
        gamma: float,
        expert_fraction: float = 0.5,
        n_step: int = 1,
        chunk: int = 1,
        shift: int = 0,
    ) -> Batch:
        """Draw transitions as `draw` does, and gather them into a batch."""
        draw = self.draw(
            rng, batch_size, gamma=gamma, expert_fraction=expert_fraction, n_step=n_step, chunk=chunk, shift=shift
        )
        return gather(self.frames, draw)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs to know of the replay, as JSON; the frames themselves are on disk."""
        with self._lock:
            return {
                "batches": self._batches,
                "score_version": self._potential.version,
                "scored_episodes": self._potential.scored(self._potential.version),
                "labels": self._outcomes.label_count,
                "episodes": {i: len(self.frames.episode(i).rows) for i in sorted(self._outcomes.ends)},
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, after episodes, labels and scores were loaded.

        Raises:
            ResumeError: If something that was there at the checkpoint is missing; the message names it.
        """
        with self._lock:
            for episode_id, frames in state["episodes"].items():
                if self.frame_count(episode_id) != frames or episode_id not in self._outcomes.ends:
                    raise ResumeError(
                        f"episode {episode_id} has {self.frame_count(episode_id)} frames, must have {frames} as at "
                        "the checkpoint; restore it or start a new run"
                    )
            version = state["score_version"]
            if (found := self._outcomes.label_count) < (wanted := state["labels"]):
                raise ResumeError(f"number of labels is {found}, must be {wanted} or more as at the checkpoint")
            if missing := set(state["scored_episodes"]).difference(self._potential.scored(version)):
                raise ResumeError(
                    f"episodes without scores by {version} are {sorted(missing)}, must be none that had them at the "
                    "checkpoint; restore them or start a new run"
                )
            self.activate_scores(version)
            self._batches = int(state["batches"])

    @contextmanager
    def _counting_refused(self, what: str) -> Iterator[None]:
        try:
            yield
        except (SpecError, StoreError):
            self._refused[what] += 1
            raise

    def _header(self, episode_id: str) -> EpisodeHeader:
        if episode_id not in self._headers:
            raise StoreError(f"episode is {episode_id!r}, must be one that has begun; call begin first")
        return self._headers[episode_id]

    def _settle(self, episode_id: str) -> None:
        rows = self.frames.episode(episode_id).rows if episode_id in self._headers else []
        if self._outcomes.settle(episode_id, rows[-1] if rows else None):
            self._settled += 1
            self._pools = None
        if rows and episode_id in self._outcomes.ends:
            self.frames.mark_end(episode_id, terminal=bool(ended(np.array(self._outcomes.of(episode_id)))))
