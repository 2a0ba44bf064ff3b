"""Verdicts that are given on the page: kept back while they can be undone, then appended to the store's log.

While a learner writes to the store, the log is the learner's: it is told, as by the operator's page. Otherwise the
verdict is appended here, under the store's lock. What is kept back is in a journal on disk meanwhile, so that a page
that is killed loses none: the next one writes it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from robot_stack.console.journal import LabelJournal
from robot_stack.console.verdicts import UNDO_NS, Verdicts
from robot_stack.datasets.inside import check_log
from robot_stack.disk.durable import disk_errors
from robot_stack.replay.annotations import LabelLog
from robot_stack.replay.durable import writing
from robot_stack.replay.layout import StorePaths
from robot_stack.transport.calls import ItemRefusedError
from robot_stack.types.errors import StackError, StoreError, TransportError
from robot_stack.types.event import Label, Verdict

Tell = Callable[[Label], None]

log = logging.getLogger(__name__)


class Relabels:
    """Verdicts of the page, and how far each has come. Safe to use from several threads.

    Args:
        paths: Of the store.
        tell: Brings a label to the learner of the run; None for a dataset, which has none.
    """

    def __init__(self, paths: StorePaths, tell: Tell | None = None) -> None:
        self._paths = paths
        self._tell = tell
        self._verdicts = Verdicts()
        self._journal = LabelJournal(paths.relabels)
        self._lock = threading.RLock()
        self._error = ""

    def open(self) -> None:
        """Take in what the last page had not written when it ended; it is due at once.

        Raises:
            StoreError: If the journal cannot be read.
        """
        with self._lock:
            check_log(self._paths.relabels)
            self._journal.open()
            self._verdicts.load(self._journal.waiting)

    @property
    def waiting(self) -> tuple[Label, ...]:
        """Return the verdicts that were given and are not in the store yet."""
        with self._lock:
            return tuple(self._journal.waiting)

    def heard(self, labels: Iterable[Label]) -> None:
        """Take in the labels of the store, against which a verdict is undone."""
        with self._lock:
            self._verdicts.load(labels)

    def say(self, episode_id: str, verdict: Verdict, now_ns: int, now_unix_s: float) -> None:
        """Take a verdict of an operator; it is written once it can no longer be undone.

        Raises:
            StoreError: If the disk refuses; nothing was said then.
        """
        with self._lock:
            label = self._verdicts.label(episode_id, verdict, now_unix_s)
            self._journal.add(label)
            self._verdicts.say(label, now_ns)
            self._error = ""

    def undo(self, now_ns: int, now_unix_s: float) -> str:
        """Take the newest verdict back, and return of which episode it was.

        Raises:
            PageError: If it is too late, or none was given.
            StoreError: If the disk refuses.
        """
        with self._lock:
            newest, answer = self._verdicts.to_take_back(now_ns, now_unix_s)
            self._journal.take_back(newest.label)
            self._verdicts.taken_back(newest, answer)
            self._remove_empty()
            return newest.label.episode_id

    def bring(self, now_ns: int, *, all_of_them: bool = False) -> None:
        """Write the verdicts that can no longer be undone.

        What cannot be written now stays and is tried again; what the learner will never take is not.

        Args:
            now_ns: On the monotonic clock.
            all_of_them: Also the newest one: the page closes.
        """
        with self._lock:
            kept = None if all_of_them else self._verdicts.kept_back(now_ns)
            due = [label for label in self._journal.waiting if label is not kept]
        for label in due:
            refused = ""
            try:
                self._write(label)
            except ItemRefusedError as error:
                refused = str(error)
                self._fail(label, error)
            except (StoreError, TransportError) as error:
                self._fail(label, error)
                return
            else:
                self._error = ""
            try:
                with self._lock:
                    self._done(label, refused)
            except StoreError as error:
                self._fail(label, error)  # the next page writes it once more, which is harmless

    def to_json(self, now_ns: int) -> dict[str, Any]:
        """Return what is not written yet, what of it can be undone and for how long, and why it is not written."""
        with self._lock:
            newest = self._verdicts.undoable(now_ns)
            undo = None
            if newest is not None and any(label is newest.label for label in self._journal.waiting):
                left_s = round((UNDO_NS - (now_ns - newest.said_ns)) / 1e9, 1)
                undo = {"id": newest.label.episode_id, "verdict": newest.label.verdict.value, "left_s": left_s}
            waiting = {label.episode_id: label.verdict.value for label in self._journal.waiting}
            return {"undo": undo, "waiting": waiting, "error": self._error}

    def _done(self, label: Label, refused: str = "") -> None:
        """Take a label out of the journal, which is gone once nothing waits: a dataset is left as it was found."""
        self._journal.sent(label, refused)
        self._remove_empty()

    def _remove_empty(self) -> None:
        if not self._journal.waiting:
            with disk_errors(f"removing {self._paths.relabels}"):
                self._paths.relabels.unlink(missing_ok=True)

    def _fail(self, label: Label, error: StackError) -> None:
        words = f"{label.episode_id}: {error}"
        if words != self._error:  # it is tried twice a second
            log.warning("verdict on %s", words)
        self._error = words

    def _write(self, label: Label) -> None:
        """Append a label to the log of the store, or have its learner do so.

        Raises:
            StackError: If the disk refuses, another process writes to the store, or the learner does not answer.
        """
        if not self._paths.episode(label.episode_id).is_dir():
            if not self._paths.episodes.is_dir():
                raise StoreError(f"folder {self._paths.episodes} is away, must be there; bring it back")
            raise ItemRefusedError(f"episode is {label.episode_id}, must be one of {self._paths.root}; it is not there")
        alone = self._tell is None
        with disk_errors(f"writing a verdict on {label.episode_id}"), writing(self._paths.lock, needed=alone) as held:
            if not held and self._tell is not None:
                self._tell(label)
                return
            labels = LabelLog(self._paths.labels)
            labels.open()
            labels.append(label)
