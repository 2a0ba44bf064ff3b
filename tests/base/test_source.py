"""A base beside the loop is never waited for in real time; whatever it does is a proposal or a refusal."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.rollout.base.http import HttpConnection
from robot_stack.rollout.base.mapping import BaseMapping, Question, Told
from robot_stack.rollout.base.source import NOT_YET, SavedSource, ServedSource
from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.pose import Pose, rotate_twist
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.spec import AXES, ArmSpec
from tests.base.small_base import CHUNK, OURS, actions, base_that, mapping, section, seen
from tests.examples import examples
from tests.learner.bench import SPEC
from tests.reward_models.bad_server import Server, hangs
from tests.rollout.fake_cell import FakePolicy

TICK_NS = 100_000_000
SOON_S = 20.0


class Base:
    """A base in this process: `answer` is called for each question, from whichever thread asks."""

    def __init__(self, answer: Callable[[Question], Any] = lambda question: CHUNK, told: Told | None = None) -> None:
        self.answer = answer
        self.told = told or Told(name="base")
        self.questions: list[Question] = []
        self.opened = 0
        self.closed = False

    def open(self) -> Told:
        self.opened += 1
        return self.told

    def ask(self, question: Question) -> np.ndarray:
        self.questions.append(question)
        return np.array(self.answer(question), np.float64)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def started() -> Iterator[Callable[..., ServedSource]]:
    """Starts sources, and ends them."""
    made: list[ServedSource] = []

    def start(base: Any, *, waits: bool = False, **change: Any) -> ServedSource:
        made.append(ServedSource(base, mapping(**change), waits=waits, seed=(0,)))
        made[-1].begin_episode()
        return made[-1]

    yield start
    for source in made:
        source.close()


def until(done: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + SOON_S
    while not done():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def proposed(source: ServedSource, stamp_ns: int) -> np.ndarray | Refusal:
    return source.propose(seen(stamp_ns=stamp_ns), interrupted=False)


def test_the_loop_is_not_kept_waiting(started: Callable[..., ServedSource]) -> None:
    go = threading.Event()
    source = started(Base(lambda question: go.wait(SOON_S) and CHUNK))
    assert proposed(source, 0) is NOT_YET  # at once, though the base thinks
    assert proposed(source, TICK_NS) is NOT_YET
    go.set()
    until(lambda: not isinstance(proposed(source, 2 * TICK_NS), Refusal))
    np.testing.assert_allclose(proposed(source, 2 * TICK_NS), OURS, rtol=1e-6)


def test_where_time_stands_still_the_answer_is_waited_for_and_asked_for_no_more_often(
    started: Callable[..., ServedSource],
) -> None:
    base = Base()
    source = started(base, waits=True, every_s=0.3)
    for tick in range(7):
        np.testing.assert_allclose(proposed(source, tick * TICK_NS), OURS, rtol=1e-6)
    assert len(base.questions) == 3  # at ticks 0, 3 and 6


@settings(max_examples=examples(30), deadline=None)
@given(late_ns=st.lists(st.integers(0, TICK_NS // 10), min_size=13, max_size=13))
def test_stamps_that_jitter_do_not_put_a_question_off(late_ns: list[int]) -> None:
    base = Base()
    source = ServedSource(base, mapping(every_s=0.3), waits=True, seed=(0,))
    for tick, late in enumerate(late_ns):
        proposed(source, tick * TICK_NS + late)
    assert len(base.questions) == 5  # at ticks 0, 3, 6, 9 and 12


def test_one_that_takes_longer_than_its_chunk_covers_is_told_so(started: Callable[..., ServedSource]) -> None:
    base = Base(lambda question: time.sleep(0.05) or CHUNK[:1])
    source = started(base, every_s=0.01)
    until(lambda: proposed(source, 0) is not NOT_YET and bool(base.questions))
    refusal = proposed(source, 50 * TICK_NS)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.BASE_SILENT
    assert "it covers 0.1 s and took 0." in str(refusal)
    assert "must cover more than it takes" in str(refusal)


def test_what_nobody_thought_of_does_not_end_the_asking_in_silence(
    started: Callable[..., ServedSource], capsys: pytest.CaptureFixture[str]
) -> None:
    source = started(Base(lambda question: 1 / 0))
    until(lambda: isinstance(found := proposed(source, 0), Refusal) and found.kind is RefusalKind.BASE_INVALID)
    assert "asking the base broke (ZeroDivisionError" in str(proposed(source, 0))
    until(lambda: "ZeroDivisionError" in capsys.readouterr().err)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    ("error", "kind"),
    [(RobotError("gone"), RefusalKind.BASE_SILENT), (SpecError("nonsense"), RefusalKind.BASE_INVALID)],
)
def test_one_that_dies_is_played_to_its_last_chunk_then_refused_and_taken_again_when_it_is_back(
    started: Callable[..., ServedSource], error: Exception, kind: RefusalKind, waits: bool
) -> None:
    state = {"error": None}

    def answer(question: Question) -> Any:
        if state["error"] is not None:
            raise state["error"]
        return CHUNK

    base = Base(answer)
    source = started(base, waits=waits, every_s=0.1)
    until(lambda: not isinstance(proposed(source, 0), Refusal))
    state["error"] = error
    asked = len(base.questions)
    until(lambda: proposed(source, TICK_NS) is not None and len(base.questions) > asked)
    np.testing.assert_allclose(proposed(source, 4 * TICK_NS), OURS, rtol=1e-6)
    until(lambda: isinstance(proposed(source, 5 * TICK_NS), Refusal))
    refusal = proposed(source, 5 * TICK_NS)
    assert isinstance(refusal, Refusal)
    assert (refusal.kind, str(refusal)) == (kind, str(error))
    state["error"] = None
    until(lambda: not isinstance(proposed(source, 6 * TICK_NS), Refusal))
    assert base.opened >= 1  # it is held against the section again


def test_another_base_at_the_same_place_is_refused_by_name(started: Callable[..., ServedSource]) -> None:
    def gone(question: Question) -> Any:
        raise RobotError("gone")

    base = Base(gone)
    source = started(base, waits=True)
    assert isinstance(proposed(source, 0), Refusal)
    base.answer, base.told = lambda question: CHUNK, Told(name="another", actions=7)
    refusal = proposed(source, TICK_NS)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.BASE_INVALID
    assert "must have 7" in str(refusal)


def test_an_answer_to_the_episode_before_is_not_for_this_one(started: Callable[..., ServedSource]) -> None:
    go, answers = threading.Event(), [[[1.0] * 4] * 50, CHUNK]

    def answer(question: Question) -> Any:
        go.wait(SOON_S)
        return answers.pop(0) if len(answers) > 1 else answers[0]

    base = Base(answer)
    source = started(base)
    proposed(source, 0)
    until(lambda: bool(base.questions))
    source.begin_episode()
    go.set()
    until(lambda: not isinstance(proposed(source, TICK_NS), Refusal))
    np.testing.assert_allclose(proposed(source, TICK_NS), OURS, rtol=1e-6)


def test_one_that_hangs_over_the_wire_does_not_keep_the_loop_waiting(started: Callable[..., ServedSource]) -> None:
    with Server(base_that(actions(CHUNK)), base_that(hangs)) as server:
        connection = HttpConnection(server.url, timeout_s=1.0)
        source = started(connection, every_s=0.1)
        until(lambda: not isinstance(proposed(source, 0), Refusal))
        took_s = []
        for tick in range(1, 40):
            before = time.thread_time()
            found = proposed(source, tick * TICK_NS)
            took_s.append(time.thread_time() - before)
            time.sleep(0.01)
        assert isinstance(found, Refusal)
        assert sum(took_s) < 0.5  # of this thread's own time: it did not work for the answer either
        until(lambda: "does not answer" in str(proposed(source, 40 * TICK_NS)))


@pytest.mark.parametrize("rate_hz", [5, 10, 12.5, 30, 50, 200])
def test_the_arm_goes_as_far_as_a_base_of_another_rate_means(
    started: Callable[..., ServedSource], rate_hz: float
) -> None:
    metres_a_step = 0.05 / rate_hz  # 5 cm/s
    base = Base(lambda question: [[metres_a_step, 0.0, 0.0, 0.0]] * 200)
    action = [{"name": "arm.x", "scale": 100.0}, "arm.y", None, "arm.rz"]  # a step of ours is 0.01 m
    source = started(base, waits=True, rate_hz=rate_hz, action=action)
    gone_m = sum(0.01 * float(proposed(source, tick * TICK_NS)[0]) for tick in range(20))  # type: ignore[index]
    assert gone_m == pytest.approx(0.1, rel=1e-3)


def test_a_motion_within_one_step_of_a_quicker_base_is_not_cut_off(started: Callable[..., ServedSource]) -> None:
    base = Base(lambda question: [[0.005, 0.0, 0.0, 0.0], *[[0.0] * 4] * 4])  # half a step of ours, in a fifth of it
    action = [{"name": "arm.x", "scale": 100.0}, "arm.y", None, "arm.rz"]
    source = started(base, waits=True, rate_hz=50, action=action)
    assert float(proposed(source, 0)[0]) == pytest.approx(0.5)  # type: ignore[index]


def test_who_was_far_too_quick_slows_down_within_the_join_as_anybody_does(started: Callable[..., ServedSource]) -> None:
    answers = iter([5.0, 0.0])
    base = Base(lambda question: [[0.01 * next(answers), 0.0, 0.0, 0.0]] * 20)
    action = [{"name": "arm.x", "scale": 100.0}, "arm.y", None, "arm.rz"]
    source = started(base, waits=True, rate_hz=10, join_s=0.3, every_s=0.5, action=action)
    gone = [float(proposed(source, tick * TICK_NS)[0]) for tick in range(9)]  # type: ignore[index]
    assert gone == pytest.approx([1.0] * 5 + [0.75, 0.5, 0.25, 0.0], abs=1e-6)


ALL_AXES = replace(SPEC, arms=(ArmSpec(name="arm", translation_m=0.01, rotation_rad=0.06),))
DOWN = Pose.from_rpy(np.zeros(3), np.array([np.pi, 0.0, np.pi / 2]))
"""A tool that looks down, and whose x points along the y of the robot's base."""


