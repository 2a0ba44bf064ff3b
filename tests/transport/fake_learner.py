"""A learner that only remembers, and the cell its steps come from. "Disk" is what outlives `restarted`."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import grpc
import numpy as np

from robot_stack.transport import learner_pb2 as pb
from robot_stack.transport.access.link_token import LinkToken
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.calls import greet, operator_hello
from robot_stack.transport.roster import Roster
from robot_stack.transport.service import LearnerStub
from robot_stack.transport.wire import PROTOCOL_VERSION
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError
from robot_stack.types.event import Label
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.reward import LiveScore
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step

TASK = "peg"
SPEC = Spec(
    arms=(ArmSpec(name="arm", translation_m=0.02, rotation_rad=0.1, gripper=GripperKind.DISCRETE),),
    cameras=(CameraSpec(name="front", height_px=8, width_px=12), CameraSpec(name="wrist", height_px=8, width_px=8)),
    proprio=(ProprioField(name="tcp", size=7), ProprioField(name="gripper", size=1)),
    rate_hz=10.0,
)

TOKEN = LinkToken(token="0123456789abcdef" * 2, path=Path("/runs/monday/link.token"))
"""Of both ends, where a test does not say otherwise."""


def hello(**changes: object) -> pb.HelloRequest:
    """The Hello of an actor that fits."""
    fields = {
        "protocol": PROTOCOL_VERSION, "role": "actor", "actor_id": "actor-1", "life": "1", "task": TASK,
        "run_id": "run-1", "spec_digest": SPEC.digest, "spec_json": SPEC.to_json(), **changes,
    }  # fmt: skip
    return pb.HelloRequest(**fields)  # type: ignore[arg-type]


def greeted(channel: grpc.Channel, **changes: object) -> LearnerStub:
    """A stub of an actor that has said Hello."""
    return greet(channel, hello(**changes), 10.0)[0]


def operator(channel: grpc.Channel, name: str = "page") -> LearnerStub:
    """A stub of who looks and labels, and has said Hello."""
    return greet(channel, operator_hello(name, uuid.uuid4().hex), 10.0)[0]


def make_header(episode_id: str, **changes: object) -> EpisodeHeader:
    fields = {"kind": EpisodeKind.ONLINE, "task": TASK, "actor": "actor-1", "started_unix_s": 1.5e9, "seed": 3}
    return EpisodeHeader(**{**fields, "episode_id": episode_id, **changes})  # type: ignore[arg-type]


def make_step(episode_id: str, index: int, *, last: bool = False, spec: Spec = SPEC) -> Step:
    """A step whose content is a function of episode and index, so that a mix-up shows."""
    rng = np.random.default_rng([index, *episode_id.encode()])
    actions = rng.uniform(-1, 1, (3, spec.action_size)).astype(np.float32)
    row = ActionRow(
        executed=actions[0], proposed=actions[1], human=actions[2], source=Source.HUMAN, gripper_pressed=True,
        clipped=True, params_version=7, params_age_s=0.25,
    )  # fmt: skip
    return Step(
        episode_id=episode_id,
        index=index,
        observation=Observation(
            images={c.name: rng.integers(0, 256, c.shape, dtype=np.uint8) for c in spec.cameras},
            proprio=rng.normal(size=spec.proprio_size).astype(np.float32),
            stamp_ns=index * 100_000_000,
            age_s=2**-5,  # exact in the float32 of the store
            skew_s=2**-7,
        ),
        action=None if last else row,
        end=EndReason.SUCCESS if last else None,
    )


def fingerprint(step: Step) -> list[object]:
    """Every bit of a step, comparable with ==."""
    seen, row = step.observation, step.action
    images = {name: (image.shape, image.tobytes()) for name, image in seen.images.items()}
    found: list[object] = [step.episode_id, step.index, step.end, images]
    found += [seen.proprio.tobytes(), seen.stamp_ns, seen.age_s, seen.skew_s]
    if row is not None:
        found += [row.executed.tobytes(), row.proposed.tobytes(), row.human.tobytes(), row.source]
        found += [row.gripper_pressed, row.clipped, row.params_version, row.params_age_s]
    return found


def equal_steps(a: Step, b: Step) -> bool:
    return fingerprint(a) == fingerprint(b)


def wait_until(condition: Callable[[], object], timeout_s: float = 20.0) -> bool:
    """Bounded; False if it never came true."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class FakeLearner:
    """Takes steps into memory; `flush` puts them on its disk. With `auto_flush` each step is there at once."""

    def __init__(self, *, spec: Spec = SPEC, task: str = TASK, run_id: str = "run-1", auto_flush: bool = True) -> None:
        self.spec, self.task, self.run_id = spec, task, run_id
        self.auto_flush = auto_flush
        self.changed = threading.Condition()
        self.headers: dict[str, EpisodeHeader] = {}
        self.disk: dict[str, list[Step]] = {}
        self.memory: dict[str, list[Step]] = {}
        self.labels: dict[tuple[str, str, float], Label] = {}
        self.marks: dict[StageMark, None] = {}
        self.label_calls = 0
        self.appends = 0
        self.hellos = 0
        self.roster = Roster()
        self.room = threading.Event()
        self.room.set()
        self.params: Params | None = None
        self.scores: list[LiveScore] = []
        self.fail_next: Exception | None = None

    def restarted(self) -> FakeLearner:
        """The same run in a new process: what was not flushed is gone."""
        other = FakeLearner(spec=self.spec, task=self.task, run_id=self.run_id, auto_flush=self.auto_flush)
        with self.changed:
            other.headers, other.labels = dict(self.headers), dict(self.labels)
            other.disk = {name: list(steps) for name, steps in self.disk.items()}
            other.memory = {name: list(steps) for name, steps in self.disk.items()}
        return other

    def flush(self) -> None:
        with self.changed:
            self.disk = {name: list(steps) for name, steps in self.memory.items()}

    def hello(self) -> int:
        self.hellos += 1
        return sum(map(len, self.disk.values()))

    def next_number(self, actor_id: str) -> int:
        return sum(header.actor == actor_id for header in self.headers.values())

    def wait_room(self, timeout_s: float) -> bool:
        return self.room.wait(timeout_s)

    def begin(self, header: EpisodeHeader) -> bool:
        with self.changed:
            fresh = header.episode_id not in self.headers
            if self.headers.setdefault(header.episode_id, header) != header:
                raise SpecError(f"header of {header.episode_id} is of another episode; use a new episode id")
            self.memory.setdefault(header.episode_id, [])
            self.disk.setdefault(header.episode_id, [])
            return fresh

    def owner(self, episode_id: str) -> str | None:
        return self.headers[episode_id].actor if episode_id in self.headers else None

    def append(self, step: Step) -> bool:
        with self.changed:
            self.appends += 1
            if self.fail_next is not None:
                error, self.fail_next = self.fail_next, None
                raise error
            held = self.memory[step.episode_id]
            if step.index > len(held):
                raise SpecError(f"index is {step.index}, must be {len(held)}")
            fresh = step.index == len(held)
            if fresh:
                held.append(step)
            self.changed.notify_all()
        if self.auto_flush:
            self.flush()
        return fresh

    def cut(self, episode_id: str) -> None:
        self.flush()

    def durable(self, episode_id: str) -> int:
        return len(self.disk.get(episode_id, ())) - 1

    def label(self, label: Label, *, by_actor: bool) -> None:
        with self.changed:
            self.label_calls += 1
            self.labels.setdefault((label.episode_id, label.source.value, label.stamp_unix_s), label)

    def mark(self, mark: StageMark) -> None:
        with self.changed:
            self.marks.setdefault(mark)

    def publish(self, params: Params) -> None:
        with self.changed:
            self.params = params
            self.changed.notify_all()

    def params_after(self, version: int, timeout_s: float) -> Params | None:
        def newer() -> Params | None:
            return self.params if self.params is not None and self.params.version > version else None

        with self.changed:
            return self.changed.wait_for(newer, timeout_s)

    def score(self, score: LiveScore) -> None:
        with self.changed:
            self.scores.append(score)
            self.changed.notify_all()

    def scores_after(self, cursor: int, timeout_s: float) -> tuple[int, Sequence[LiveScore]]:
        with self.changed:
            self.changed.wait_for(lambda: len(self.scores) > cursor, timeout_s)
            return len(self.scores), self.scores[cursor:]

    def status(self) -> LearnerStatus:
        return LearnerStatus(
            phase="training", message="fine", counters={"updates": 12.0}, actors=self.roster.statuses()
        )
