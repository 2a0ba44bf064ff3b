"""One request an incident: opened, answered, dismissed, withdrawn; and what each end teaches."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import pytest

from robot_stack.config.asking import AskingConfig
from robot_stack.rollout.asking.asker import Asker
from robot_stack.rollout.asking.moment import Moment
from robot_stack.types.command import Source
from robot_stack.types.help import HelpEnd, HelpKind, Insight, Meanwhile
from robot_stack.types.reward import LiveScore
from robot_stack.types.transition import EndReason

PERIOD_S = 0.1
NS = 1_000_000_000
CONFIG = AskingConfig(stall_s=1.0, sustain_s=0.2, calm_s=0.5, pause_s=1.0)


class Episode:
    """An episode that an asker lives through, a tick at a time."""

    def __init__(self, asker: Asker) -> None:
        self.asker = asker
        self.tick = 0
        asker.begin(0)

    @property
    def now_ns(self) -> int:
        return round(self.tick * PERIOD_S * NS)

    def go(
        self,
        ticks: int,
        progress: float | None = 0.5,
        *,
        source: Source = Source.POLICY,
        events: Sequence[str] = (),
        distance: float = math.nan,
    ) -> Episode:
        """Let time pass; `progress` stays what it is, so that the policy stalls."""
        for _ in range(ticks):
            self.tick += 1
            self.asker.driven(source, self.now_ns)
            self.asker.hear(events, self.now_ns)
            if source is Source.POLICY:
                self.asker.look(self._moment(progress, distance))
        return self

    def rise(self, ticks: int, start: float = 0.0) -> Episode:
        for i in range(ticks):
            self.go(1, start + 0.03 * i)
        return self

    def end(self, end: EndReason) -> Episode:
        self.asker.end(end, self.now_ns)
        return self

    def _moment(self, progress: float | None, distance: float) -> Moment:
        score = None
        if progress is not None:
            score = LiveScore(
                episode_id="a", index=self.tick, progress=progress, success=0.0, declared=False, version="v"
            )
        return Moment(now_ns=self.now_ns, index=self.tick, score=score, insight=Insight(distance=distance))


def episode(config: AskingConfig = CONFIG) -> Episode:
    return Episode(Asker(config, PERIOD_S))


def counts(asker: Asker) -> tuple[int, int]:
    """Moments with and without a need that are remembered."""
    state = asker.state_dict()
    return len(state["needed"]), len(state["not_needed"])


def test_a_stall_is_asked_about_once_it_has_lasted() -> None:
    run = episode().go(11)
    assert run.asker.request is None, "stalled for 1.0 s, and not for 0.2 s more"
    run.go(2)
    assert run.asker.request is not None
    assert run.asker.request.reason.kind is HelpKind.STALL
    assert "1.2 s" in run.asker.request.reason.text


def test_one_incident_is_one_request() -> None:
    run = episode().go(60)
    assert run.asker.request is not None
    assert len(run.asker.account.requests) == 1


def test_a_policy_that_makes_progress_asks_for_nothing() -> None:
    run = episode().rise(30).end(EndReason.SUCCESS)
    assert run.asker.account.requests == []
    assert counts(run.asker) == (0, 1)


def test_a_situation_that_mends_itself_withdraws_the_request() -> None:
    run = episode().go(20)
    assert run.asker.request is not None
    run.rise(5, 0.6)
    assert run.asker.request is not None, "calm for 0.4 s only"
    run.rise(2, 0.8)
    assert run.asker.request is None
    run.end(EndReason.SUCCESS)
    (request,) = run.asker.account.requests
    assert (request.end, request.needed) == (HelpEnd.WITHDRAWN, False)


def test_a_flicker_neither_opens_nor_withdraws() -> None:
    run = episode().go(12).go(1, 0.9).go(9, 0.9)
    assert run.asker.request is None, "it rose before the stall had lasted"
    run.go(4, 0.9)
    assert run.asker.request is not None
    run.go(3, None)
    assert run.asker.request is not None, "three ticks without a score are no calm"


def test_a_take_over_answers_it_and_was_needed() -> None:
    run = episode().go(20).go(5, source=Source.HUMAN)
    (request,) = run.asker.account.requests
    assert (run.asker.request, request.end, request.needed) == (None, HelpEnd.TAKEN, True)
    assert request.asked_s == pytest.approx(1.3)
    assert request.open_s == pytest.approx(0.8)
    assert (run.asker.account.missed, counts(run.asker)) == (0, (1, 0))
    assert run.asker.account.asked_s == pytest.approx(0.7)
    assert run.asker.account.in_hand_s == pytest.approx(0.5)


def test_a_take_over_that_nobody_asked_for_was_missed() -> None:
    run = episode().rise(10).go(5, source=Source.HUMAN).rise(10).end(EndReason.SUCCESS)
    assert (run.asker.account.missed, counts(run.asker)) == (1, (1, 0))


def test_after_help_it_leaves_the_operator_alone_for_a_while_and_then_has_patience_anew() -> None:
    run = episode().go(20).go(5, source=Source.HUMAN).go(12)
    assert run.asker.request is None
    run.go(3)
    assert len(run.asker.account.requests) == 2


def test_the_pause_after_an_answer_is_as_long_as_asked_for() -> None:
    run = episode(CONFIG.model_copy(update={"pause_s": 3.0})).go(20).go(1, events=("dismiss",)).go(29)
    assert len(run.asker.account.requests) == 1, "stalled for long, and silent for 3 s"
    run.go(5)
    assert len(run.asker.account.requests) == 2


def test_a_need_after_a_request_was_withdrawn_was_missed() -> None:
    run = episode().go(20).rise(10, 0.6).go(3, source=Source.HUMAN)
    assert [request.end for request in run.asker.account.requests] == [HelpEnd.WITHDRAWN]
    assert (run.asker.account.missed, counts(run.asker)) == (1, (1, 0))


def test_dismissed_is_not_needed_and_not_asked_again_at_once() -> None:
    run = episode().go(20).go(1, events=("dismiss",))
    (request,) = run.asker.account.requests
    assert (run.asker.request, request.end, request.needed) == (None, HelpEnd.DISMISSED, False)
    assert counts(run.asker) == (0, 1)
    run.go(9)
    assert run.asker.request is None


def test_dismissing_nothing_does_nothing() -> None:
    run = episode().go(3, events=("dismiss",))
    assert (run.asker.account.requests, counts(run.asker)) == ([], (0, 0))


def test_who_takes_the_arm_and_gives_it_back_unmoved_has_only_looked() -> None:
    run = episode().go(20).go(3, source=Source.IDLE)
    assert run.asker.request is not None
    run.go(1)
    assert run.asker.account.requests[0].end is HelpEnd.DISMISSED
    assert counts(run.asker) == (0, 1)


@pytest.mark.parametrize(
    ("end", "needed"), [(EndReason.FAILURE, True), (EndReason.TIMEOUT, True), (EndReason.SUCCESS, False)]
)
def test_a_request_that_nobody_answered_is_judged_by_how_it_ended(end: EndReason, needed: bool) -> None:
    run = episode().go(20).end(end)
    (request,) = run.asker.account.requests
    assert (request.end, request.needed) == (HelpEnd.OVER, needed)
    assert run.asker.account.missed == 0
    assert counts(run.asker) == (int(needed), int(not needed))


def test_a_failure_without_a_request_was_missed() -> None:
    run = episode().rise(20).end(EndReason.FAILURE)
    assert (run.asker.account.missed, counts(run.asker)) == (1, (1, 0))


@pytest.mark.parametrize("end", [EndReason.OPERATOR, EndReason.FAULT])
def test_an_episode_that_was_cut_short_teaches_nothing(end: EndReason) -> None:
    run = episode().go(20).end(end)
    assert counts(run.asker) == (0, 0)
    assert run.asker.account.requests[0].needed is None


def test_an_episode_that_was_helped_to_its_end_is_no_evidence_of_doing_well_alone() -> None:
    run = episode().go(20).go(5, source=Source.HUMAN).rise(5, 0.8).end(EndReason.SUCCESS)
    assert counts(run.asker) == (1, 0)


def test_the_needs_signs_are_those_at_the_request_not_of_the_wait_for_an_answer() -> None:
    run = episode().go(20, distance=1.0).go(20, distance=50.0).go(1, source=Source.HUMAN)
    stall, distance, samples = run.asker.state_dict()["needed"][0]
    assert stall == pytest.approx(1.2)
    assert (distance, samples) == (1.0, None)


def test_the_signs_of_a_missed_need_are_those_of_the_seconds_before() -> None:
    run = episode(AskingConfig(stall_s=100.0)).go(50, distance=9.0).go(30, distance=2.0).go(1, source=Source.HUMAN)
    assert run.asker.state_dict()["needed"][0][1] == 2.0


ALONE = CONFIG.model_copy(update={"base_after_s": 2.0})


def leads(asker: Asker) -> Meanwhile | None:
    return None if asker.request is None else asker.request.meanwhile


def test_a_request_that_nobody_answers_hands_the_arm_to_the_base() -> None:
    waiting = episode(ALONE).go(14)
    assert leads(waiting.asker) is Meanwhile.POLICY
    waiting.go(17)
    assert leads(waiting.asker) is Meanwhile.POLICY
    assert not waiting.asker.led_by_base
    waiting.go(5)
    assert waiting.asker.led_by_base
    assert 0.0 < waiting.asker.account.requests[0].base_s <= 0.5


@pytest.mark.parametrize("hold_s", [0.5, 2.0])
def test_the_base_comes_after_the_arm_was_kept_still_too(hold_s: float) -> None:
    held = episode(ALONE.model_copy(update={"hold": True, "hold_s": hold_s})).go(14)
    assert held.asker.holding
    held.go(22)
    assert held.asker.led_by_base
    assert not held.asker.holding


def test_the_base_gives_the_arm_back_once_things_go_on_or_somebody_answers() -> None:
    for answer in ("progress", "dismiss", "hand"):
        led = episode(ALONE).go(40)
        assert led.asker.led_by_base
        if answer == "progress":
            led.rise(12, 0.6)
        elif answer == "dismiss":
            led.go(1, events=["dismiss"])
        else:
            led.go(1, source=Source.HUMAN)
        assert not led.asker.led_by_base
    ends = [HelpEnd.WITHDRAWN, HelpEnd.DISMISSED, HelpEnd.TAKEN]
    assert led.asker.account.requests[0].end is ends[2]


def test_an_episode_that_the_base_saved_says_nothing_of_whether_help_was_needed() -> None:
    saved = episode(ALONE).go(40).end(EndReason.SUCCESS)
    assert counts(saved.asker) == (0, 0)
    assert saved.asker.account.requests[0].needed is None
    lost = episode(ALONE).go(40).end(EndReason.TIMEOUT)
    assert counts(lost.asker) == (1, 0)
    assert lost.asker.account.requests[0].needed


def test_what_the_safety_filter_holds_is_no_time_without_an_answer_and_no_time_that_the_base_led() -> None:
    held = episode(ALONE).go(14)
    held.go(50, source=Source.HOLD)
    held.go(5)
    assert held.asker.request is not None
    assert not held.asker.led_by_base
    held.go(20)
    assert held.asker.led_by_base
    led_s = held.asker.account.requests[0].base_s
    held.go(30, source=Source.HOLD)
    assert held.asker.account.requests[0].base_s == led_s


def test_a_base_that_is_sent_away_teaches_nothing() -> None:
    led = episode(ALONE).go(40).go(1, events=["dismiss"])
    assert led.asker.account.requests[0].end is HelpEnd.DISMISSED
    assert led.asker.account.requests[0].needed is None
    assert counts(led.asker) == (0, 0)


def test_the_base_waits_anew_for_each_request() -> None:
    again = episode(ALONE).go(40).rise(12, 0.6)
    assert again.asker.request is None
    again.go(25, 0.96)
    assert len(again.asker.account.requests) == 2
    assert not again.asker.led_by_base


def test_holding_lasts_until_an_answer_or_its_bound() -> None:
    config = CONFIG.model_copy(update={"hold": True, "hold_s": 2.0})
    dismissed = episode(config).go(13)
    assert dismissed.asker.holding
    dismissed.go(1, events=("dismiss",))
    assert not dismissed.asker.holding
    taken = episode(config).go(13).go(1, source=Source.HUMAN)
    assert not taken.asker.holding
    alone = episode(config).go(13).go(19)
    assert alone.asker.holding
    alone.go(2)
    assert not alone.asker.holding
    assert alone.asker.request is not None, "still asked, though it goes on"
    assert len(alone.asker.account.requests) == 1


def test_an_arm_that_is_kept_still_is_no_evidence() -> None:
    config = CONFIG.model_copy(update={"hold": True})
    run = episode(config).go(13).go(30).go(1, source=Source.HUMAN)
    assert run.asker.state_dict()["needed"][0][0] == pytest.approx(1.2)


def test_nan_everywhere_asks_for_nothing_and_teaches_nothing() -> None:
    run = episode().go(100, math.nan).end(EndReason.TIMEOUT)
    assert (run.asker.request, counts(run.asker)) == (None, (0, 0))
    assert run.asker.account.missed == 1


def test_it_resumes_exactly() -> None:
    asker = Asker(CONFIG, PERIOD_S)
    for i in range(12):
        Episode(asker).go(13, distance=5.0 + i).go(2, source=Source.HUMAN).end(EndReason.SUCCESS)
        Episode(asker).rise(20, 0.01 * i).end(EndReason.SUCCESS)
    resumed = Asker(CONFIG, PERIOD_S)
    resumed.load_state_dict(json.loads(json.dumps(asker.state_dict())))
    assert resumed.figures() == asker.figures()
    assert asker.figures()["threshold"] is not None
    for each in (asker, resumed):
        Episode(each).rise(10).go(40, 0.3, distance=9.0).end(EndReason.FAILURE)
    assert resumed.state_dict() == asker.state_dict()
    assert resumed.account.requests == asker.account.requests
