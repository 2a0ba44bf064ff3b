"""A program that uses each part of the example package, where that is installed.

    python -m tests.plugins.use_parts FOLDER

Prints JSON: part -> "" if it does what it should, else the traceback. Files go to FOLDER.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from policies.acting import ActingPolicy, actor_metadata, pack_tensors
from policies.encoders.registry import find_encoder, load_trunk, make_trunk
from policies.learner import LearnerSpec, TensorBatch
from policies.registry import find_builders
from reward_models.interface import ClipQuery, Frame, Instruction
from reward_models.progress.clips import ScoredEpisode
from reward_models.vlm.registry import make_reward_model
from robot_stack.config.drivers import DriverRobot
from robot_stack.config.resolve import load_run
from robot_stack.config.teleop import RealTeleop
from robot_stack.control.drivers.core import DriverCommand
from robot_stack.learner.fitting import fit_reward, image_shapes, load_reward, save_reward
from robot_stack.learner.settings import learning_settings
from robot_stack.nodes.drivers.driver import RobotPart
from robot_stack.plugins import CAMERAS, ROBOTS, Registry
from robot_stack.sensing.capture import CameraPart
from robot_stack.teleop.build import build_teleop
from robot_stack.transport.bundle import SPEC_DIGEST, seal
from robot_stack.types.observation import Observation
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell

FOLDER = Path(sys.argv[1])
SHAPES = {"wrist": (32, 32, 3), "front": (32, 32, 3)}


class Said:
    """Publishers of a driver, without a middleware."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []

    def speak(self, kind: type, topic: str) -> Any:
        sent = self.sent

        class Publisher:
            def publish(self, message: Any) -> None:
                assert isinstance(message, kind)
                sent.append((topic, message))

        return Publisher()


def robot() -> None:
    arm = load_run("example_cell").robot
    assert isinstance(arm, DriverRobot)
    assert arm.command_topics == {"command": "/example_arm/twist", "gripper.command": "/franka_gripper/gripper_action"}
    part: Any = Registry[RobotPart[Any]](ROBOTS, RobotPart)["example_arm"]
    try:
        import geometry_msgs.msg  # noqa: F401
    except ImportError:
        return  # no ROS on this machine: the file is all that can be looked at
    wires = Said()
    driver = part.driver(wires, arm, None)
    driver.send(DriverCommand(twist=np.arange(6.0), live=True, pose=None, angles=None, dt_s=0.01))
    [(topic, message)] = wires.sent
    assert (topic, message.twist.linear.y, message.twist.angular.z) == ("/example_arm/twist", 1.0, 5.0)


def camera() -> None:
    config = load_run("example_cell").cameras["wrist"]
    source = Registry[CameraPart[Any]](CAMERAS, CameraPart)["example_noise"].source(config)
    source.open()
    first, second = source.read(), source.read()
    source.close()
    assert first.image.shape == (48, 64, 3)
    assert (first.image != second.image).any()


def device() -> None:
    config = load_run("example_cell").teleop
    assert isinstance(config, RealTeleop)
    built = build_teleop(config, np.full(6, 0.1))
    samples = [built.device.sample(round(at * 1e9)) for at in np.arange(1.0, 3.0, 0.02)]
    assert samples[-1].deadman
    assert samples[-1].twist[5]
    assert not samples[-1].twist[:5].any()


def encoder() -> None:
    trunk = make_trunk("example_colours", SHAPES, find_encoder("example_colours").config(grid=2), demos=(), seed=0)
    images = {name: np.full((3, *shape), 51, np.uint8) for name, shape in SHAPES.items()}
    assert np.allclose(trunk.encode(images), 0.2, atol=1e-3)
    assert load_trunk(trunk.reference, SHAPES, {}).identity == trunk.identity


def algorithm() -> None:
    resolved = load_run("example_sim")
    settings, spec = learning_settings(resolved), resolved.spec()
    trunk = make_trunk(settings.encoder, image_shapes(spec), settings.encoder_config, demos=(), seed=0)
    sizes = LearnerSpec(
        parts=trunk.parts,
        proprio_mean=torch.zeros(spec.proprio_size),
        proprio_std=torch.ones(spec.proprio_size),
        actions=spec.action_size,
    )
    learner = find_builders(settings.algorithm).learner(sizes, settings.config, seed=0)
    rng = np.random.default_rng(0)
    batch = TensorBatch.for_imitation(
        rng.random((16, trunk.feature_size), np.float32),
        rng.random((16, spec.proprio_size), np.float32),
        np.full((16, spec.action_size), 0.5, np.float32),
        np.ones((16, spec.action_size), bool),
    )
    losses = [float(learner.update(batch)["loss"]) for _ in range(200)]
    assert losses[-1] < 0.1 * losses[0]
    metadata = actor_metadata(trunk, algorithm=settings.algorithm, config=settings.config) | {SPEC_DIGEST: spec.digest}
    params = seal(version=1, tensors=pack_tensors(trunk, learner.actor_tensors()), metadata=metadata)
    policy = ActingPolicy(spec, params, seed=0)
    seen = {name: np.zeros(shape, np.uint8) for name, shape in image_shapes(spec).items()}
    observation = Observation(stamp_ns=0, images=seen, proprio=np.zeros(spec.proprio_size, np.float32))
    assert policy.act(observation, deterministic=True).shape == (spec.action_size,)


def live_reward() -> None:
    config = learning_settings(load_run("example_sim")).reward
    frames = np.linspace(0, 1, 11, dtype=np.float32)[:, None] * np.ones(5, np.float32)
    episodes = [ScoredEpisode(frames=frames, success=True, done_frames=1)]
    model, report, _ = fit_reward(episodes, config, text="push", seed=0, on_step=lambda *_: None)
    assert report.version == model.version
    path = FOLDER / "reward.safetensors"
    save_reward(path, model)
    scores = load_reward(path, model.version, config).score(frames)
    assert np.allclose(scores.progress, np.linspace(0, 1, 11), atol=1e-6)
    assert not scores.success[:8].any()
    assert scores.success[9:].all()


def reward() -> None:
    choice = load_run("example_sim").run.reward.rescore
    assert choice is not None
    model = make_reward_model(choice.name, choice.settings)
    image = np.full((8, 8, 3), 102, np.uint8)
    query = ClipQuery(instruction=Instruction(text="shine"), frames=(Frame(images={"wrist": image}),))
    assert [score.value for score in model.score_progress([query])] == [0.4]


def task() -> None:
    cell = build_local_cell(load_run("example_sim"), seed=0)
    places = []
    for seed in (1, 2):
        cell.reset(seed)
        cell.start(f"episode-{seed}", EpisodeKind.DEMO)
        for _ in range(10):
            cell.sleep_until_ns(cell.now_ns() + 100_000_000)
        observation = cell.observe()
        assert observation is not None
        assert any(motion.human_twist.any() for motion in cell.executed().values())
        cell.finish()
        places.append(cell.world.data.body("socket").xpos.tolist())
    assert places[0] == places[1] == [0.5, 0.0, 0.0]


PARTS: tuple[Callable[[], None], ...] = (
    robot, camera, device, encoder, algorithm, live_reward, reward, task,
)  # fmt: skip


def main() -> int:
    torch.set_num_threads(1)
    said = {}
    for part in PARTS:
        try:
            part()
        except Exception:  # the top of a program: the test shows it
            said[part.__name__] = traceback.format_exc()
        else:
            said[part.__name__] = ""
    print(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
