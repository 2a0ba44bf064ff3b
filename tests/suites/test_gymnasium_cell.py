"""An environment as a cell: its spaces become a spec, its ends those of episodes, its expert the operator."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits
from robot_stack.suites.environment import CellEnvironment
from robot_stack.suites.gymnasium_cell import GymnasiumCell, spec_of, told_by_reward
from robot_stack.types.command import Mode, Source
from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.observation import Observation
from robot_stack.types.spec import CameraSpec, ProprioField
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, Step
from tests.suites.point_mass import LONGEST, PointMass, straight

NUMBERS = spaces.Box(-np.inf, np.inf, (3,), np.float64)
MOVES = spaces.Box(-1.0, 1.0, (2,), np.float32)


class Kept:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.labels: list[Label] = []

    def begin(self, header: EpisodeHeader) -> None:
        pass

    def push(self, step: Step) -> None:
        self.steps.append(step)

    def label(self, label: Label) -> None:
        self.labels.append(label)

    @property
    def sources(self) -> list[Source]:
        return [step.action.source for step in self.steps if step.action is not None]


class Always:
    """A policy of one action."""

    version, age_s = 1, 0.0

    def __init__(self, *entries: float) -> None:
        self._action = np.array(entries, np.float32)

    def begin_episode(self) -> None:
        pass

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        return self._action


class Ending(gymnasium.Env[Any, Any]):
    """An environment that ends after three steps as it was told."""

    observation_space = NUMBERS
    action_space = MOVES

    def __init__(self, *, terminated: bool, truncated: bool = False, reward: float = 0.0, **info: bool) -> None:
        self._end = terminated, truncated
        self._reward, self._info = reward, info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._steps = 0
        return np.zeros(3), {}

    def step(self, action: np.ndarray) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        over = self._steps == 3
        nothing = {name: False for name in self._info}
        end = self._end if over else (False, False)
        return np.full(3, self._steps), self._reward * over, *end, self._info if over else nothing


def run(
    cell: GymnasiumCell, kind: EpisodeKind, policy: Always | None, *, longest: int = 100, seed: int = 4
) -> tuple[EpisodeOutcome, Kept]:
    kept = Kept()
    header = EpisodeHeader(episode_id="000000-a", kind=kind, task="t", actor="a", started_unix_s=1.0, seed=seed)
    loop = ControlLoop(cell, cell.spec, cell, LoopLimits(episode_steps=longest))
    return loop.run_episode(header, policy, kept, deterministic=True), kept


def test_numbers_become_proprio_and_images_cameras() -> None:
    image = spaces.Box(0, 255, (32, 48, 3), np.uint8)
    spec = spec_of(spaces.Dict({"goal": NUMBERS, "front": image, "matrix": spaces.Box(-1, 1, (2, 3))}), MOVES)
    assert spec.cameras == (CameraSpec(name="front", height_px=32, width_px=48),)
    assert set(spec.proprio) == {ProprioField(name="goal", size=3), ProprioField(name="matrix", size=6)}
    assert spec_of(NUMBERS, MOVES).proprio == (ProprioField(name="state", size=3),)
    assert spec_of(NUMBERS, MOVES).cameras == ()


def test_action_of_any_size_is_that_of_as_many_arms_as_it_takes() -> None:
    assert [arm.size for arm in spec_of(NUMBERS, MOVES).arms] == [2]
    spec = spec_of(NUMBERS, spaces.Box(-1, 1, (14,)))
    assert [arm.size for arm in spec.arms] == [6, 6, 2]
    assert spec.action_size == 14


@pytest.mark.parametrize(
    ("observations", "actions", "message"),
    [
        (NUMBERS, spaces.Discrete(3), "action space is Discrete.*, must be a Box of floats with finite bounds"),
        (NUMBERS, NUMBERS, "action space is Box.*, must be a Box of floats with finite bounds"),
        (NUMBERS, spaces.Box(0, 3, (2,), np.int64), "action space is Box.*, must be a Box of floats"),
        (NUMBERS, spaces.Box(1, 1, (2,)), "action space is Box.*, must be a Box of floats"),
        (spaces.Discrete(3), MOVES, "observation space is Discrete.*, must be a Box or a Dict of Boxes"),
        (spaces.Dict({"a": spaces.Dict({"b": NUMBERS})}), MOVES, "must be a Box or a Dict of Boxes; flatten it"),
        (spaces.Box(0, 255, (32, 32, 4), np.uint8), MOVES, r"\(32, 32, 4\), must be \(H, W, 3\), RGB"),
        (spaces.Box(0, 255, (32, 32, 3), np.uint8), MOVES, "must have numbers beside images"),
        (spaces.Dict({"a/b": NUMBERS}), MOVES, "name in the observation space is 'a/b', must be"),
    ],
)
def test_spaces_that_do_not_fit_are_refused(
    observations: spaces.Space[Any], actions: spaces.Space[Any], message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        spec_of(observations, actions)


def test_actions_are_scaled_to_the_space_and_recorded_as_sent() -> None:
    environment = PointMass()
    cell = GymnasiumCell(environment)
    outcome, kept = run(cell, EpisodeKind.EVAL, Always(0.3, -1.0), longest=4)
    assert (outcome.end, outcome.steps) == (EndReason.TIMEOUT, 4)
    np.testing.assert_allclose(environment.taken, [[1.3, 0.0]] * 4, rtol=1e-6)
    assert all(action.dtype == np.float32 for action in environment.taken)
    for step in kept.steps[:-1]:
        assert step.action is not None
        np.testing.assert_allclose(step.action.executed, [0.3, -1.0], rtol=1e-6)
        assert not step.action.human.any()
    moved = kept.steps[1].observation.proprio - kept.steps[0].observation.proprio
    assert kept.steps[0].observation.proprio.dtype == np.float32
    assert np.abs(moved).max() == pytest.approx(0.15, abs=1e-6)
    stamps = [step.observation.stamp_ns for step in kept.steps]
    assert set(np.diff(stamps)) == {100_000_000}


@pytest.mark.parametrize(
    ("environment", "end", "verdict"),
    [
        (Ending(terminated=True, success=True), EndReason.SUCCESS, Verdict.SUCCESS),
        (Ending(terminated=False, success=True), EndReason.SUCCESS, Verdict.SUCCESS),
        (Ending(terminated=True, success=False), EndReason.FAILURE, Verdict.FAILURE),
        (Ending(terminated=False, truncated=True, success=False), EndReason.TIMEOUT, None),
        (Ending(terminated=False, truncated=True, success=True), EndReason.SUCCESS, Verdict.SUCCESS),
    ],
)
def test_end_of_an_episode_is_the_environments(environment: Ending, end: EndReason, verdict: Verdict | None) -> None:
    outcome, kept = run(GymnasiumCell(environment), EpisodeKind.ONLINE, Always(0.0, 0.0))
    assert (outcome.end, outcome.steps, outcome.truth) == (end, 3, end is EndReason.SUCCESS)
    said = [label.verdict for label in kept.labels if label.source is LabelSource.OPERATOR]
    assert said == ([] if verdict is None else [verdict])
    np.testing.assert_array_equal([step.observation.proprio[0] for step in kept.steps], [0, 1, 2, 3])


def test_reward_can_be_what_says_that_the_task_is_done() -> None:
    paid = GymnasiumCell(Ending(terminated=True, reward=1.0), success=told_by_reward)
    assert run(paid, EpisodeKind.ONLINE, Always(0.0, 0.0))[0].end is EndReason.SUCCESS
    unpaid = GymnasiumCell(Ending(terminated=True, reward=-1.0), success=told_by_reward)
    assert run(unpaid, EpisodeKind.ONLINE, Always(0.0, 0.0))[0].end is EndReason.FAILURE
    with pytest.raises(SpecError, match=r"info has \[\], must have 'success' or 'is_success'; judge by the reward"):
        run(GymnasiumCell(Ending(terminated=True)), EpisodeKind.ONLINE, Always(0.0, 0.0))


def test_expert_demonstrates() -> None:
    cell = GymnasiumCell(PointMass(), expert=straight)
    outcome, kept = run(cell, EpisodeKind.DEMO, None)
    assert outcome.end is EndReason.SUCCESS
    assert set(kept.sources) == {Source.HUMAN}
    for step in kept.steps[:-1]:
        assert step.action is not None
        place, goal = step.observation.proprio[2:], step.observation.proprio[:2]
        np.testing.assert_allclose(step.action.executed, np.clip((goal - place) / 0.15, -1, 1), atol=1e-5)
        np.testing.assert_array_equal(step.action.human, step.action.executed)
    with pytest.raises(SpecError, match="expert is None, must be there to demonstrate"):
        run(GymnasiumCell(PointMass()), EpisodeKind.DEMO, None)


def test_expert_takes_over_when_patience_ends_but_never_in_an_evaluation() -> None:
    cell = GymnasiumCell(PointMass(), expert=straight, patience=5)
    outcome, kept = run(cell, EpisodeKind.ONLINE, Always(0.0, 0.0))
    assert outcome.end is EndReason.SUCCESS
    assert kept.sources[:5] == [Source.POLICY] * 5
    assert set(kept.sources[5:]) == {Source.HUMAN}
    assert outcome.human_steps == len(kept.sources) - 5
    _, kept = run(cell, EpisodeKind.EVAL, Always(0.0, 0.0), longest=10)
    assert set(kept.sources) == {Source.POLICY}


def test_expert_beyond_the_bounds_is_clipped_and_it_is_said() -> None:
    cell = GymnasiumCell(PointMass(), expert=lambda seen: np.array([7.0, 1.0]))
    _, kept = run(cell, EpisodeKind.DEMO, None, longest=2)
    assert kept.steps[0].action is not None
    assert kept.steps[0].action.clipped
    np.testing.assert_allclose(kept.steps[0].action.executed, [1.0, 0.0], atol=1e-6)


def test_no_action_is_beyond_the_bounds_by_a_rounding() -> None:
    class Strict(gymnasium.Env):  # type: ignore[type-arg]
        observation_space = spaces.Box(-1.0, 1.0, (2,))
        action_space = spaces.Box(np.array([-0.1, -0.47]), np.array([0.3, 0.9]), dtype=np.float64)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
            return np.zeros(2, np.float32), {}

        def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            assert self.action_space.contains(action), action
            return np.zeros(2, np.float32), 0.0, False, False, {"success": True}

    cell = GymnasiumCell(Strict())
    cell.reset(0)
    cell.start("0", EpisodeKind.ONLINE)
    cell.send(np.ones(2, np.float32))
    cell.sleep_until_ns(cell.now_ns() + 10**8)
    cell.observe()
    assert cell.truth()


def test_policy_that_sends_nothing_stands_still() -> None:
    environment = PointMass()
    _, kept = run(GymnasiumCell(environment), EpisodeKind.ONLINE, Always(np.nan, 0.0), longest=3)
    assert set(kept.sources) == {Source.HOLD}
    np.testing.assert_array_equal(environment.taken, np.ones((3, 2)))


def test_same_seed_same_start_and_no_scene_that_stays() -> None:
    cell = GymnasiumCell(PointMass())
    with pytest.raises(RobotError, match="has not been reset"):
        cell.observe()
    cell.reset(7)
    assert cell.mode() is Mode.READY
    one = cell.observe().proprio
    cell.reset(8)
    other = cell.observe().proprio
    cell.reset(7)
    np.testing.assert_array_equal(one, cell.observe().proprio)
    assert np.abs(one - other).max() > 0.01
    with pytest.raises(SpecError, match="scene is False, must be True"):
        cell.reset(7, scene=False)


def test_number_that_is_not_finite_is_a_fault() -> None:
    environment = Ending(terminated=True, success=True)
    environment.reset = lambda **_: (np.array([0.0, np.nan, 0.0]), {})  # type: ignore[method-assign]
    outcome, _ = run(GymnasiumCell(environment), EpisodeKind.ONLINE, Always(0.0, 0.0))
    assert outcome.end is EndReason.FAULT
    assert "must be finite" in outcome.ticks.hold_reasons[0]


@pytest.mark.parametrize("action", [np.full(2, np.nan), np.zeros(3)])
def test_expert_who_is_wrong_is_refused_before_the_environment_moves(action: np.ndarray) -> None:
    environment = PointMass()
    with pytest.raises(SpecError, match="must be 2 finite numbers; correct the expert"):
        run(GymnasiumCell(environment, expert=lambda seen: action), EpisodeKind.DEMO, None)
    assert not environment.taken


def test_time_limit_of_a_registered_environment_is_a_timeout() -> None:
    cell = GymnasiumCell(gymnasium.make("tests/PointMass-v0"))
    outcome, _ = run(cell, EpisodeKind.ONLINE, Always(0.0, 0.0))
    assert (outcome.end, outcome.steps) == (EndReason.TIMEOUT, LONGEST)


def test_several_arms_are_recorded_with_a_source_each() -> None:
    environment = Ending(terminated=True, success=True)
    environment.action_space = spaces.Box(-1.0, 1.0, (8,), np.float32)
    _, kept = run(GymnasiumCell(environment), EpisodeKind.ONLINE, Always(*np.linspace(-1, 1, 8)))
    assert kept.steps[0].action is not None
    assert kept.steps[0].action.sources == (Source.POLICY, Source.POLICY)
    np.testing.assert_allclose(kept.steps[0].action.executed, np.linspace(-1, 1, 8), rtol=1e-6)


@pytest.mark.long
def test_cell_outward_and_inward_again_is_the_cell() -> None:
    environment = CellEnvironment("peg_insert")
    cell = GymnasiumCell(environment)
    assert {camera.shape for camera in cell.spec.cameras} == {(64, 64, 3)}
    assert (cell.spec.action_size, cell.spec.proprio_size) == (4, 18)
    outcome, kept = run(cell, EpisodeKind.EVAL, Always(0.0, 0.0, -0.1, 0.0))
    assert (outcome.end, outcome.steps) == (EndReason.TIMEOUT, 80)
    assert kept.steps[5].observation.images["front"].std() > 10
    environment.close()