def all_axes(frame: str, answer: list[float]) -> ServedSource:
    words = {"action": [f"arm.{axis}" for axis in AXES], "frame": frame, "join_s": 0}
    base = BaseMapping(section(**words), ALL_AXES, "")
    return ServedSource(Base(lambda question: [answer] * 5), base, waits=True, seed=(0,))


def test_motion_along_the_axes_of_the_robots_base_is_turned_into_those_of_the_tool() -> None:
    answer = [0.1, 0.2, -0.3, 0.0, 0.0, 0.4]
    looking = replace(seen(), T_base_tcp={"arm": DOWN})
    moved = all_axes("base", answer).propose(looking, interrupted=False)
    assert isinstance(moved, np.ndarray)
    np.testing.assert_allclose(rotate_twist(moved, DOWN.matrix), answer, atol=1e-6)
    np.testing.assert_allclose(moved[2], 0.3, atol=1e-6)  # down is along the z of such a tool
    as_it_is = all_axes("tool", answer).propose(looking, interrupted=False)
    np.testing.assert_allclose(as_it_is, answer, atol=1e-6)
    again = replace(looking, T_base_tcp={"arm": Pose.identity()}, stamp_ns=TICK_NS)  # it turns while the chunk plays
    source = all_axes("base", answer)
    source.propose(looking, interrupted=False)
    np.testing.assert_allclose(source.propose(again, interrupted=False), answer, atol=1e-6)


