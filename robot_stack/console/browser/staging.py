"""Stage marks that are set or removed on the page: appended to the store's log at once, and removed by another mark.

While a learner writes to the store, the log is the learner's, as with verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from robot_stack.datasets.store_view import StoreView
from robot_stack.disk.durable import disk_errors
from robot_stack.replay.annotations import MarkLog
from robot_stack.replay.durable import writing
from robot_stack.replay.layout import StorePaths
from robot_stack.types.event import LabelSource
from robot_stack.types.stages import StageMark, check_mark, counting

TellMark = Callable[[StageMark], None]


class Staging:
    """The writer of the page's stage marks.

    Args:
        paths: Of the store.
        names: Of the task's stages; () where they are not known.
        tell: Brings a mark to the learner of the run; None for a dataset, which has none.
    """

    def __init__(self, paths: StorePaths, names: Sequence[str] = (), tell: TellMark | None = None) -> None:
        self._paths = paths
        self.names = tuple(names)
        self._tell = tell

    def set(
        self, view: StoreView, episode_id: str, stage: int, frame: int, *, removed: bool, now_unix_s: float
    ) -> StageMark:
        """Append a mark, or one that takes it back; on disk when this returns.

        Raises:
            SpecError: If it cannot be, see `check_mark`.
            StackError: If there is no such episode, the disk refuses, or the learner does not answer.
        """
        mark = StageMark(
            episode_id=episode_id,
            stage=stage,
            frame=frame,
            source=LabelSource.OPERATOR,
            stamp_unix_s=now_unix_s,
            name=self.names[stage] if stage < len(self.names) else "",
            removed=removed,
        )
        frames = view.read(episode_id, images=False).length + 1
        alone = self._tell is None
        with disk_errors(f"writing a stage mark of {episode_id}"), writing(self._paths.lock, needed=alone) as held:
            if not held and self._tell is not None:
                check_mark(mark, view.marks_of(episode_id), frames=frames, names=self.names)
                self._tell(mark)
                return mark
            log = MarkLog(self._paths.stages)
            log.open()
            known = counting(each for each in log.rows if each.episode_id == episode_id)
            check_mark(mark, known, frames=frames, names=self.names)
            log.append(mark)
        return mark
