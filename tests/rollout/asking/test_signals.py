"""Signals of trouble: what each says of a tick, and that it says nothing where nothing is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robot_stack.rollout.asking.distance import Distance
from robot_stack.rollout.asking.moment import Moment, Signal
from robot_stack.rollout.asking.spread import CriticSpread, SampleSpread
from robot_stack.rollout.asking.stall import Stall
from robot_stack.types.help import Insight
from robot_stack.types.reward import LiveScore

PERIOD_S = 0.1
NS = 1_000_000_000


def score_of(index: int, progress: float) -> LiveScore:
    return LiveScore(episode_id="a", index=index, progress=progress, success=math.nan, declared=False, version="v")


def at(
    index: int, progress: float | None = None, *, scored: int | None = None, insight: Insight | None = None
) -> Moment:
    score = None if progress is None else score_of(index if scored is None else scored, progress)
    return Moment(now_ns=round(index * PERIOD_S * NS), index=index, insight=insight, score=score)


def stall() -> Stall:
    return Stall(rise=0.02, period_s=PERIOD_S)


def test_a_stall_lasts_from_the_newest_rise_of_progress() -> None:
    signal = stall()
    assert [signal.value(at(i, 0.1 * i)) for i in range(4)] == [0.0] * 4
    assert [round(signal.value(at(i, 0.3)), 6) for i in range(4, 8)] == [0.1, 0.2, 0.3, 0.4]


def test_a_rise_that_is_too_small_is_no_progress_and_a_slow_one_is() -> None:
    signal = stall()
    signal.value(at(0, 0.5))
    assert signal.value(at(1, 0.515)) == pytest.approx(0.1)
    assert signal.value(at(2, 0.53)) == 0.0, "0.03 above the best"


def test_falling_progress_stalls() -> None:
    signal = stall()
    values = [signal.value(at(i, 0.9 - 0.01 * i)) for i in range(30)]
    assert values[-1] == pytest.approx(2.9)


@pytest.mark.parametrize("progress", [None, math.nan, math.inf])
def test_without_a_number_for_progress_nothing_is_known(progress: float | None) -> None:
    signal = stall()
    assert all(math.isnan(signal.value(at(i, progress))) for i in range(50))


def test_a_reward_model_that_lags_is_no_policy_that_stalls() -> None:
    signal = stall()
    signal.value(at(0, 0.5))
    assert signal.value(at(10, 0.5, scored=0)) == pytest.approx(1.0), "a second late is still of now"
    assert math.isnan(signal.value(at(40, 0.5, scored=0)))
    assert signal.value(at(41, 0.5)) == pytest.approx(0.1), "the clock begins anew once there is word again"


def test_a_new_stretch_has_patience_anew() -> None:
    signal = stall()
    signal.value(at(0, 0.5))
    assert signal.value(at(30, 0.5)) == pytest.approx(3.0)
    signal.begin()
    assert signal.value(at(31, 0.5)) == 0.0


def test_spreads_are_standard_deviations() -> None:
    samples = np.array([[0.0, 1.0], [2.0, 1.0]], np.float32)
    insight = Insight(samples=samples, q=np.array([0.2, 0.6], np.float32))
    assert SampleSpread().value(at(0, insight=insight)) == pytest.approx(0.5), "1.0 and 0.0"
    assert CriticSpread().value(at(0, insight=insight)) == pytest.approx(0.2)


NOT_A_NUMBER = Insight(
    distance=math.inf, samples=np.array([[0.0], [np.nan]], np.float32), q=np.array([1.0, np.inf], np.float32)
)
ONE_OF_EACH = Insight(samples=np.zeros((1, 2), np.float32), q=np.zeros(1, np.float32))


@pytest.mark.parametrize("signal", [Distance(), SampleSpread(), CriticSpread()])
@pytest.mark.parametrize("insight", [None, Insight(), NOT_A_NUMBER, ONE_OF_EACH])
def test_what_is_missing_or_no_number_is_unknown(signal: Signal, insight: Insight | None) -> None:
    assert math.isnan(signal.value(at(0, insight=insight)))


def test_each_signal_says_its_value_in_words() -> None:
    for signal in (stall(), Distance(), SampleSpread(), CriticSpread()):
        assert "2.5" in signal.words(2.5)
