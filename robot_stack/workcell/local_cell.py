"""A cell in one process: MuJoCo, the safety filter and the scripted operator on simulated time.

The same pure parts that the ROS nodes call, at the same rates (safety 100 Hz, teleop 50 Hz), so that what is tested
or swept here is what runs over DDS. Time moves when the loop sleeps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from robot_stack.config.camera import CameraConfig
from robot_stack.config.task import TaskConfig
from robot_stack.control.action_space import ActionSpace
from robot_stack.control.executed import ExecutedAccumulator, ExecutedMotion
from robot_stack.control.safety.cell_filter import SafetyFilter
from robot_stack.sensing.observer import Observer
from robot_stack.sensing.sync import Snapshot
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError
from robot_stack.types.event import Verdict
from robot_stack.types.help import HelpRequest
from robot_stack.types.insertion import InsertionRecord
from robot_stack.types.observation import Observation
from robot_stack.types.reason import Refusal
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.insertion_recorder import InsertionRecorder
from robot_stack.workcell.sim_camera import SimCamera
from sim.hands import Seen
from sim.operator import Role, ScriptedOperator
from sim.scene import TIMESTEP_S
from sim.simulated_arm import SimulatedArm, as_seen
from sim.world import UnstableScene, World

TICK_S = 0.01
STEPS = round(TICK_S / TIMESTEP_S)

AGAIN_TICKS = 100
"""A scripted operator who may not resume yet tries again for so long."""
ROLES = {EpisodeKind.DEMO: Role.DEMO, EpisodeKind.ONLINE: Role.ASSIST, EpisodeKind.EVAL: Role.WATCH}


def see(world: World) -> Seen:
    """Return what an operator at the cell sees now."""
    states = [world.state(name) for name in world.arms]
    arms, grasps = world.arms.values(), world.task.grasp_poses(world.data)
    tcp = np.array([as_seen(state.T_base_tcp) for state in states])
    return Seen(
        stamp_ns=world.time_ns,
        tcp=tcp,
        goal=_in_base(arms, world.task.goal_poses(world.data)),
        grasp=tcp if grasps is None else _in_base(arms, grasps),
        opening=np.array([state.gripper for state in states]),
        force_n=max(float(np.linalg.norm(state.wrench[:3])) for state in states),
        done=world.task.succeeded(world.data),
        lost=world.task.failed(world.data),
        stage=world.task.stage(world.data),
    )


def _in_base(arms: Iterable[SimulatedArm], poses: np.ndarray) -> np.ndarray:
    return np.array([arm.in_base(pose) for arm, pose in zip(arms, poses, strict=True)])


class LocalCell:
    """A simulated cell in this process; implements `Cell` and, on the side, `Clock`.

    Args:
        spec: Shapes.
        task: What is tried.
        cameras: Of the cell, by name.
        world: What is simulated.
        safety: Decides what is executed.
        operator: Stands at the cell.
        observation_age_s: Age of images and states when they are observed, rounded to `TICK_S`; the first observation
            of an episode, before which nothing moves, is new.
    """

    def __init__(
        self,
        spec: Spec,
        task: TaskConfig,
        cameras: Mapping[str, CameraConfig],
        world: World,
        safety: SafetyFilter,
        operator: ScriptedOperator,
        *,
        observation_age_s: float = 0.0,
    ) -> None:
        self._spec = spec
        self._task = task
        self._world = world
        self._observer = Observer(spec)
        self._space = ActionSpace(spec)
        self._cameras = {name: SimCamera(world, name, config) for name, config in cameras.items()}
        self._age_ns = round(observation_age_s / TICK_S) * round(1e9 * TICK_S)
        self._period_ns = round(1e9 * spec.period_s)
        self._past: deque[tuple[int, Snapshot]] = deque()
        """What was seen on the way to each control tick, with its time; the oldest first."""
        self._task_id: str | None = None
        self._broken: str | None = None
        """Why the simulation cannot go on until the scene is reset."""
        self._insertion = InsertionRecorder(world)
        self.anew(safety, operator)

    def anew(self, safety: SafetyFilter, operator: ScriptedOperator) -> None:
        """Take another filter and operator, as a cell that has just been built; world and cameras stay."""
        self._safety = safety
        self._operator = operator
        self._executed = {arm.name: ExecutedAccumulator() for arm in self._spec.arms}
        self._events: list[str] = []
        self._ticks = 0

    def close(self) -> None:
        """Free the GL contexts of the cameras; the cell cannot be observed any more."""
        for camera in self._cameras.values():
            camera.close()

    @property
    def world(self) -> World:
        """Return the simulated world itself, for audits."""
        return self._world

    # Clock -----------------------------------------------------------------------------------------------------
    def now_ns(self) -> int:
        """Return the simulated time in nanoseconds."""
        return self._world.time_ns

    def sleep_until_ns(self, when_ns: int) -> None:
        """Run the simulation until `when_ns`, and look on the way if that is what will be observed.

        Once it has broken down, time passes and nothing else happens, until the scene is reset.
        """
        look_ns = when_ns - self._age_ns % self._period_ns
        looked = self._age_ns == 0
        if not looked and not self._past:
            self._past.append((self._world.time_ns, self._look()))  # nothing has moved before
        while self._world.time_ns < when_ns:
            if not looked and self._world.time_ns >= look_ns:
                self._past.append((self._world.time_ns, self._look()))
                looked = True
            if self._broken is not None:
                self._world.time_ns = when_ns
                return
            try:
                self._tick()
            except UnstableScene as error:  # whoever observes is told: no loop looks for faults of its clock
                self._broken = str(error)
        if not looked and self._broken is None:
            self._past.append((self._world.time_ns, self._look()))

    # Cell ------------------------------------------------------------------------------------------------------
    def observe(self) -> Observation | None:
        """Observe the cell as it was one observation's age ago: without an age, as it is now.

        Raises:
            RobotError: If the simulation has broken down since the reset.
        """
        if self._broken is not None:
            raise RobotError(self._broken)
        now_ns = self._world.time_ns
        while len(self._past) > 1 and self._past[1][0] <= now_ns - self._age_ns:
            self._past.popleft()
        seen_ns, snapshot = self._past[0] if self._past else (now_ns, self._look())
        return self._observer.observe(replace(snapshot, age_s=(now_ns - seen_ns) / 1e9), now_ns)

    def _look(self) -> Snapshot:
        images = {name: camera.see() for name, camera in self._cameras.items()}
        states = {name: self._world.state(name) for name in self._world.arms}
        return Snapshot(images=images, states=states, age_s=0.0, skew_s=0.0)

    def send(self, action: np.ndarray) -> None:
        """Send an action to the safety filter."""
        now_ns = self._world.time_ns
        self._safety.offer(list(self._space.to_commands(action, now_ns).values()), now_ns)

    def executed(self) -> dict[str, ExecutedMotion]:
        """Return what each arm executed since the previous call."""
        return {arm: accumulator.take() for arm, accumulator in self._executed.items()}

    def mode(self) -> Mode:
        """Return the mode of the safety filter."""
        return self._safety.mode

    def reason(self) -> Refusal | None:
        """Return why the safety filter holds or is stopped, or None."""
        return self._safety.reason

    def events(self) -> tuple[str, ...]:
        """Return the operator's events since the previous call."""
        events, self._events = tuple(self._events), []
        return events

    def reset(self, seed: int, *, task_id: str | None = None, scene: bool = True) -> None:
        """Bring the cell to a new start; the scripted operator arms it and resumes after a hold.

        Raises:
            RobotError: If the scene does not come to rest from this seed, has blown up before and is not put back, or
                the arms do not get ready.
        """
        if self._broken is not None and not scene:
            raise RobotError(self._broken)
        self._safety.end_episode()
        if scene:
            self._world.reset(seed)
            self._broken = None
        self._past.clear()
        turn = self._task.turn(task_id)
        self._world.turn(turn.id)
        self._operator.begin(Role.WATCH, turn.id)
        self._task_id = turn.id
        self._observer.begin_episode(told=turn.told, again=not scene)
        for _ in range(3):
            self._tick()
        for _ in range(AGAIN_TICKS):  # a reset turns the clock back: the filter settles first
            if self._safety.mode is Mode.HOLD and self._safety.resume(self._world.time_ns) is None:
                self._safety.end_episode()
            if self._safety.mode is Mode.DISARMED:
                self._safety.arm(self._world.time_ns)
            if self._safety.mode is Mode.READY:
                return
            self._tick()
        why = self._safety.warning(self._world.time_ns) or self._safety.reason
        raise RobotError(f"cell is {self._safety.mode} after its reset ({why}), must be ready")

    def start(self, episode_id: str, kind: EpisodeKind) -> None:
        """Hand the arms to the policy, or to the operator in a demo."""
        self._operator.begin(ROLES[kind], self._task_id)
        self._safety.start(self._world.time_ns, policy_expected=kind is not EpisodeKind.DEMO)
        self.executed()
        self._events.clear()
        self._insertion.begin()

    def claim(self, verdict: Verdict) -> None:
        """Let the operator look whether a claimed verdict is so."""
        self._operator.audit(self._world.time_ns)

    def ask(self, request: HelpRequest | None) -> None:
        """Call the operator, or tell them that nobody is needed any more."""
        self._operator.call(request is not None, self._world.time_ns)

    def finish(self) -> None:
        """End the episode in the safety filter."""
        self._insertion.end()
        self._safety.end_episode()

    def truth(self) -> bool | None:
        """Return whether the task has succeeded, from the simulator; None if that has broken down."""
        if self._broken is not None:
            return None
        return self._world.task.succeeded(self._world.data)

    def milestones(self) -> Mapping[str, bool]:
        """Return what the stages of the task lead to, and whether each is so now, from the simulator."""
        return self._world.task.milestones(self._world.data)

    def insertion(self) -> InsertionRecord | None:
        """Return the record of the last episode by which an insertion is scored; None in a task without that score."""
        return self._insertion.record()

    def _tick(self) -> None:
        world, now_ns = self._world, self._world.time_ns
        for name in world.arms:
            self._safety.offer_state(world.state(name), now_ns)
        if self._ticks % 2 == 0:
            self._operator.see(see(world))
            for arm, sample in self._operator.sample(now_ns, self._safety.mode).items():
                self._safety.offer_teleop(arm, sample, now_ns)
                self._events += sample.events
        for arm, decision in self._safety.decide(now_ns).items():
            self._executed[arm].add(decision)
            world.command(decision.command.twist, decision.command.gripper, arm=arm)
        for _ in range(STEPS):
            world.advance(TIMESTEP_S)
            self._insertion.feel()
        self._insertion.note()
        self._ticks += 1
