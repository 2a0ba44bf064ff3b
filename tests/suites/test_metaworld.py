"""Meta-World itself: its tasks by our face, its scripted policies as operator, and the example that runs them.

Needs an environment of its own (`.ci/metaworld`): Meta-World pins a MuJoCo older than this project's.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

pytest.importorskip("metaworld", reason="no Meta-World in this environment: .ci/metaworld makes one")

from benchmarks.suites import metaworld as suite
from benchmarks.suites.table import read
from robot_stack.config.resolve import load_run
from robot_stack.suites.metaworld import ACTION_REPEAT, EPISODE_STEPS, HAND, NAME, MetaWorldTask, ScriptedPolicy
from robot_stack.types.command import Mode
from robot_stack.types.errors import ConfigError
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell

EXAMPLE = Path(suite.__file__).parents[2] / suite.RUN
TELLING = ("task.sim.kwargs.told=true", "run.encoder.name=none", "run.encoder.settings={}")
"""Numbers in the place of images: a second instead of a minute."""


def task(name: str = "assembly-v3", **asked: Any) -> gymnasium.Env[Any, np.ndarray]:
    return gymnasium.make(NAME, task=name, **asked)


def test_it_is_the_release_that_the_figures_are_of() -> None:
    assert version("metaworld") == "3.1.1"


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasiums_own_checker_finds_nothing(told: bool) -> None:
    check_env(task(told=told).unwrapped, skip_render_check=True)


def test_its_pictures_are_upright_though_the_camera_hangs_upside_down() -> None:
    environment = task()
    seen, _ = environment.reset(seed=0)
    inner = environment.unwrapped._inner  # type: ignore[attr-defined]
    up = inner.data.camera("corner2").xmat.reshape(3, 3)[:, 1]
    assert up[2] < -0.5, "what it draws has the table on top"
    assert np.array_equal(seen["image"], np.rot90(inner.render(), 2))


@pytest.mark.parametrize("name", list(suite.TEXTS))
def test_meta_worlds_own_policy_does_each_task_within_an_episode(name: str) -> None:
    environment = task(name, told=True)
    policy, done = ScriptedPolicy(environment), 0
    for seed in range(10):
        seen, _ = environment.reset(seed=seed)
        ended = False
        for _ in range(EPISODE_STEPS):
            seen, reward, terminated, truncated, info = environment.step(policy(seen))
            assert reward == float(info["success"] and terminated)
            ended = terminated or truncated
            if ended:
                done += terminated
                break
        assert ended
    assert done >= 8


def test_a_reset_draws_parts_and_goal_by_its_seed_and_tells_the_goal() -> None:
    environment = task("coffee-push-v3", told=True)
    states = [environment.reset(seed=seed)[0]["state"] for seed in (3, 3, 4)]
    assert np.array_equal(states[0], states[1])
    assert not np.allclose(states[0][-3:], states[2][-3:]), "the goal"
    assert not np.allclose(states[0][4:7], states[2][4:7]), "the mug"
    assert np.abs(states[0][-3:]).max() > 0.1, "it is told: nothing is clipped to zero"


def test_an_action_is_made_twice_and_the_hand_is_told_beside_the_image() -> None:
    told, seen = task(told=True), task()
    states, shown = (environment.reset(seed=0)[0] for environment in (told, seen))
    assert sorted(shown) == ["hand", "image"]
    inner = seen.unwrapped
    assert isinstance(inner, MetaWorldTask)
    before = inner._inner.curr_path_length
    for _ in range(5):
        states, shown = (
            environment.step(np.array([0.5, 0.0, 0.0, -1.0], np.float32))[0] for environment in (told, seen)
        )
    assert inner._inner.curr_path_length - before == 5 * ACTION_REPEAT
    assert np.array_equal(states["state"][:HAND], shown["hand"])
    assert shown["image"].shape == (96, 96, 3)
    assert shown["image"].std() > 20.0


def test_a_task_that_it_does_not_have_is_refused_where_the_run_is_read() -> None:
    with pytest.raises(ConfigError, match=r"task is 'fly-v3', must be one of assembly-v3, "):
        load_run(EXAMPLE, ["task.sim.kwargs.task=fly-v3"])


def test_only_its_own_environment_has_its_policy() -> None:
    with pytest.raises(TypeError, match="must be MetaWorldTask"):
        ScriptedPolicy(gymnasium.make("MountainCarContinuous-v0"))


def test_the_expert_helps_after_the_patience_of_the_task() -> None:
    resolved = load_run(EXAMPLE, [*TELLING, "task.sim.patience=3"])
    cell = build_local_cell(resolved, seed=0)
    cell.reset(0)
    cell.start("000000-online-a", EpisodeKind.ONLINE)
    modes = []
    for _ in range(5):
        modes.append(cell.mode())
        cell.send(np.zeros(4, np.float32))
        cell.sleep_until_ns(cell.now_ns() + 100_000_000)
    assert modes == [*3 * [Mode.POLICY], *2 * [Mode.HUMAN]]


def test_a_run_is_measured_and_kept_beside_those_of_ogbench(tmp_path: Path) -> None:
    (tmp_path / "work" / "assembly-v3").mkdir(parents=True)
    short = (*TELLING, "run.training.demos=1", "task.episode_steps=60", "run.training.eval_episodes=1")
    before, suite.RESETS = suite.RESETS, 2
    try:
        run = suite.measure("assembly-v3", "helped", 5, minutes=0.15, work=tmp_path / "work", more=short)
    finally:
        suite.RESETS = before
    assert (run["resets"], run["condition"]) == (2, "helped")
    assert run["decisions"] >= 90
    assert run["demonstrated"] >= 20
    suite.keep(run, tmp_path)
    assert read(tmp_path).metaworld == [run]
    with pytest.raises(SystemExit, match="must be of 5"):
        suite.keep(run | {"minutes": 5}, tmp_path)
    other = {**run, "seed": 6, "settings": {**run["settings"], "demos": 9}}
    with pytest.raises(SystemExit, match=r"settings of helped are demos: 1 \| 9 in seed 5"):
        suite.keep(other, tmp_path)
    assert "| assembly-v3 | helped |" in (tmp_path / "SUITES.md").read_text()
