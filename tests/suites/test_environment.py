"""A simulated cell as a Gymnasium environment: it passes their checker, and is the cell of the dry run."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.plugins import TASKS
from robot_stack.suites import RUNS
from robot_stack.suites.environment import CellEnvironment
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.reason import Refusal, RefusalKind
from sim.cell import find_task
from sim.world import World

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs/gymnasium.md"
UP, DOWN = np.array([0, 0, -1, 0], np.float32), np.array([0, 0, 1, 0], np.float32)
"""The z axis of a tool points down."""


@pytest.fixture(scope="module")
def alone() -> Iterator[CellEnvironment]:
    """An environment without an operator."""
    made = gymnasium.make("robot_stack/PegInsert-v0", render_mode="rgb_array").unwrapped
    assert isinstance(made, CellEnvironment)
    yield made
    made.close()


@pytest.fixture(scope="module")
def attended() -> Iterator[CellEnvironment]:
    """An environment with a scripted operator."""
    made = CellEnvironment("peg_insert", operator="scripted")
    yield made
    made.close()


def drive(
    made: CellEnvironment, seed: int, actions: np.ndarray, **options: Any
) -> tuple[list[dict[str, np.ndarray]], list[dict[str, Any]]]:
    """The observations and infos of an episode, until it ends or the actions do."""
    seen = [made.reset(seed=seed, options=options)[0]]
    infos = []
    for action in actions:
        observation, _, terminated, truncated, info = made.step(action)
        seen.append(observation)
        infos.append(info)
        if terminated or truncated:
            break
    return seen, infos


@pytest.mark.parametrize("name", RUNS)
def test_environment_passes_the_checker_with_no_warning_but_of_what_nothing_bounds(name: str) -> None:
    made = gymnasium.make(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(made.unwrapped)
    made.close()
    told = [str(warning.message) for warning in caught]
    assert not [text for text in told if "infinity" not in text]  # measured speeds and forces have no bound
    assert len(told) == 2


def test_every_scene_of_ours_is_registered() -> None:
    of_one_task = [name for name in TASKS.builtin if not find_task(name).goals]  # else a run's schedule tells the goal
    assert sorted(load_run(run).task.simulated for run in RUNS.values()) == sorted(of_one_task)


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("PegInsert", "scripted"),
        ("TwoArmInsert", "scripted"),
        ("PickInsert", "scripted_pick"),
        ("Drawer", "scripted_drawer"),
        ("CablePlug", "scripted"),
    ],
)
def test_what_an_operator_does_is_told_as_an_action(name: str, operator: str) -> None:
    made = gymnasium.make(f"robot_stack/{name}-v0", operator=operator)
    made.reset(seed=0, options={"demonstration": True})
    told = [made.step(np.zeros(made.action_space.shape, np.float32))[4] for _ in range(12)]
    made.close()
    for info in told[-4:]:
        assert made.action_space.contains(info["intervene_action"])
        np.testing.assert_array_equal(info["intervene_action"], info["executed_action"])
    assert np.abs([info["intervene_action"] for info in told[-4:]]).max() > 0.1


def test_vectors_of_processes_that_are_forked_make_their_steps() -> None:
    """A child of a process that has drawn something never comes out of its first image: the parent must not draw."""
    program = """
