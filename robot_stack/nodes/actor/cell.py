"""The cell as the actor sees it: `types.interfaces.Cell` over DDS.

The control loop belongs to the caller's thread; messages are taken in a thread of their own. Whatever waits here
waits with a bound and then raises RobotError with a sentence that names what is missing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import numpy as np
import rclpy
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future
from std_srvs.srv import Trigger

from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.action_space import ActionSpace
from robot_stack.control.executed import ExecutedMotion
from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes import topics
from robot_stack.nodes.actor.cell_link import CellLink
from robot_stack.nodes.actor.scene_reset import go_to_start, make_ready
from robot_stack.nodes.base import FOREVER_S, make_executor
from robot_stack.nodes.conversion import frame_of_session, twist_to_msg, vector_to_msg
from robot_stack.nodes.episode_status import EpisodeStatus, Phase, ResetRequest
from robot_stack.sensing.observer import Observer
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError
from robot_stack.types.event import Verdict
from robot_stack.types.help import HelpRequest
from robot_stack.types.observation import Observation
from robot_stack.types.reason import Refusal
from robot_stack.types.transition import EpisodeKind

SAFETY_SILENT_NS = 300_000_000
SERVICE_TIMEOUT_S = 5.0
ACTIVE_POLL_S = 0.2


class RosCell:
    """The cell over DDS, which implements `Cell`.

    Usage: `with RosCell(run, namespace="sim", key=key) as cell: ...`.
    """

    def __init__(
        self,
        run: ResolvedRun,
        *,
        namespace: str,
        key: WireKey,
        managed: bool = False,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Prepare the cell without connecting to anything yet.

        Args:
            run: The resolved run.
            namespace: Of the cell.
            key: Of the run.
            managed: Whether a bring-up decides when this end of the cell becomes active; `connect` waits for it.
            stopping: Asked meanwhile; True gives up.
        """
        self._run = run
        self._namespace = namespace
        self._key = key
        self._managed = managed
        self._stopping = stopping
        self._space = ActionSpace(run.spec())
        self._observer = Observer(run.spec())
        self._arms = run.arms
        self._link: CellLink | None = None
        self._stop = Future()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._owns_context = False
        self._task_id: str | None = None

    def __enter__(self) -> RosCell:
        try:
            self.connect()
        except BaseException:
            self.close()  # a thread that still spins when the interpreter ends would abort the process
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, timeout_s: float = 20.0) -> None:
        """Join the cell and wait until robots, cameras and safety filter are heard.

        Raises:
            RobotError: If one of them stays silent; the message names it.
        """
        self._owns_context = not rclpy.ok()
        if self._owns_context:
            rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self._stop = Future()
        self._link = link = CellLink(self._run, self._namespace, self._key)
        executor = make_executor(link)
        if not self._managed:
            link.bring_up()

        def spin() -> None:
            try:
                executor.spin_until_future_complete(self._stop, FOREVER_S)
            except Exception as error:  # the top of a thread: the loop's next call raises it
                self._failure = error
                link.wake()

        self._thread = threading.Thread(target=spin, name="ros", daemon=True)
        self._thread.start()
        while self._managed and not link.wait_for(lambda: link.active, ACTIVE_POLL_S):
            if self._stopping() or self._failure is not None:
                raise RobotError("actor was ended before the bring-up made it active")
        deadline_s = time.monotonic() + timeout_s
        heard = link.wait_for(lambda: link.heard and not self._problem(link), timeout_s)
        if not heard:
            problem = self._problem(link) or "safety process is silent, must publish its labels; is it running?"
            raise RobotError(f"cell is not ready after {timeout_s:g} s: {problem}")
        for name, client in link.requests.items():
            if not client.wait_for_service(max(0.1, deadline_s - time.monotonic())):
                raise RobotError(f"service safety/{name} is missing, must be offered by the safety process; start it")

    def close(self) -> None:
        """Leave the cell; the arms hold."""
        if self._link is None:
            return
        if not self._stop.done():
            self._stop.set_result(True)
        if self._thread is not None:
            self._thread.join(2.0)
        self._link.retire("closed")
        self._link.destroy_node()
        self._link, self._thread = None, None
        if self._owns_context:
            rclpy.try_shutdown()

    def report(self, figures: Callable[[], Mapping[str, object]]) -> None:
        """Publish the acting loop's figures in /diagnostics, asked for once a second in the thread of the messages."""
        self._connected().figures = figures

    def observe(self) -> Observation | None:
        """Return the newest synchronised observation, or None while a part is missing, stale or skewed; see `problem`.

        Raises:
            RobotError: If the robot reports a fault: what it shows then is no course of the task.
        """
        link, now_ns = self._connected(), time.monotonic_ns()
        with link.locked():
            snapshot = link.sync.take(now_ns)
        for arm, state in snapshot.states.items() if snapshot is not None else ():
            if state.fault:
                raise RobotError(f"{topics.fault(arm)} says: {state.fault}; recover the robot, then arm or resume")
        return None if snapshot is None else self._observer.observe(snapshot, now_ns)

    def problem(self) -> str:
        """Return why there is no observation now, or ""."""
        link = self._connected()
        with link.locked():
            return self._problem(link)

    def send(self, action: np.ndarray) -> None:
        """Offer a policy action to the safety filter. A gripper entry that leaves the gripper is sent as -1."""
        link, now_ns = self._commanding(), time.monotonic_ns()
        for arm, command in self._space.to_commands(action, now_ns).items():
            self._offer(link, arm, command.twist, command.gripper, now_ns)

    def _offer(self, link: CellLink, arm: str, twist: np.ndarray, gripper: float | None, now_ns: int) -> None:
        placed = self._arms[arm]
        if placed.action.gripper != "none":
            opening = -1.0 if gripper is None else gripper
            link.policy_gripper[arm].publish(vector_to_msg(np.array([opening]), now_ns))
        link.policy[arm].publish(twist_to_msg(twist, now_ns, frame_of_session(placed.robot.tcp_frame, link.session)))

    def executed(self) -> dict[str, ExecutedMotion]:
        """Return what the safety filter let each arm do since the previous call."""
        link = self._connected()
        with link.locked():
            return {arm: accumulator.take() for arm, accumulator in link.executed.items()}

    def mode(self) -> Mode:
        """Return the state of control at the filter's newest tick.

        Raises:
            RobotError: If the filter is silent.
        """
        link = self._connected()
        with link.locked():
            decisions = sorted(link.decisions.values(), key=lambda decision: decision.command.stamp_ns)
            oldest_ns = decisions[0].command.stamp_ns if link.heard else 0
        silent_ns = time.monotonic_ns() - oldest_ns
        if silent_ns > SAFETY_SILENT_NS:
            limit_ms = SAFETY_SILENT_NS / 1e6
            raise RobotError(f"safety process is silent for {silent_ns / 1e6:.0f} ms (limit {limit_ms:.0f})")
        return decisions[-1].mode

    def reason(self) -> Refusal | None:
        """Return why the cell holds or is stopped, as the safety filter said it."""
        link = self._connected()
        with link.locked():
            return link.mode[1]

    def events(self) -> tuple[str, ...]:
        """Return the key events that an operator sent since the previous call."""
        link = self._connected()
        with link.locked():
            events, link.events = tuple(link.events), []
        return events

    def reset(self, seed: int, *, task_id: str | None = None, scene: bool = True) -> None:
        """Bring the cell to the start of an episode and begin the observer anew.

        Waits for the start state, fresh images and state of it, and an operator who has armed the cell.

        Raises:
            RobotError: If any of it does not come within the task's reset timeout.
        """
        link = self._commanding()
        deadline_s = time.monotonic() + self._run.task.reset.timeout_s
        self.finish()
        turn = self._run.task.turn(task_id)
        self._task_id = turn.id
        link.status.say(EpisodeStatus(phase=Phase.RESETTING, task_id=turn.id).to_text())
        request = ResetRequest(seed=seed, task_id=turn.id, scene=scene)
        make_ready(link, self._run, request, deadline_s, self._await)
        moves = turn.id in self._run.task.equal_ids and any(arm.start is not None for arm in self._arms.values())
        if moves:
            self._go_to_start(link, seed, deadline_s)
        self._observer.begin_episode(told=turn.told, again=not scene and not moves)

    def start(self, episode_id: str, kind: EpisodeKind) -> None:
        """Hand the arms to the policy, or in a demo to the operator.

        Raises:
            RobotError: If the safety filter refuses; the message is its own.
        """
        link = self._commanding()
        with link.locked():
            link.events.clear()
        self._request("start_demo" if kind is EpisodeKind.DEMO else "start_policy")
        status = EpisodeStatus(phase=Phase.RUNNING, kind=kind, episode_id=episode_id, task_id=self._task_id)
        link.status.say(status.to_text())
        self.executed()

    def claim(self, verdict: Verdict) -> None:
        """Tell the operator which verdict the reward model claims."""
        self._connected().claims.say(verdict.value)

    def ask(self, request: HelpRequest | None) -> None:
        """Publish the policy's request for help, or that it has none."""
        self._connected().help.say("" if request is None else request.to_text())

    def finish(self) -> None:
        """End the episode, so that the arms hold."""
        link = self._connected()
        self._request("end_episode")
        link.status.say(EpisodeStatus(phase=Phase.FINISHED).to_text())

    def truth(self) -> bool | None:
        """Return the simulator's own verdict whether the task is done, or None without one."""
        link = self._connected()
        with link.locked():
            return link.truth

    def _go_to_start(self, link: CellLink, seed: int, deadline_s: float) -> None:
        self._request("start_policy")
        try:

            def command(twists: Mapping[str, np.ndarray]) -> None:
                self._connected()
                now_ns = time.monotonic_ns()
                for arm, twist in twists.items():
                    self._offer(link, arm, twist, None, now_ns)

            go_to_start(link, self._run, seed, deadline_s, command)
        finally:
            self._request("end_episode")

    def _connected(self) -> CellLink:
        if self._link is None:
            raise RobotError("cell is not connected, must be; call connect()")
        if self._failure is not None:
            raise RobotError(f"link to the cell failed: {self._failure}") from self._failure
        return self._link

    def _commanding(self) -> CellLink:
        link = self._connected()
        if not link.active:
            raise RobotError(f"actor is {link.stage}, must be active to run an episode; activate it")
        return link

    def _problem(self, link: CellLink) -> str:
        return link.sync.problem(time.monotonic_ns())

    def _await(self, condition: Callable[[], bool], deadline_s: float, otherwise: Callable[[], str]) -> None:
        left_s = max(0.0, deadline_s - time.monotonic())
        came = self._connected().wait_for(lambda: self._failure is not None or condition(), left_s)
        self._connected()
        if not came:
            limit_s = self._run.task.reset.timeout_s
            raise RobotError(f"start state is not reached within {limit_s:g} s: {otherwise()}")

    def _request(self, name: str) -> None:
        link = self._connected()
        answered = threading.Event()
        future = link.requests[name].call_async(Trigger.Request())
        future.add_done_callback(lambda _: answered.set())
        if not answered.wait(SERVICE_TIMEOUT_S):
            raise RobotError(f"safety process has not answered {name} within {SERVICE_TIMEOUT_S:g} s; is it running?")
        answer = future.result()
        if answer is None or not answer.success:
            raise RobotError(f"{name} refused: {'no answer' if answer is None else answer.message}")