def test_motion_that_is_too_long_once_it_is_turned_keeps_its_direction() -> None:
    slanted = Pose.from_rpy(np.zeros(3), np.array([0.0, 0.0, np.pi / 4]))
    moved = all_axes("base", [1.0, 1.0, 0.5, 0.0, 0.0, 0.0]).propose(
        replace(seen(), T_base_tcp={"arm": slanted}), interrupted=False
    )
    np.testing.assert_allclose(moved, [1.0, 0.0, 0.5 / np.sqrt(2), 0.0, 0.0, 0.0], atol=1e-6)
    moved = all_axes("base", [2.0, 0.5, 0.0, 0.0, 0.0, 0.0]).propose(
        replace(seen(), T_base_tcp={"arm": slanted}), interrupted=False
    )
    assert isinstance(moved, np.ndarray)
    along = rotate_twist(moved, slanted.matrix)
    np.testing.assert_allclose(along / along[0], [1.0, 0.25, 0.0, 0.0, 0.0, 0.0], atol=1e-6)


def test_a_cell_that_does_not_say_how_the_tool_is_turned_refuses_such_a_base() -> None:
    refusal = all_axes("base", [0.1] * 6).propose(seen(), interrupted=False)
    assert isinstance(refusal, Refusal)
    assert refusal.kind is RefusalKind.BASE_INVALID
    assert "base.frame is 'base' where nobody says how the tool of arm is turned, must be 'tool'" in str(refusal)


def test_the_connection_is_let_go_of(started: Callable[..., ServedSource]) -> None:
    base = Base()
    source = started(base)
    source.close()
    assert base.closed


