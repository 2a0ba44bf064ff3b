"""Fits the image encoder again on what has succeeded since, and puts it in the place of the one in use.

Fitted beside online training, in a process of its own. Once it is there the robot waits between two episodes, as it
does before its first: features of all frames are computed anew, reward model, policy and critics begin anew on them,
and make up for updates before the policy acts. Features of two encoders never meet: the cache has a folder for each,
checkpoints of the old one are removed, and parameters carry the encoder that they were trained behind.

Killed at any instant, a run goes on with one of the two, whole: the new encoder lies beside the old one until `adopt`
has noted that it is to be used, and what it had begun is done at the next start.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from policies.encoders.config import EmbeddedConfig
from robot_stack.disk.durable import disk_errors, sync_directory, write_durable, write_json
from robot_stack.learner import fitting
from robot_stack.learner.checkpoint import CheckpointFolder
from robot_stack.learner.elsewhere import STOP_S
from robot_stack.learner.encoder.trunk_job import ONLINE, TrunkJob, fit_elsewhere
from robot_stack.learner.run_parts import RunParts
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import RefitFailedRow
from robot_stack.types.errors import FitError, ResumeError, StoreError
from robot_stack.types.transition import EpisodeKind

log = logging.getLogger(__name__)

MOST_BYTES = 1 << 30
"""Of images that an encoder is fitted on: demonstrations, then the newest successes. The fit holds two more copies."""
RETRY_AFTER = 10
"""Online episodes from a fit that failed to the next try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A note that an encoder which was fitted again is in use.

    Attributes:
        trunk: Its identity.
        online: Episodes of online training that had ended before its fit.
        online_steps: Of online training until then, the steps of the learners before.
        params_version: Of the newest parameters before; actors take only newer ones.
    """

    trunk: str
    online: int
    online_steps: int
    params_version: int


def adopt(folder: Path, *, online_steps: int, params_version: int) -> None:
    """Put the encoder that lies ready in the place of the one in use; what saw through that is removed.

    Raises:
        StoreError: If the disk refuses.
    """
    paths = RunPaths(folder)
    about = fitting.saved_metadata(paths.next_trunk)
    note = Adopted(
        trunk=about["identity"],
        online=int(about[ONLINE]),
        online_steps=online_steps,
        params_version=params_version,
    )
    with disk_errors(f"writing {paths.adopted.name}"):
        write_json(paths.adopted, asdict(note))
    finish_adoption(folder)


def finish_adoption(folder: Path) -> None:
    """Do what a killed learner had begun by `adopt`; nothing if it had not.

    Raises:
        StoreError: If the disk refuses.
        ResumeError: If the note cannot be read.
    """
    paths = RunPaths(folder)
    note = _read(paths.adopted)
    lying, used = (fitting.saved_identity(path) for path in (paths.next_trunk, paths.trunk))
    if note is None or lying != note.trunk or used == note.trunk:
        return
    with disk_errors(f"replacing {paths.trunk.name}"):
        CheckpointFolder(paths.checkpoints).clear()
        for model in paths.rewards():
            model.unlink()
        if not paths.first_trunk.exists():
            write_durable(paths.first_trunk, paths.trunk.read_bytes())
        os.replace(paths.next_trunk, paths.trunk)
        sync_directory(folder)


def adopted(folder: Path) -> Adopted | None:
    """Return the note of the encoder in use; None while it is the first.

    Raises:
        ResumeError: If it cannot be read.
    """
    paths = RunPaths(folder)
    note = _read(paths.adopted)
    return note if note is not None and fitting.saved_identity(paths.trunk) == note.trunk else None


def _read(path: Path) -> Adopted | None:
    if not path.exists():
        return None
    try:
        said = json.loads(path.read_text())
        numbers = {each.name: int(said[each.name]) for each in fields(Adopted) if each.name != "trunk"}
        return Adopted(trunk=str(said["trunk"]), **numbers)
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ResumeError(
            f"{path} is unreadable ({error!r}), must be the note of the encoder in use, with its numbers of episodes, "
            "steps and parameters; restore it, or start under a new name"
        ) from error


def refits_at(config: object) -> tuple[int, ...]:
    """Return the online episodes after which an encoder of these settings is fitted again; none for most encoders."""
    return config.refit_at if isinstance(config, EmbeddedConfig) else ()


class TrunkRefitter:
    """The fits of a run's encoder beside its online training; one thread calls it.

    Args:
        parts: Of the run.

    Attributes:
        ready: Whether an encoder lies ready to be adopted.
    """

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._paths = RunPaths(parts.folder)
        self._at = refits_at(parts.settings.encoder_config)
        note = adopted(parts.folder)
        self._fitted_at = 0 if note is None else note.online
        self._retry_at = 0
        self.ready = self._lies_another()  # where an earlier learner was ended before it took it
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._failure: Exception | None = None

    def maybe_start(self) -> None:
        """Start a fit in the background if it is time, none is running and none waits.

        Raises:
            Exception: What ended the one before.
        """
        if self._failure is not None:
            raise self._failure
        if self.ready or self.runs:
            return
        online = self._parts.statistics.online_ended
        if online < self._retry_at or not any(self._fitted_at < count <= online for count in self._at):
            return
        self._thread = threading.Thread(target=self._fit, args=(self._job(online),), name="encoder", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End a fit at once; nothing of it is kept."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    @property
    def runs(self) -> bool:
        """Return whether a fit is under way."""
        return self._thread is not None and self._thread.is_alive()

    def _job(self, online: int) -> TrunkJob:
        """Return the fit on the successes known now; the newest first, as many as memory has room for."""
        won = [account for account in self._parts.statistics.accounts if account.success and account.end is not None]
        order = {EpisodeKind.DEMO: 0, EpisodeKind.ONLINE: 1, EpisodeKind.EARLIER: 2}
        won = [account for account in won if account.header.kind in order]
        won.sort(key=lambda account: account.header.episode_id, reverse=True)
        won.sort(key=lambda account: order[account.header.kind])
        frame_bytes = sum(math.prod(camera.shape) for camera in self._parts.resolved.spec().cameras)
        room = MOST_BYTES
        chosen: list[str] = []
        for account in won:
            room -= frame_bytes * (account.steps + 1)
            if room < 0 and chosen:
                break
            chosen.append(account.header.episode_id)
        config = self._parts.settings.encoder_config
        return TrunkJob(
            episodes=tuple(self._paths.store.episode(name) for name in sorted(chosen)),
            spec=self._parts.resolved.spec(),
            settings=config.for_refit(),
            seed=self._parts.resolved.run.seed,
            online=online,
            target=self._paths.next_trunk,
        )

    def _lies_another(self) -> bool:
        """Return whether an encoder lies there that is not the one in use: where nothing new has succeeded, it is."""
        return fitting.saved_identity(self._paths.next_trunk) not in (None, fitting.saved_identity(self._paths.trunk))

    def _fit(self, job: TrunkJob) -> None:
        try:
            fit_elsewhere(job, self._stopping)
        except fitting.Stopped:
            return
        except (FitError, StoreError) as error:  # it was killed, or an episode has been damaged since
            log.warning("the image encoder in use goes on, it was not fitted again: %s", error)
            self._parts.metrics.log(RefitFailedRow(reason=str(error), of="image encoder"))
            self._retry_at = job.online + RETRY_AFTER
        except Exception as error:  # the top of this thread: `maybe_start` raises it where the process can end
            self._failure = error
        else:
            self._fitted_at = job.online
            self.ready = self._lies_another()
