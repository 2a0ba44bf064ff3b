"""A cache of finished episodes for the learner, one file each: the features, and every column but the pixels.

root/<trunk identity>-<spec digest>/<episode_id>.safetensors. A changed trunk, camera or spec has another folder, so
features of two trunks never mix. A file counts only while its own checksum is right and the episode's manifest is
the one that it was made from; otherwise the images are encoded again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import queue
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from robot_stack.disk.durable import write_durable
from robot_stack.replay.columns import IMAGE_PREFIX, columns
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.stored_episode import StoredEpisode, header_from
from robot_stack.types.errors import StoreError
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EndReason

SUFFIX = ".safetensors"
FEATURES = "features"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedEpisode:
    """A finished episode with its features, as training takes it.

    Attributes:
        episode: Without its images.
        features: Of each frame, float16, shape (T+1, F).
    """

    episode: StoredEpisode
    features: np.ndarray


class FeatureCache:
    """The cache of one trunk: read at the start of a learner, written on a thread of its own.

    Args:
        root: Of all trunks.
        store: Where the episodes are; open.
        trunk: Identity of the frozen trunk, which stands for its weights and all that it does to an image.
        spec: Of the cell.
    """

    def __init__(self, root: Path, store: EpisodeStore, *, trunk: str, spec: Spec) -> None:
        self.damaged = 0
        """Files that were there and could not be trusted."""
        self.failure = ""
        """Why the newest features are not on disk, or ""."""
        self.trunk = trunk
        self._folder = root / f"{trunk}-{spec.digest[:16]}"
        self._store = store
        self._spec = spec
        self._columns = [c.name for c in columns(spec) if not c.name.startswith(IMAGE_PREFIX)]
        self._held: set[str] = set()
        self._queue: queue.SimpleQueue[tuple[str, np.ndarray] | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._write_forever, name="feature-cache", daemon=True)

    def start(self) -> None:
        """Start the thread that writes features to disk."""
        self._writer.start()

    def stop(self) -> None:
        """Write the features that are left and end the thread."""
        if self._writer.is_alive():
            self._queue.put(None)
            self._writer.join(10.0)

    def holds(self, episode_id: str) -> bool:
        """Return True once the features of an episode are on disk."""
        return episode_id in self._held

    def read(self, episode_id: str) -> CachedEpisode | None:
        """Read a finished episode without decoding an image; None if there is no file to be trusted."""
        path = self._path(episode_id)
        if not path.exists():
            return None
        try:
            found = self._load(path, episode_id)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            self.damaged += 1
            log.warning("features of %s are computed again: %r", episode_id, error)
            return None
        self._held.add(episode_id)
        return found

    def offer(self, episode_id: str, features: np.ndarray) -> None:
        """Keep the features of a finished episode, float16 (T+1, F); returns at once."""
        self._queue.put((episode_id, features))

    def _path(self, episode_id: str) -> Path:
        return self._folder / (episode_id + SUFFIX)

    def _load(self, path: Path, episode_id: str) -> CachedEpisode:
        with safe_open(path, "np") as file:
            about = file.metadata()["about"]
            arrays = {name: file.get_tensor(name) for name in (*self._columns, FEATURES)}
            checksum = file.metadata()["checksum"]
        if _checksum(about, arrays) != checksum:
            raise ValueError("checksum differs")
        said = json.loads(about)
        if said["seal"] != _seal(self._store, episode_id) or said["header"]["episode_id"] != episode_id:
            raise ValueError("it is of another recording")
        features = arrays.pop(FEATURES)
        if not len(features) == len(arrays["proprio"]) == len(arrays["source"]) + 1:
            raise ValueError(f"it has {len(features)} frames")
        header = header_from(said["header"])
        episode = StoredEpisode(header=header, spec=self._spec, end=EndReason(said["end"]), arrays=arrays)
        return CachedEpisode(episode=episode, features=features)

    def _write_forever(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                self._write(*item)
                self.failure = ""
            except Exception as error:  # the top of this thread: what is not kept is computed again at a restart
                why = error if isinstance(error, (StoreError, OSError)) else repr(error)
                self.failure = f"features of {item[0]} are not kept: {why}"
                log.warning("%s", self.failure)

    def _write(self, episode_id: str, features: np.ndarray) -> None:
        seal = _seal(self._store, episode_id)
        if seal is None:
            return  # not closed on disk after all: a restart reads it from the store
        episode = self._store.read(episode_id, images=False)
        if len(features) != episode.length + 1 or episode.end is None:
            return
        arrays = {name: np.ascontiguousarray(episode.arrays[name]) for name in self._columns}
        arrays[FEATURES] = np.ascontiguousarray(features)
        about = json.dumps({"header": asdict(episode.header), "end": episode.end, "seal": seal})
        content = save(arrays, {"about": about, "checksum": _checksum(about, arrays)})
        write_durable(self._path(episode_id), content)
        self._held.add(episode_id)


def _seal(store: EpisodeStore, episode_id: str) -> str | None:
    """Return the digest of an episode's manifest, None while it is not closed."""
    manifest = store.seal_of(episode_id)
    return None if manifest is None else hashlib.sha256(manifest).hexdigest()


def _checksum(about: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(about.encode())
    for name, array in sorted(arrays.items()):
        digest.update(name.encode())
        digest.update(array.data)
    return digest.hexdigest()
