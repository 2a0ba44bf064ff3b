"""Synthetic episodes with exact labels: the real scene, controller, contacts and cameras, and a scripted hand.

Same kind and seed, same bytes. What the images show is what the cell's cameras would show; what is true of them, the
simulator says.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.observation import Observation
from robot_stack.types.spec import Spec
from sim.hand import GAIN_HZ, Aim, Hand
from sim.scripts import KINDS, Kind, set_stage
from sim.tasks.peg_insert import TwoSockets
from sim.world import UnstableScene, World

OTHER_TASKS = (
    "insert the orange peg into the green socket",
    "pull the orange peg out of the blue socket",
    "push the blue socket to the left",
    "pick up the red cube and put it into the bowl",
    "open the upper drawer",
    "wipe the table with the towel",
    "turn the black screw",
    "hang the cup on the rack",
)
"""What a robot may have been told while it did something else."""

SERVO_S = 0.02
"""The hand corrects at 50 Hz, like an operator at a teleop device."""
TREMOR_M_S = 0.003
TREMOR_RAD_S = 0.02
DECOY_SHARE = 0.25
"""Of episodes that need no second socket: were it only there when it is gone into, it would give the failure away."""
LONGEST_STEPS = 160
EMPTY_S = 0.5
"""An empty hand has closed or opened by then."""
TRIES = 96
"""About one in six tries of the rarest kind comes about (7 of 42): none of 24 in a seed of 80, of 96 in hardly any."""


class Senses(Protocol):
    """The cell's senses in a scene: its cameras and the state of its arm."""

    def begin_episode(self) -> None:
        """Prepare the senses for a new episode."""
        ...

    def observe(self) -> Observation:
        """Return an observation of the present scene by the cameras and the arm."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedEpisode:
    """A synthetic episode of T steps with the truth about it.

    Attributes:
        kind: One of `sim.scripts.KINDS`.
        seed: With the kind, all that it came from.
        text: What the robot was told.
        images: Camera -> uint8 RGB, shape (T+1, H, W, 3).
        proprio: float32, shape (T+1, P), SI units, as the task records it.
        actions: Executed, float32, shape (T, A), in [-1, 1], units of the action space.
        success: Whether what was told is done at the last frame.
        done_at: First frame that shows it done; None without success.
        progress: True progress per frame, float64, shape (T+1,), see `sim.hand.progress_of`; all 0 in a mismatch
            and where no image shows the peg.
        stages: int8, shape (T+1,): 0 on the way, 1 over the hole, 2 in it.
    """

    kind: str
    seed: int
    text: str
    images: Mapping[str, np.ndarray] = field(repr=False)
    proprio: np.ndarray = field(repr=False)
    actions: np.ndarray = field(repr=False)
    success: bool
    done_at: int | None
    progress: np.ndarray = field(repr=False)
    stages: np.ndarray = field(repr=False)

    @property
    def name(self) -> str:
        """Return the name of the episode, unique by kind and seed."""
        return f"{self.kind}-{self.seed}"


class EpisodeMaker:
    """A maker of synthetic episodes in one world, one after the other. Belongs to the thread that made the senses.

    Args:
        world: Its task is `task`.
        task: With two sockets.
        senses: See that world.
        spec: Of the cell, with one arm.
        text: The task in words.
        rim_m: Height of the socket's rim.

    Raises:
        SpecError: If the control period is no multiple of the hand's.
    """

    def __init__(self, world: World, task: TwoSockets, senses: Senses, spec: Spec, *, text: str, rim_m: float) -> None:
        self._world, self._task, self._senses, self._spec = world, task, senses, spec
        self._text, self._rim_m = text, rim_m
        self._ticks = round(spec.period_s / SERVO_S)
        if abs(self._ticks * SERVO_S - spec.period_s) > 1e-9 or not self._ticks:
            raise SpecError(f"rate_hz is {spec.rate_hz}, must divide {1 / SERVO_S:g}; take 10")
        arm = spec.arms[0]
        self._axes = list(arm.axis_indices)
        self._scale = np.array([arm.translation_m] * 3 + [arm.rotation_rad] * 3) * spec.rate_hz

    def make(self, kind: str, seed: int) -> GeneratedEpisode:
        """Make an episode of a kind from a seed.

        Raises:
            SpecError: If there is no such kind.
            RobotError: If it does not come to what its kind demands, several times over.
        """
        if kind not in KINDS:
            raise SpecError(f"kind of episode is {kind!r}, must be one of {sorted(KINDS)}")
        for attempt in range(TRIES):
            rng = np.random.default_rng((seed, zlib.crc32(kind.encode()), attempt))
            try:
                episode = self._play(kind, seed, rng)
            except UnstableScene:
                continue
            if episode is not None:
                return episode
        raise RobotError(f"{kind} with seed {seed} did not come about in {TRIES} tries; take another seed")

    def _play(self, kind: str, seed: int, rng: np.random.Generator) -> GeneratedEpisode | None:
        """Play an episode; return None if the simulator says something else of it than its kind."""
        about = KINDS[kind]
        succeeds = about.success if about.success is not None else bool(rng.random() < 0.5)
        self._task.decoy_wanted = about.decoy or bool(rng.random() < DECOY_SHARE)
        self._world.reset(int(rng.integers(1 << 31)))
        self._prepare_peg(about, rng)
        self._senses.begin_episode()
        stage = set_stage(
            self._world, self._task, rng, rim_m=self._rim_m, period_s=self._spec.period_s, succeeds=succeeds
        )
        hand = stage.hand
        tape = _Tape()
        tape.add(self._senses.observe(), hand)
        for aim in about.script(stage):
            action = self._execute(hand, aim)
            hand.steps += 1
            tape.add(self._senses.observe(), hand, action)
            if hand.steps > LONGEST_STEPS:
                return None
        done = np.array(tape.done)
        if bool(done[-1]) != succeeds or (not succeeds and done.any()) or not tape.actions:
            return None
        if about.lost != self._task.failed(self._world.data) or (about.arrives and not hand.arrived()):
            return None
        images = tape.images()
        if about.covered:
            _cover(images, rng)
        told, counts = not about.told_otherwise, not about.told_otherwise and about.peg != "unseen"
        return GeneratedEpisode(
            kind=kind,
            seed=seed,
            text=self._text if told else OTHER_TASKS[rng.integers(len(OTHER_TASKS))],
            images=images,
            proprio=np.stack([seen.proprio for seen in tape.seen]),
            actions=np.stack(tape.actions),
            success=succeeds and counts,
            done_at=int(done.argmax()) if succeeds and counts else None,
            progress=np.array(tape.progress) * counts,
            stages=np.array(tape.stages, dtype=np.int8),
        )

    def _prepare_peg(self, about: Kind, rng: np.random.Generator) -> None:
        """Show the peg, hide it, or take it away and leave the hand closed or open, as an episode of a kind begins."""
        world = self._world
        self._task.show_peg(world.model, visible=about.peg != "unseen")
        if about.peg != "taken":
            return
        self._task.take_away(world.model, world.data)
        world.command(np.zeros(6), float(rng.random() < 0.5))
        world.advance(EMPTY_S)
        for arm in world.arms.values():
            arm.tare(world.data)

    def _execute(self, hand: Hand, aim: Aim) -> np.ndarray:
        """Move for one control step; return the mean twist as an action, float32 (A,)."""
        twists = []
        for _ in range(self._ticks):
            twist = self._servo(hand, aim)
            self._world.command(twist, aim.opening)
            self._world.advance(SERVO_S)
            twists.append(twist)
        action = np.mean(twists, axis=0)[self._axes] / self._scale[self._axes]
        return np.asarray(np.clip(action, -1, 1), dtype=np.float32)

    def _servo(self, hand: Hand, aim: Aim) -> np.ndarray:
        """Compute a twist towards the aim, tcp frame, shape (6,), on the axes and within the speeds of the actions."""
        error = aim.target - hand.tcp()
        velocity = GAIN_HZ * error[:3]
        velocity *= min(1.0, aim.speed_m_s / max(float(np.linalg.norm(velocity)), 1e-9))
        velocity += hand.rng.normal(0.0, TREMOR_M_S, 3)
        turn = GAIN_HZ * float(np.arctan2(np.sin(error[3]), np.cos(error[3]))) + hand.rng.normal(0.0, TREMOR_RAD_S)
        to_tcp = self._world.state().T_base_tcp.rotation.inv()
        wanted = np.concatenate([to_tcp.apply(velocity), to_tcp.apply([0.0, 0.0, turn])])
        twist = np.zeros(6)
        twist[self._axes] = np.clip(wanted, -self._scale, self._scale)[self._axes]
        return twist


class _Tape:
    """The record of an episode that is being played: what was seen and what was true, frame by frame."""

    def __init__(self) -> None:
        self.seen: list[Observation] = []
        self.actions: list[np.ndarray] = []
        self.progress: list[float] = []
        self.done: list[bool] = []
        self.stages: list[int] = []

    def add(self, seen: Observation, hand: Hand, action: np.ndarray | None = None) -> None:
        self.seen.append(seen)
        self.progress.append(hand.progress())
        self.done.append(hand.done())
        self.stages.append(hand.stage())
        if action is not None:
            self.actions.append(action)

    def images(self) -> dict[str, np.ndarray]:
        return {name: np.stack([seen.images[name] for seen in self.seen]) for name in self.seen[0].images}


def _cover(images: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """Hold something dull before one camera or all of them for 0.8 to 2 s (at 10 Hz), in place."""
    frames = len(next(iter(images.values())))
    names = sorted(images) if rng.random() < 0.5 else [sorted(images)[rng.integers(len(images))]]
    begin = int(rng.uniform(0.2, 0.6) * frames)
    end = begin + int(rng.integers(8, 21))
    colour = rng.uniform(20, 130, 3)
    for name in names:
        hidden = images[name][begin:end]
        hidden[:] = np.clip(colour + rng.normal(0, 4, hidden.shape), 0, 255).astype(np.uint8)
