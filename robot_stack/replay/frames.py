"""Frames of all episodes in memory, each stored once. A transition is a frame and a link to the next one.

Rows are in order of arrival, so episodes of several actors may interleave; `next_row` follows the episode, never
the neighbouring row. A frame is linked once it is complete: recorded, and, with a frozen trunk, featured.
"""

from __future__ import annotations

import numpy as np

from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.spec import Spec
from robot_stack.types.transition import Step

NO_ROW = -1
_FIRST_ROWS = 1024


class EpisodeRows:
    """Rows of one episode, frame by frame.

    Attributes:
        number: Index of the episode in order of arrival.
        rows: Row of each frame.
        featured: Frames whose features are set, counted from the start.
        linked: Frames that are complete; transitions run between these.
    """

    __slots__ = ("featured", "linked", "number", "rows")

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: list[int] = []
        self.featured = 0
        self.linked = 0


class FrameTable:
    """Growing columns over all frames. Rows once written stay as they are, so readers need no lock for them.

    Args:
        spec: Shapes.
        feature_size: F of the frozen trunk over all cameras, or 0 without one.
        keep_images: False where features replace images, as with a frozen trunk.
        image_block_rows: Frames by which image memory grows; blocks are never copied.
    """

    def __init__(
        self, spec: Spec, *, feature_size: int = 0, keep_images: bool = True, image_block_rows: int = 256
    ) -> None:
        self._spec = spec
        self._feature_size = feature_size
        self._block_rows = image_block_rows
        self._cameras = {c.name: c.shape for c in spec.cameras} if keep_images else {}
        self._blocks: dict[str, list[np.ndarray]] = {name: [] for name in self._cameras}
        self._episodes: dict[str, EpisodeRows] = {}
        self._size = 0
        self._columns: dict[str, np.ndarray] = {
            "proprio": np.empty((0, spec.proprio_size), np.float32),
            "executed": np.empty((0, spec.action_size), np.float32),
            "features": np.empty((0, feature_size), np.float16),
            "source": np.empty(0, np.uint8),
            "gripper_pressed": np.empty(0, np.bool_),
            "episode": np.empty(0, np.int32),
            "frame": np.empty(0, np.int32),
            "next_row": np.empty(0, np.int64),
        }

    def __len__(self) -> int:
        """Frames held."""
        return self._size

    @property
    def feature_size(self) -> int:
        """F, or 0 without a frozen trunk."""
        return self._feature_size

    @property
    def nbytes(self) -> int:
        """Bytes allocated, spare capacity included."""
        images = sum(block.nbytes for blocks in self._blocks.values() for block in blocks)
        return images + sum(column.nbytes for column in self._columns.values())

    @property
    def bytes_per_transition(self) -> float:
        """Bytes allocated per transition, spare capacity included."""
        actions = self._size - sum(1 for e in self._episodes.values() if e.rows)
        return self.nbytes / max(1, actions)

    def column(self, name: str) -> np.ndarray:
        """Rows 0 to len-1 of a column, as a view; do not write to it."""
        return self._columns[name][: self._size]

    @property
    def episode_ids(self) -> tuple[str, ...]:
        """Id of each episode number, as in `Batch.episode`."""
        return tuple(self._episodes)

    def episode(self, episode_id: str) -> EpisodeRows:
        """Rows of an episode, empty before its first frame."""
        if episode_id not in self._episodes:
            self._episodes[episode_id] = EpisodeRows(len(self._episodes))
        return self._episodes[episode_id]

    def add(self, step: Step) -> int:
        """Append frame and action of `step`, which must be the next of its episode; returns the row."""
        episode = self.episode(step.episode_id)
        row = self._size
        self._grow(row + 1)
        columns = self._columns
        columns["proprio"][row] = step.observation.proprio
        columns["executed"][row] = step.action.executed if step.action else 0.0
        columns["source"][row] = step.action.source if step.action else Source.HOLD
        columns["gripper_pressed"][row] = step.action.gripper_pressed if step.action else False
        columns["episode"][row] = episode.number
        columns["frame"][row] = step.index
        columns["next_row"][row] = NO_ROW
        for name, blocks in self._blocks.items():
            blocks[row // self._block_rows][row % self._block_rows] = step.observation.images[name]
        episode.rows.append(row)
        self._size = row + 1
        self._link(episode)
        return row

    def set_features(self, episode_id: str, features: np.ndarray, start: int = 0) -> None:
        """Set the trunk's features of frames start, start+1, ...; those already set stay as they are.

        Args:
            episode_id: Which episode.
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

    def images(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Images of frames.

        Args:
            rows: int64, shape (B,).

        Returns:
            Camera name -> uint8, shape (B, H, W, 3); empty without images.
        """
        blocks, offsets = np.divmod(rows, self._block_rows)
        found = {}
        for name, shape in self._cameras.items():
            images = np.empty((len(rows), *shape), np.uint8)
            for block in np.unique(blocks):
                here = blocks == block
                images[here] = self._blocks[name][block][offsets[here]]
            found[name] = images
        return found

    def walk(self, rows: np.ndarray, n_step: int) -> tuple[np.ndarray, np.ndarray]:
        """Follow each episode for up to `n_step` transitions.

        Args:
            rows: Frames to start from, int64, shape (B,).
            n_step: At least 1.

        Returns:
            Rows reached and transitions made, both int64, shape (B,).
        """
        next_row = self._columns["next_row"]
        reached, made = rows.copy(), np.zeros(len(rows), np.int64)
        for _ in range(n_step):
            following = next_row[reached]
            go = following != NO_ROW
            reached = np.where(go, following, reached)
            made += go
        return reached, made

    def _link(self, episode: EpisodeRows) -> None:
        complete = len(episode.rows) if self._feature_size == 0 else episode.featured
        for t in range(max(1, episode.linked), complete):
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
        for name, blocks in self._blocks.items():
            if rows > len(blocks) * self._block_rows:
                blocks.append(np.empty((self._block_rows, *self._cameras[name]), np.uint8))
