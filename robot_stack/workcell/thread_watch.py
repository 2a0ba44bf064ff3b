"""What a process of the table does when one of its threads fails: it ends, and says with what."""

from __future__ import annotations

import os
import signal
import threading
from types import TracebackType

PACKAGES = frozenset({"robot_stack", "policies", "reward_models", "sim"})


class ThreadWatch:
    """A watch that ends this process, as a SIGTERM does, when one of the project's own threads fails.

    A process that has lost a thread goes on without what the thread did: verdicts that nobody brings, scores that
    nobody hears. One that ends is started again, or ends the run, as its row of the table says. A thread of a library,
    such as one of wandb's, is the library's business.
    """

    def __init__(self) -> None:
        self.failure: BaseException | None = None
        """What the first thread failed with; None if none has."""
        threading.excepthook = self._failed

    def _failed(self, failed: threading.ExceptHookArgs) -> None:
        threading.__excepthook__(failed)
        if self.failure is None and _runs_our_code(failed.exc_traceback):
            self.failure = failed.exc_value
            os.kill(os.getpid(), signal.SIGTERM)


def _runs_our_code(traceback: TracebackType | None) -> bool:
    """Return whether the function that a failed thread was started with is the project's."""
    while traceback is not None and traceback.tb_frame.f_globals.get("__name__") == threading.__name__:
        traceback = traceback.tb_next
    if traceback is None:
        return False
    module = str(traceback.tb_frame.f_globals.get("__name__"))
    return module.partition(".")[0] in PACKAGES