def test_a_saved_policy_acts_without_noise_and_never_proposes_a_nan() -> None:
    policy = FakePolicy(0.5)
    source = SavedSource(policy)
    assert source.prepare(seen()) is None
    assert policy.deterministic == []  # looking at the start has not used up a tick of its plan
    np.testing.assert_allclose(source.propose(seen(), interrupted=False), [0.5, 0, 0])
    assert policy.deterministic == [True]
    broken = SavedSource(FakePolicy(float("nan"))).propose(seen(), interrupted=False)
    assert isinstance(broken, Refusal)
    assert broken.kind is RefusalKind.BASE_INVALID


def noise_of(found: np.ndarray | Refusal) -> tuple[np.ndarray, float, np.ndarray]:
    """Noise, ticks and action of what a base that is steered by two numbers says."""
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.float32
    return found[:2], float(found[2]), found[3:]


def moved_by(question: Question) -> Any:
    """A chunk whose first entry is the first number of the noise, in tenths."""
    assert question.noise is not None
    return [[float(question.noise[0]) / 10, 0.2, 9.0, -0.3]] * 8


CHOSEN = np.array([0.5, -1.0], np.float32)


def test_noise_that_nobody_chooses_is_drawn_for_each_question_and_recorded(
    started: Callable[..., ServedSource],
) -> None:
    base = Base(moved_by)
    source = started(base, waits=True, every_s=0.3, join_s=0, noise=2)
    said = [noise_of(proposed(source, tick * TICK_NS)) for tick in range(7)]
    assert [ticks for _, ticks, _ in said] == [0, 1, 2, -3, 1, 2, -3]
    drawn = [question.noise for question in base.questions]
    assert len(drawn) == 3
    assert len({tuple(noise) for noise in drawn if noise is not None}) == 3
    for tick, (noise, _, action) in enumerate(said):
        np.testing.assert_array_equal(noise, drawn[tick // 3])
        assert action[0] == pytest.approx(2 * noise[0] / 10, abs=1e-6)  # scale of arm.x: 2
    again = started(Base(moved_by), waits=True, every_s=0.3, join_s=0, noise=2)
    np.testing.assert_array_equal(noise_of(proposed(again, 0))[0], said[0][0])  # a run's seed decides


def test_the_first_noise_that_is_chosen_does_not_wait_later_ones_wait_for_their_turn(
    started: Callable[..., ServedSource],
) -> None:
    base = Base(moved_by)
    source = started(base, waits=True, every_s=0.3, join_s=0, noise=2)
    said = []
    for tick in range(6):
        said.append(noise_of(proposed(source, tick * TICK_NS)))
        source.steer(CHOSEN + tick)
    assert [ticks for _, ticks, _ in said] == [0, -1, 1, 2, -3, 1]
    for tick, wanted in ((1, 0), (2, 0), (3, 0), (4, 3), (5, 3)):
        np.testing.assert_array_equal(said[tick][0], CHOSEN + wanted)
    source.begin_episode()  # what was chosen in the last one is of the last one
    assert not np.array_equal(noise_of(proposed(source, 7 * TICK_NS))[0], CHOSEN + 5)


def test_in_real_time_the_thread_asks_with_what_was_chosen_last(started: Callable[..., ServedSource]) -> None:
    base = Base(moved_by)
    source = started(base, every_s=0.3, join_s=0, noise=2)
    until(lambda: not isinstance(proposed(source, TICK_NS), Refusal))
    source.steer(CHOSEN)
    until(lambda: np.array_equal(noise_of(proposed(source, 2 * TICK_NS))[0], CHOSEN))
    source.steer(2 * CHOSEN)
    assert np.array_equal(noise_of(proposed(source, 3 * TICK_NS))[0], CHOSEN)  # not before its turn
    until(lambda: np.array_equal(noise_of(proposed(source, 5 * TICK_NS))[0], 2 * CHOSEN))
    assert len(base.questions) == 3


@pytest.mark.parametrize("bad", [np.zeros(3, np.float32), np.zeros((1, 2), np.float32), np.full(2, np.nan)])
def test_noise_that_no_base_can_start_from_is_refused(started: Callable[..., ServedSource], bad: np.ndarray) -> None:
    with pytest.raises(SpecError, match=r"must be 2 finite numbers; see base\.noise"):
        started(Base(moved_by), waits=True, noise=2).steer(bad)
    with pytest.raises(SpecError, match="must be 0 finite numbers"):
        started(Base(), waits=True).steer(CHOSEN)
    with pytest.raises(SpecError, match="a saved base acts without noise"):
        SavedSource(FakePolicy()).steer(CHOSEN)
