"""A cell whose observations have the proposal of the run's base policy in them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from policies.acting import ActingPolicy
from robot_stack.config.base import HttpBase, LeRobotBase, OpenpiBase, SavedBase, ServedBase
from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.executed import dominant
from robot_stack.rollout.base.connection import Connection
from robot_stack.rollout.base.http import HttpConnection
from robot_stack.rollout.base.lerobot import LeRobotConnection
from robot_stack.rollout.base.mapping import BaseMapping, Told
from robot_stack.rollout.base.openpi import OpenpiConnection
from robot_stack.rollout.base.source import AGAIN_S, BaseSource, SavedSource, ServedSource
from robot_stack.rollout.params_file import load_params
from robot_stack.types.command import Mode, Source
from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.event import Verdict
from robot_stack.types.help import HelpRequest
from robot_stack.types.interfaces import Cell, ExecutedWindow
from robot_stack.types.observation import Observation
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.transition import EpisodeKind

POLL_S = 0.05
INVALID_S = 3.0
"""A base whose answers cannot be used is not waited for any longer."""
SAVED_START_S = 10.0
UNSEEN = Refusal(kind=RefusalKind.STATE_MISSING, text="nothing is observed at the start; see the cameras and the robot")


class CellWithBase:
    """A cell that observes what a base policy would do now as well; implements `Cell` and `SteeredCell`.

    What the base proposes is recorded with the observation: the replay has it, and critic and policy see it. While it
    proposes nothing the cell observes nothing, so nobody acts and the safety filter holds; `reason` says why.

    Args:
        cell: What is sensed and moved.
        base: Asked at each tick.
        entries: Of the proprio vector, which the base fills in.
        start_s: Longest wait for the first proposal of an episode.
        stopping: Asked meanwhile; True gives up.
    """

    def __init__(
        self, cell: Cell, base: BaseSource, entries: slice, *, start_s: float, stopping: Callable[[], bool]
    ) -> None:
        self._cell, self._base, self._entries = cell, base, entries
        self._start_s, self._stopping = start_s, stopping
        self._ticks = 0
        self._interrupted = False
        self._refusal: Refusal | None = None

    def observe(self) -> Observation | None:
        """Observe the cell and ask the base."""
        observation = self._cell.observe()
        if observation is None:
            return None
        sensed = self._sensed(observation)
        found = self._base.propose(sensed, interrupted=self._interrupted)
        if isinstance(found, Refusal):
            self._refusal = found
            return None
        self._ticks += 1
        self._refusal, self._interrupted = None, False
        return replace(observation, proprio=np.concatenate([sensed.proprio, found]).astype(np.float32))

    def send(self, action: np.ndarray) -> None:
        """See `Cell`."""
        self._cell.send(action)

    def steer(self, noise: np.ndarray) -> None:
        """Give the base the noise of its next answer, float32 (D,).

        Raises:
            SpecError: If it is not of the run's size, or not finite.
        """
        self._base.steer(noise)

    def executed(self) -> Mapping[str, ExecutedWindow]:
        """See `Cell`; remembers whether anybody else moved an arm."""
        windows = self._cell.executed()
        if self._ticks > 1:  # what moved an arm before the first tick was no interruption
            self._interrupted = dominant(window.source for window in windows.values()) is not Source.POLICY
        return windows

    def mode(self) -> Mode:
        """See `Cell`."""
        return self._cell.mode()

    def reason(self) -> Refusal | None:
        """Return why the base says nothing, or else why the cell holds."""
        return self._refusal or self._cell.reason()

    def events(self) -> tuple[str, ...]:
        """See `Cell`."""
        return self._cell.events()

    def reset(self, seed: int, *, task_id: str | None = None, scene: bool = True) -> None:
        """Bring the cell to a start, and wait until the base has a proposal for it.

        Raises:
            RobotError: If it has none in time.
        """
        self._base.begin_episode()
        self._cell.reset(seed, task_id=task_id, scene=scene)
        self._ticks, self._interrupted = 0, False
        began_s = time.monotonic()
        while (refusal := self._unready()) is not None:
            longest_s = min(self._start_s, INVALID_S) if refusal.kind is RefusalKind.BASE_INVALID else self._start_s
            stopped = self._stopping() or self._cell.mode() is Mode.STOP
            if stopped or time.monotonic() - began_s > longest_s:
                raise RobotError(f"no episode begins without the base policy: {refusal}")
            time.sleep(POLL_S)

    def start(self, episode_id: str, kind: EpisodeKind) -> None:
        """See `Cell`."""
        self._cell.start(episode_id, kind)

    def claim(self, verdict: Verdict) -> None:
        """See `Cell`."""
        self._cell.claim(verdict)

    def ask(self, request: HelpRequest | None) -> None:
        """See `Cell`."""
        self._cell.ask(request)

    def finish(self) -> None:
        """See `Cell`."""
        self._cell.finish()

    def truth(self) -> bool | None:
        """See `Cell`."""
        return self._cell.truth()

    def _unready(self) -> Refusal | None:
        observation = self._cell.observe()
        return UNSEEN if observation is None else self._base.prepare(self._sensed(observation))

    def _sensed(self, observation: Observation) -> Observation:
        return replace(observation, proprio=observation.proprio[: self._entries.start])


@contextmanager
def with_base(
    resolved: ResolvedRun,
    cell: Cell,
    *,
    waits: bool,
    stopping: Callable[[], bool] = lambda: False,
    seed: tuple[int, ...] = (),
) -> Iterator[Cell]:
    """Give a cell the base policy of its run, for as long as the block lasts; without one it is the cell as it is.

    Args:
        resolved: The run.
        cell: In this process, or over DDS.
        waits: Whether its time stands still while the base is asked.
        stopping: Asked while the base is waited for; True gives up.
        seed: Of the noise that nobody chooses; empty: that of the run.

    Raises:
        ConfigError: If the base is of other cameras, state, action or rate than the run says.
        RobotError: If it does not answer, or cannot be started.
        StoreError, SpecError: If its file is unreadable, or of other shapes than this cell.
    """
    base = resolved.run.base
    if base is None:
        yield cell
        return
    source, start_s = open_base(resolved, base, waits=waits, stopping=stopping, seed=seed or (resolved.run.seed,))
    try:
        spec = resolved.spec()
        entries = slice(spec.sensed.proprio_size, spec.proprio_size)
        yield CellWithBase(cell, source, entries, start_s=start_s, stopping=stopping)
    finally:
        source.close()


def open_base(
    resolved: ResolvedRun,
    base: SavedBase | ServedBase,
    *,
    waits: bool,
    stopping: Callable[[], bool],
    seed: tuple[int, ...],
) -> tuple[BaseSource, float]:
    """Connect to a base and hold what it says of itself against the run; returns it with its longest start in s.

    Raises:
        ConfigError, RobotError, SpecError, StoreError: See `with_base`.
    """
    spec = resolved.spec().sensed
    if isinstance(base, SavedBase):
        params = load_params(Path(base.policy).expanduser())
        if params.metadata.get("spec_digest") != spec.digest:
            raise SpecError(
                f"spec of the base {base.policy} is another one, must be that of this cell without its base: the same "
                "arms, axes, scales, cameras, proprio and rate; take a policy of such a run"
            )
        return SavedSource(ActingPolicy(spec, params, seed=resolved.run.seed)), SAVED_START_S
    mapping, connection = BaseMapping(base, spec, resolved.task.text), connect(base, stopping)
    try:
        mapping.check(_patiently(connection, base.start_s, stopping))
    except BaseException:
        connection.close()
        raise
    return ServedSource(connection, mapping, waits=waits, seed=seed), base.start_s


def connect(base: ServedBase, stopping: Callable[[], bool]) -> Connection:
    """Return the connection of a kind of base, which is not open yet; `stopping` gives up what it waits for."""
    match base:
        case HttpBase():
            return HttpConnection(base.url, timeout_s=base.timeout_s)
        case OpenpiBase():
            return OpenpiConnection(base)
        case LeRobotBase():
            return LeRobotConnection(base, stopping)


def _patiently(connection: Connection, start_s: float, stopping: Callable[[], bool]) -> Told:
    """Open a connection, again and again while nobody answers, so that the base's server may be started last."""
    deadline_s = time.monotonic() + start_s
    while True:
        try:
            return connection.open()
        except RobotError:
            if time.monotonic() > deadline_s or stopping():
                raise
            time.sleep(AGAIN_S)
