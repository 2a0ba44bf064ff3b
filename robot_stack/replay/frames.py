"""Frames of all episodes in memory, each stored once. A transition is a frame and a link to the next one.

Rows are in order of arrival, so episodes of several actors may interleave; `next_row` follows the episode, never
the neighbouring row. A frame is linked once it is complete: recorded, and, with a frozen trunk, featured. Two frames
between which a control tick was missed are not linked: what was executed there is the mean over a longer time than
an action lasts, so they are no transition of the task. The one into the end of a task is linked all the same: no value
lies behind it that the longer time could spoil, and without it no row would lead to the outcome.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.grippers import DiscreteGrippers
from robot_stack.replay.image_rows import ImageRows
from robot_stack.replay.step_labels import HANDOVER_S, StepLabels
from robot_stack.types.command import IN_HAND, Source
from robot_stack.types.errors import StoreError
from robot_stack.types.spec import Spec
from robot_stack.types.transition import ActionRow, Step

NO_ROW = -1
LONGEST_PERIODS = 1.5
"""Time between two frames beyond which a control tick was missed: the cell was blind, or the loop overran."""
MOST_TICKS = 1000
"""A longer time between two frames counts as so many: nothing is left of a value behind it, and a clock that jumps by
years asks for no table of that length."""
_FIRST_ROWS = 1024


class EpisodeRows:
    """The rows of one episode in a frame table, frame by frame.

    Attributes:
        number: Index of the episode in order of arrival.
        rows: Row of each frame.
        featured: Frames whose features are set, counted from the start.
        linked: Frames that are complete; transitions run between these.
        grippers_open: Which discrete grippers are open after the newest action, bool, shape (G,).
        stamp_ns: Of the newest frame.
        tick: Control tick of the newest frame, counted from the first; missed ticks count.
        late: Frames that came after a missed tick.
        terminal: Whether the task has ended at the newest frame.
        in_hand: For how many steps an operator has had each arm without a break, int64, shape (N,).
    """

    __slots__ = (
        "featured", "grippers_open", "in_hand", "late", "linked", "number", "rows", "stamp_ns", "terminal", "tick"
    )  # fmt: skip

    def __init__(self, number: int, arms: int) -> None:
        self.number = number
        self.rows: list[int] = []
        self.featured = 0
        self.linked = 0
        self.grippers_open = np.empty(0, np.bool_)
        self.stamp_ns = 0
        self.tick = 0
        self.late: set[int] = set()
        self.terminal = False
        self.in_hand = np.zeros(arms, np.int64)


class FrameTable:
    """A table of all frames in memory, with growing columns.

    Rows once written stay as they are, so readers need no lock for them.

    Args:
        feature_size: F of the frozen trunk over all cameras, or 0 without one.
        keep_images: False where features replace images, as with a frozen trunk.
        handover_s: Length of the blend when an operator takes over.
    """

    def __init__(
        self, spec: Spec, *, feature_size: int = 0, keep_images: bool = True, handover_s: float = HANDOVER_S
    ) -> None:
        self._feature_size = feature_size
        self._period_ns = spec.period_s * 1e9
        self._longest_ns = LONGEST_PERIODS * self._period_ns
        self._grippers = DiscreteGrippers(spec)
        self._labels = StepLabels(spec, handover_s=handover_s)
        self._arms = len(spec.arms)
        self.images = ImageRows({c.name: c.shape for c in spec.cameras} if keep_images else {})
        self._last_rows = np.empty(0, np.int64)
        self._episodes: dict[str, EpisodeRows] = {}
        self._numbered: list[EpisodeRows] = []
        self._size = 0
        self._columns: dict[str, np.ndarray] = {
            "proprio": np.empty((0, spec.proprio_size), np.float32),
            "executed": np.empty((0, spec.action_size), np.float32),
            "proposed": np.empty((0, spec.action_size), np.float32),
            "features": np.empty((0, feature_size), np.float16),
            "source": np.empty(0, np.uint8),
            "label": np.empty((0, spec.action_size), np.bool_),
            "gripper_change": np.empty((0, len(self._grippers)), np.bool_),
            "episode": np.empty(0, np.int32),
            "frame": np.empty(0, np.int32),
            "tick": np.empty(0, np.int32),
            "next_row": np.empty(0, np.int64),
        }

    def __len__(self) -> int:
        """Return the number of frames held."""
        return self._size

    @property
    def feature_size(self) -> int:
        """Return F, the size of a frame's features, or 0 without a frozen trunk."""
        return self._feature_size

    @property
    def nbytes(self) -> int:
        """Return the bytes taken by images, and by the other columns with their spare capacity."""
        return self._size * self.images.row_bytes + sum(column.nbytes for column in self._columns.values())

    @property
    def bytes_per_transition(self) -> float:
        """Return the bytes taken per transition, see `nbytes`."""
        actions = self._size - sum(1 for e in self._episodes.values() if e.rows)
        return self.nbytes / max(1, actions)

    def column(self, name: str) -> np.ndarray:
        """Return rows 0 to len-1 of a column, as a view; do not write to it."""
        return self._columns[name][: self._size]

    @property
    def episode_ids(self) -> tuple[str, ...]:
        """Return the id of each episode number, as in `Batch.episode`."""
        return tuple(self._episodes)

    def episode(self, episode_id: str) -> EpisodeRows:
        """Return the rows of an episode, empty before its first frame; adds an episode that is not known yet."""
        if episode_id not in self._episodes:
            number = len(self._episodes)
            if number == len(self._last_rows):
                grown = np.full(max(64, 2 * number), NO_ROW)
                grown[:number] = self._last_rows
                self._last_rows = grown
            self._episodes[episode_id] = EpisodeRows(number, self._arms)
            self._numbered.append(self._episodes[episode_id])
        return self._episodes[episode_id]

    def last_rows(self, rows: np.ndarray) -> np.ndarray:
        """Return the row of the newest frame of the episode of each row, int64, shape (B,)."""
        return np.asarray(self._last_rows[self._columns["episode"][rows]])

    def rows_at(self, rows: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """Return the rows of some frames, int64 (B,), of the episode of each row, int64 (B,)."""
        episodes = self._columns["episode"][rows]
        found = (self._numbered[e].rows[t] for e, t in zip(episodes.tolist(), frames.tolist(), strict=True))
        return np.fromiter(found, np.int64, len(rows))

    def add(self, step: Step, *, demo: bool = False) -> int:
        """Append frame and action of `step`, which must be the next of its episode; return the row."""
        episode = self.episode(step.episode_id)
        row = self._size
        self._grow(row + 1)
        self.images.put(row, step.observation.images)
        columns = self._columns
        columns["proprio"][row] = step.observation.proprio
        columns["executed"][row] = step.action.executed if step.action else 0.0
        columns["proposed"][row] = step.action.proposed if step.action else 0.0
        columns["source"][row] = step.action.source if step.action else Source.HOLD
        action = _arrays(step.action) if step.action else None
        columns["label"][row] = self._labels.of(action, demo=demo, in_hand=episode.in_hand)[0] if action else True
        columns["episode"][row] = episode.number
        columns["frame"][row] = step.index
        columns["next_row"][row] = NO_ROW
        executed = step.action.executed if step.action else None
        columns["gripper_change"][row] = self._move_grippers(episode, step.index, step.observation.proprio, executed)
        self._last_rows[episode.number] = row
        if step.index:
            passed_ns = float(step.observation.stamp_ns - episode.stamp_ns)
            episode.tick += int(self._ticks(np.array([passed_ns]))[0])
            if passed_ns > self._longest_ns:
                episode.late.add(step.index)
        columns["tick"][row] = episode.tick
        episode.stamp_ns = step.observation.stamp_ns
        episode.rows.append(row)
        self._size = row + 1
        self._link(episode)
        return row

    def add_episode(self, episode_id: str, arrays: Mapping[str, np.ndarray], *, demo: bool = False) -> None:
        """Append all frames and actions of an episode of which there is none yet, column by column.

        Args:
            arrays: As in `StoredEpisode`; without images where they are not kept.
        """
        episode = self.episode(episode_id)
        frames, actions = len(arrays["proprio"]), len(arrays["source"])
        rows = np.arange(self._size, self._size + frames)
        self._grow(self._size + frames)
        for row in rows if self.images else ():
            images = {name: arrays[IMAGE_PREFIX + name][row - self._size] for name in self.images.names}
            self.images.put(int(row), images)
        columns = self._columns
        columns["proprio"][rows] = arrays["proprio"]
        known = {**arrays, "label": self._labels.of(arrays, demo=demo, in_hand=episode.in_hand)}
        for name, after_last in (("executed", 0.0), ("proposed", 0.0), ("source", Source.HOLD), ("label", True)):
            columns[name][rows[:actions]] = known[name]
            columns[name][rows[actions:]] = after_last
        columns["episode"][rows] = episode.number
        columns["frame"][rows] = np.arange(frames)
        columns["next_row"][rows] = NO_ROW
        for t, row in enumerate(rows) if len(self._grippers) else ():
            executed = arrays["executed"][t] if t < actions else None
            columns["gripper_change"][row] = self._move_grippers(episode, t, arrays["proprio"][t], executed)
        if frames:
            self._last_rows[episode.number] = rows[-1]
            stamps_ns = arrays["stamp_ns"]
            passed_ns = np.diff(stamps_ns.astype(np.float64))
            columns["tick"][rows] = np.cumsum([0, *self._ticks(passed_ns)])
            episode.tick = int(columns["tick"][rows[-1]])
            episode.late.update((np.flatnonzero(passed_ns > self._longest_ns) + 1).tolist())
            episode.stamp_ns = int(stamps_ns[-1])
        episode.rows += rows.tolist()
        self._size += frames
        self._link(episode)

    def set_features(self, episode_id: str, features: np.ndarray, start: int = 0) -> None:
        """Set the trunk's features of frames start, start+1, ...; those already set stay as they are.

        Args:
            features: float16, shape (n, F).
            start: Frame of the first row; at most the number of frames featured so far.

        Raises:
            StoreError: If they do not fit the frames of the episode.
        """
        episode = self.episode(episode_id)
        if features.dtype != np.float16 or features.ndim != 2 or features.shape[1] != self._feature_size:
            raise StoreError(
                f"features of {episode_id} are {features.dtype} {features.shape}, "
                f"must be float16 (n, {self._feature_size})"
            )
        if not np.isfinite(features).all():
            raise StoreError(
                f"features of {episode_id} from frame {start} on are not all finite, must be; "
                "they may be beyond float16: scale the trunk's output"
            )
        stop = start + len(features)
        if not 0 <= start <= episode.featured or stop > len(episode.rows):
            raise StoreError(
                f"features of {episode_id} are of frames {start} to {stop}, must start by {episode.featured} "
                f"and end by {len(episode.rows)}; send them in order"
            )
        fresh = slice(episode.featured, max(stop, episode.featured))
        self._columns["features"][episode.rows[fresh]] = features[fresh.start - start :]
        episode.featured = fresh.stop
        self._link(episode)

    def mark_end(self, episode_id: str, *, terminal: bool) -> None:
        """Say whether the task has ended at the newest frame of an episode, which a verdict may change."""
        episode = self.episode(episode_id)
        episode.terminal = terminal
        last = len(episode.rows) - 1
        if last in episode.late and last < episode.linked:
            self._columns["next_row"][episode.rows[last - 1]] = episode.rows[last] if terminal else NO_ROW

    def walk(self, rows: np.ndarray, n_step: int, *, one_driver: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Follow the episode of each row for up to `n_step` transitions.

        Args:
            rows: Frames to start from, int64, shape (B,).
            n_step: At least 1.
            one_driver: Stop where an operator takes over or gives back.

        Returns:
            Rows passed, int64, shape (B, n_step + 1), the last one again and again where the episode is over, and
            transitions made, int64, shape (B,).
        """
        next_row, source = self._columns["next_row"], self._columns["source"]
        in_hand = np.isin(source[rows], IN_HAND)
        path, made = np.empty((len(rows), n_step + 1), np.int64), np.zeros(len(rows), np.int64)
        path[:, 0] = rows
        for k in range(n_step):
            following = next_row[path[:, k]]
            go = following != NO_ROW
            if one_driver:
                go &= np.isin(source[path[:, k]], IN_HAND) == in_hand
            path[:, k + 1] = np.where(go, following, path[:, k])
            made += go
        return path, made

    def _move_grippers(
        self, episode: EpisodeRows, frame: int, proprio: np.ndarray, executed: np.ndarray | None
    ) -> np.ndarray:
        """Return which discrete grippers the action after a frame changes, bool (G,), and keep which are open."""
        if frame == 0:
            episode.grippers_open = self._grippers.at_start(proprio)
        before = episode.grippers_open
        if executed is not None:
            episode.grippers_open = self._grippers.after(executed, before)
        return np.asarray(before != episode.grippers_open)

    def _ticks(self, passed_ns: np.ndarray) -> np.ndarray:
        """Return the control ticks between frames by the time between their stamps, 1 to `MOST_TICKS` each."""
        return np.clip(np.rint(passed_ns / self._period_ns), 1, MOST_TICKS).astype(np.int64)

    def _link(self, episode: EpisodeRows) -> None:
        complete = len(episode.rows) if self._feature_size == 0 else episode.featured
        for t in range(max(1, episode.linked), complete):
            if t not in episode.late or (episode.terminal and t == len(episode.rows) - 1):
                self._columns["next_row"][episode.rows[t - 1]] = episode.rows[t]
        episode.linked = complete

    def _grow(self, rows: int) -> None:
        held = len(self._columns["frame"])
        if rows > held:
            wanted = max(_FIRST_ROWS, held * 3 // 2, rows)
            for name, column in self._columns.items():
                grown = np.zeros((wanted, *column.shape[1:]), column.dtype)
                grown[:held] = column
                self._columns[name] = grown


def _arrays(action: ActionRow) -> dict[str, np.ndarray]:
    """Turn one action into arrays of one row, as `StepLabels` takes them."""
    columns = {"source": action.source, "sources": action.sources, "gripper_pressed": action.gripper_pressed}
    return {**{name: np.array([value]) for name, value in columns.items()}, "human": action.human[None]}
