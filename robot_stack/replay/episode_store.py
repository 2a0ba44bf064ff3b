"""The episode store: one zarr group per episode, sealed by a manifest; labels and scores beside them.

root/store.json                     which spec and task all episodes share
root/id                             a random name: made anew in the same place, it is another store
root/episodes/<episode_id>.zarr/    arrays of `columns.columns`, manifest.json once closed, ending.json if it was cut
root/labels.jsonl, root/stages.jsonl, root/preferences.jsonl, root/scores/   see `annotations`
root/quarantine/<episode_id>/       broken episodes, with reason.txt
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from robot_stack.disk.durable import PARTIAL, disk_errors, make_durable, sync_directory, write_durable
from robot_stack.replay.annotations import LabelLog, MarkLog, ScoreFiles, check_scores
from robot_stack.replay.columns import check_step
from robot_stack.replay.durable import WriterLock, at_once
from robot_stack.replay.episode_writer import NEW_PREFIX, EpisodeWriter
from robot_stack.replay.identity import check_identity, check_spec, id_of
from robot_stack.replay.layout import SUFFIX, StorePaths
from robot_stack.replay.manifest import FILE_NAME, Ending, Manifest
from robot_stack.replay.stored_episode import StoredEpisode, read_episode, read_header
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.event import Label
from robot_stack.types.names import check_name
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.spec import Spec
from robot_stack.types.stages import StageMark, check_mark, counting
from robot_stack.types.transition import EndReason, EpisodeHeader, Step

FLUSHES_AT_ONCE = 16


class EpisodeStore:
    """The store of all episodes of one run: one writer process, safe to use from several threads of it.

    The owner calls `flush` at least each second; a step is safe once `durable` has reached its index.
    """

    def __init__(self, root: Path, spec: Spec, task: str) -> None:
        self.id = ""
        """The store's own random name, "" until it is open."""
        self._root = root
        self._spec = spec
        self._task = task
        self._paths = StorePaths(root)
        self._lock = WriterLock(self._paths.lock)
        self._mutex = threading.RLock()
        self._closed: dict[str, int] = {}
        self._writers: dict[str, EpisodeWriter] = {}
        self._quarantined: dict[str, str] = {}
        self._labels = LabelLog(self._paths.labels)
        self._marks = MarkLog(self._paths.stages)
        self._scores = ScoreFiles(self._paths.scores)
        self._unwritten: list[EpisodeScores] = []

    def open(self) -> None:
        """Take the writer lock, verify all episodes and recover unfinished ones; broken ones are set aside.

        Raises:
            StoreError: If another process writes here, the store is of another spec or task, or the directory
                cannot be written.
        """
        with disk_errors(f"opening the store {self._root}"):
            make_durable(self._paths.episodes)
            self._lock.acquire()
            try:
                check_identity(self._paths.identity, self._spec, self._task)
                self.id = id_of(self._paths.id)
                self._labels.open()
                self._marks.open()
                self._recover()
            except BaseException:
                self._lock.release()
                raise

    def close(self) -> None:
        """Flush, and let go of the lock; unfinished episodes stay unfinished."""
        with self._mutex:
            try:
                self.flush()
            finally:
                self._lock.release()

    def __enter__(self) -> EpisodeStore:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def episodes(self) -> tuple[str, ...]:
        """Return the ids of closed episodes, sorted."""
        with self._mutex:
            return tuple(sorted(self._closed))

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Return the ids of episodes without a last step, sorted."""
        with self._mutex:
            return tuple(sorted(self._writers))

    @property
    def quarantined(self) -> dict[str, str]:
        """Return what is broken and set aside: episode id, label line or score file -> reason."""
        with self._mutex:
            return {**self._quarantined, **self._labels.damaged, **self._marks.damaged, **self._scores.damaged}

    def begin(self, header: EpisodeHeader) -> bool:
        """Begin an episode; False if that was done before, also before a restart: it changes nothing.

        Raises:
            SpecError: If the id is no legal name, or taken by another header, or the task is another.
            StoreError: If the disk refuses.
        """
        with self._mutex:
            episode_id = check_name(header.episode_id, "episode id")
            if header.task != self._task:
                raise SpecError(f"task of {episode_id} is {header.task!r}, must be {self._task!r}")
            if episode_id in self._closed or episode_id in self._writers:
                known = self.header(episode_id)
                if known != header:
                    raise SpecError(f"header of {episode_id} is {header}, must be {known}; use a new episode id")
                return False
            with disk_errors(f"beginning episode {episode_id}"):
                self._writers[episode_id] = EpisodeWriter.create(self._path(episode_id), header, self._spec)
            return True

    def append(self, step: Step) -> bool:
        """Take one step. Return False, and change nothing, if it is there already or its episode is closed.

        Memory only, but for the last step, which closes the episode and is on disk on return.

        Raises:
            StoreError: If closing fails; then `flush` tries again.
            SpecError: On a gap, an unknown episode, or if the step does not fit the spec.
        """
        with self._mutex:
            if step.episode_id in self._closed:
                return False
            writer = self._writer(step.episode_id)
            fresh = step.index >= writer.next_index and writer.end is None
            if fresh:
                if step.index > writer.next_index:
                    raise SpecError(
                        f"step index of {step.episode_id} is {step.index}, must be {writer.next_index}; "
                        "resend from there"
                    )
                check_step(step, self._spec)
                writer.append(step)
            if writer.end is not None:
                self._seal(step.episode_id)
            return fresh

    def flush(self) -> None:
        """Bring everything appended so far to disk.

        Raises:
            StoreError: If the disk refuses; nothing is lost from memory, call again.
        """
        with self._mutex:
            at_once(self._flush_episode, list(self._writers), FLUSHES_AT_ONCE)
            for episode_id, writer in list(self._writers.items()):
                if writer.end is not None:
                    self._seal(episode_id)
            self._write_scores()

    def _write_scores(self) -> None:
        """Write the scores that the disk refused before.

        Raises:
            StoreError: The first refusal of those that it refuses again.
        """
        refusals: list[tuple[EpisodeScores, StoreError]] = []
        for scores in self._unwritten:
            try:
                self._scores.append(scores)
            except StoreError as error:
                refusals.append((scores, error))
        self._unwritten = [scores for scores, _ in refusals]
        if refusals:
            raise refusals[0][1]

    def durable(self, episode_id: str) -> int:
        """Return the highest step index that is safe on disk, -1 for none."""
        with self._mutex:
            if episode_id in self._closed:
                return self._closed[episode_id]
            return self._writers[episode_id].durable if episode_id in self._writers else -1

    def frames(self, episode_id: str) -> int:
        """Return the number of frames held of an episode, on disk or in memory; 0 for an unknown one."""
        with self._mutex:
            writer = self._writers.get(episode_id)
            return self._closed.get(episode_id, -1) + 1 if writer is None else writer.next_index

    def close_unfinished(self, episode_id: str) -> None:
        """Close an episode whose actor will not come back, as FAULT at its newest frame.

        Without a frame it is removed: it was announced and nothing more, as when the cell fails at its start.

        Raises:
            StoreError: If the disk refuses; it stays unfinished, unless its removal had begun.
        """
        with self._mutex:
            writer = self._writer(episode_id)
            if writer.next_index == 0:
                path = self._path(episode_id)
                gone = path.with_name(NEW_PREFIX + path.name)
                with disk_errors(f"removing episode {episode_id}"):
                    path.rename(gone)  # whatever happens behind this, it was never begun
                    del self._writers[episode_id]
                    shutil.rmtree(gone)
                return
            with disk_errors(f"closing episode {episode_id}"):
                if writer.end is None:
                    writer.cut(EndReason.FAULT)
            self._seal(episode_id)

    def is_cut(self, episode_id: str) -> bool:
        """Return whether an episode was closed before its actor had ended it, now or in an earlier life."""
        with self._mutex:
            writer = self._writers.get(episode_id)
            return Ending.declared(self._path(episode_id)) if writer is None else writer.is_cut

    def header(self, episode_id: str) -> EpisodeHeader:
        """Return the header of a closed or unfinished episode."""
        with self._mutex:
            if episode_id in self._writers:
                return self._writers[episode_id].header
            return read_header(self._path(episode_id))[0]

    def read(self, episode_id: str, *, images: bool = True, only: Collection[str] | None = None) -> StoredEpisode:
        """Read what is on disk of one episode, with or without its images, or only some columns, see `read_episode`.

        Raises:
            StoreError: If it is unknown or unreadable.
        """
        return read_episode(self._path(check_name(episode_id, "episode id")), images=images, only=only)

    def seal_of(self, episode_id: str) -> bytes | None:
        """Return the manifest of a closed episode as it is on disk, or None without one.

        It vouches for every file of the episode.
        """
        path = self._path(check_name(episode_id, "episode id")) / FILE_NAME
        return path.read_bytes() if path.exists() else None

    def append_label(self, label: Label) -> bool:
        """Log a label durably; False if this very label is there already."""
        with self._mutex:
            return self._labels.append(label)

    @property
    def labels(self) -> tuple[Label, ...]:
        """Return all labels in the order of their arrival."""
        with self._mutex:
            return self._labels.rows

    def append_mark(self, mark: StageMark) -> bool:
        """Log a stage mark durably; False if this very mark is there already.

        Raises:
            SpecError: If it is of an unknown episode, or cannot be there, see `check_mark`.
        """
        with self._mutex:
            name = mark.episode_id
            if name not in self._closed and name not in self._writers:
                raise SpecError(f"episode of a stage mark is {name!r}, must be one that has begun; mark a recorded one")
            if mark in self._marks.rows:
                return False
            known = counting((each for each in self._marks.rows if each.episode_id == name), mark.source)
            check_mark(mark, known, frames=self._closed[name] + 1 if name in self._closed else None)
            return self._marks.append(mark)

    @property
    def marks(self) -> tuple[StageMark, ...]:
        """Return all stage marks in the order of their arrival."""
        with self._mutex:
            return self._marks.rows

    def keep_scores(self, scores: EpisodeScores) -> None:
        """Write scores durably; where the disk refuses, `flush` tries again.

        Raises:
            StoreError: If they are malformed or not of the episode.
        """
        with self._mutex:
            self._check_scores(scores)
            try:
                self._scores.append(scores)
            except StoreError:
                self._unwritten.append(scores)

    def append_scores(self, scores: EpisodeScores) -> bool:
        """Write scores durably; False if that version has scored that episode already.

        Raises:
            StoreError: If they are malformed or not of the episode, or the disk refuses.
        """
        with self._mutex:
            self._check_scores(scores)
            return self._scores.append(scores)

    def scores(self, version: str) -> tuple[EpisodeScores, ...]:
        """Return all scores of a model version, sorted by episode."""
        with self._mutex:
            return self._scores.read(version)

    def _check_scores(self, scores: EpisodeScores) -> None:
        check_scores(scores)
        frames = self._closed.get(scores.episode_id, -1) + 1
        if frames and len(scores.progress) != frames:
            raise StoreError(f"scores of {scores.episode_id} are of {len(scores.progress)} frames, must be of {frames}")

    def _path(self, episode_id: str) -> Path:
        return self._paths.episode(episode_id)

    def _writer(self, episode_id: str) -> EpisodeWriter:
        if episode_id not in self._writers:
            raise SpecError(f"episode is {episode_id!r}, must be one that has begun: {sorted(self._writers)}")
        return self._writers[episode_id]

    def _flush_episode(self, episode_id: str) -> None:
        with disk_errors(f"flushing episode {episode_id}"):
            self._writers[episode_id].flush()

    def _seal(self, episode_id: str) -> None:
        with disk_errors(f"closing episode {episode_id}"):
            writer = self._writers[episode_id]
            writer.seal()
        self._closed[episode_id] = writer.durable
        del self._writers[episode_id]

    def _recover(self) -> None:
        for path in self._paths.episodes.iterdir():
            if path.name.startswith(NEW_PREFIX):
                shutil.rmtree(path, ignore_errors=True)
        for path in sorted(self._paths.episodes.iterdir()):
            if path.name.startswith(NEW_PREFIX):
                continue  # the disk refuses to let go of it
            try:
                self._recover_episode(path)
            except (StoreError, OSError, ValueError, KeyError) as error:
                self._quarantine(path, str(error))
        for episode_id in [name for name, writer in self._writers.items() if writer.end is not None]:
            with suppress(StoreError):  # `flush` tries again
                self._seal(episode_id)
        aside = self._paths.quarantine
        for path in sorted(aside.iterdir()) if aside.exists() else ():
            reason = path / "reason.txt"
            told = reason.read_text(errors="replace").strip() if reason.is_file() else "unknown"
            self._quarantined.setdefault(path.name, told)

    def _recover_episode(self, path: Path) -> None:
        header, spec = read_header(path)
        if path.name != header.episode_id + SUFFIX:
            raise StoreError(f"episode id in {path.name} is {header.episode_id}, must be that of the directory")
        check_spec(spec, self._spec, f"episode {header.episode_id}")
        manifest = Manifest.load(path)
        if manifest is None:
            for partial in path.rglob("*" + PARTIAL):  # a closed episode is never written again and has none
                partial.unlink()
            self._writers[header.episode_id] = EpisodeWriter.resume(path, header, spec)
        else:
            manifest.verify(path)
            self._closed[header.episode_id] = manifest.length

    def _quarantine(self, path: Path, reason: str) -> None:
        name = path.name.removesuffix(SUFFIX)
        aside = self._paths.quarantine
        number = 1
        while (target := aside / (name if number == 1 else f"{name}.{number}")).exists():
            number += 1
        make_durable(aside)
        path.rename(target)
        sync_directory(aside)
        if target.is_dir():
            write_durable(target / "reason.txt", reason + "\n")
        self._quarantined[target.name] = reason