import gymnasium, robot_stack.suites
vector = gymnasium.make_vec("robot_stack/PegInsert-v0", num_envs=2, vectorization_mode="async")
seen, _ = vector.reset(seed=0)
print(seen["front"].shape, vector.step(vector.action_space.sample())[0]["proprio"].shape[0])
vector.close()
"""
    made = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240)
    assert made.stdout.split("\n")[0] == "(2, 64, 64, 3) 2", made.stderr


@pytest.mark.parametrize("name", RUNS)
def test_spaces_are_those_of_the_run(name: str) -> None:
    made, spec = gymnasium.make(name), load_run(RUNS[name]).spec()
    assert made.action_space == gymnasium.spaces.Box(-1.0, 1.0, (spec.action_size,), np.float32)
    assert isinstance(made.observation_space, gymnasium.spaces.Dict)
    for camera in spec.cameras:
        assert made.observation_space[camera.name] == gymnasium.spaces.Box(0, 255, camera.shape, np.uint8)
    proprio = made.observation_space["proprio"]
    assert isinstance(proprio, gymnasium.spaces.Box)
    assert proprio.shape == (spec.proprio_size,)
    finite = [field.name.endswith("tcp_pose") for field in spec.proprio for _ in range(field.size)]
    assert np.isfinite(proprio.high).tolist() == finite
    made.close()


def test_same_seed_and_actions_give_the_same_observations_whatever_was_before(alone: CellEnvironment) -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (12, 4)).astype(np.float32)
    one, _ = drive(alone, 5, actions)
    drive(alone, 6, np.tile(DOWN, (80, 1)))  # presses on the table until time runs out
    two, _ = drive(alone, 5, actions)
    other, _ = drive(alone, 7, actions)
    assert len(one) == len(two) == 13
    for before, again in zip(one, two, strict=True):
        for key, value in before.items():
            np.testing.assert_array_equal(value, again[key])
    assert np.abs(other[0]["front"].astype(int) - one[0]["front"]).max() > 20


def test_same_seed_gives_the_same_operator(attended: CellEnvironment) -> None:
    still = np.zeros((40, 4), np.float32)
    one, _ = drive(attended, 3, still)
    drive(attended, 4, still)
    two, _ = drive(attended, 3, still)
    np.testing.assert_array_equal([seen["proprio"] for seen in one], [seen["proprio"] for seen in two])


def test_nobody_interferes_without_an_operator_and_time_runs_out(alone: CellEnvironment) -> None:
    alone.reset(seed=1)
    for step in range(80):
        _, reward, terminated, truncated, info = alone.step(np.zeros(4, np.float32))
        assert (reward, terminated, truncated) == (0.0, False, step == 79)
        assert info["success"] is False
        assert "intervene_action" not in info
        assert np.abs(info["executed_action"]).max() == 0.0
    with pytest.raises(gymnasium.error.ResetNeeded):
        alone.step(np.zeros(4, np.float32))


def test_operator_steps_in_where_the_policy_is_stuck(attended: CellEnvironment) -> None:
    _, infos = drive(attended, 3, np.zeros((80, 4), np.float32))
    corrected = [info["intervene_action"] for info in infos if "intervene_action" in info]
    assert len(corrected) >= 5
    assert "intervene_action" not in infos[0]
    for info in infos:
        if "intervene_action" in info:
            np.testing.assert_array_equal(info["intervene_action"], info["executed_action"])
    assert np.abs(corrected).max() > 0.2


def test_demonstration_ends_in_a_success(attended: CellEnvironment) -> None:
    attended.reset(seed=2, options={"demonstration": True})
    rewards = []
    for _ in range(80):
        _, reward, terminated, truncated, info = attended.step(UP)  # which nobody heeds
        rewards.append(reward)
        assert "intervene_action" in info
        if terminated or truncated:
            break
    assert (terminated, truncated, info["success"]) == (True, False, True)
    assert rewards == [0.0] * (len(rewards) - 1) + [1.0]


def test_lost_object_ends_the_episode_without_a_reward(alone: CellEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    alone.reset(seed=1)
    world: World = alone._cell.world
    monkeypatch.setattr(world.task, "failed", lambda data: True)
    _, reward, terminated, truncated, info = alone.step(np.zeros(4, np.float32))
    assert (reward, terminated, truncated, info["success"]) == (0.0, True, False, False)


def test_actions_pass_the_safety_filter(alone: CellEnvironment) -> None:
    seen, infos = drive(alone, 1, np.tile(UP, (40, 1)))
    executed = [info["executed_action"][2] for info in infos]
    assert -0.6 < executed[0] < -0.1  # it speeds up within the limits of acceleration and jerk
    assert min(executed) == pytest.approx(-1.0, abs=0.01)
    assert abs(executed[-1]) < 0.01  # at the upper edge of the workspace
    assert abs(seen[-1]["proprio"][2]) < 0.2


def test_hold_is_told_and_ends_with_the_next_reset(alone: CellEnvironment) -> None:
    one, _ = drive(alone, 1, np.tile(UP, (5, 1)))
    alone._cell._safety.hold(Refusal(kind=RefusalKind.FORCE, text="force is 40 N, must be below 35"))
    for _ in range(3):
        _, _, terminated, truncated, info = alone.step(UP)
    assert not terminated
    assert not truncated
    assert info["hold"] == "force is 40 N, must be below 35"
    assert np.abs(info["executed_action"]).max() == 0.0
    two, infos = drive(alone, 1, np.tile(UP, (5, 1)))
    assert not [info for info in infos if "hold" in info]
    np.testing.assert_array_equal(one[-1]["proprio"], two[-1]["proprio"])


def test_image_is_rendered(alone: CellEnvironment) -> None:
    alone.reset(seed=1)
    image = alone.render()
    assert image is not None
    assert image.shape == (480, 640, 3)
    assert image.dtype == np.uint8
    assert image.std() > 10


def test_what_does_not_fit_is_refused(alone: CellEnvironment, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'spacemouse', must be the file of a scripted one"):
        CellEnvironment("peg_insert", operator="spacemouse")
    with pytest.raises(ConfigError, match="'human', must be 'rgb_array' or None"):
        CellEnvironment("peg_insert", render_mode="human")
    with pytest.raises(ConfigError, match="must be 'sim' to be simulated"):
        CellEnvironment("fr3_table")
    based = tmp_path / "based.yaml"
    shipped = (config_root() / "runs" / "peg_insert.yaml").read_text()
    based.write_text(shipped + "base: {kind: saved, policy: /tmp/policy.safetensors}\n")
    with pytest.raises(ConfigError, match="has a base policy, must have none"):
        CellEnvironment(str(based))
    with pytest.raises(SpecError, match="option of reset is 'sed', must be 'demonstration'"):
        alone.reset(options={"sed": 1})
    with pytest.raises(SpecError, match="must be somebody to demonstrate"):
        alone.reset(options={"demonstration": True})
    alone.reset(seed=1)
    with pytest.raises(SpecError, match=r"action is float32 \(3,\), must be float32 \(4,\)"):
        alone.step(np.zeros(3, np.float32))


def test_missing_package_is_said_in_a_sentence() -> None:
    code = "import sys; sys.modules['gymnasium'] = None; import robot_stack.suites"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert "gymnasium is missing, must be installed for robot_stack.suites; pip install 'robot-stack[suites]'" in (
        result.stderr
    )


def test_examples_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    examples = re.findall(r"^```python\n(.+?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), {})
    said = capsys.readouterr().out
    assert "inserted: True" in said
    assert "Evaluated(online_steps=100, updates=100" in said
