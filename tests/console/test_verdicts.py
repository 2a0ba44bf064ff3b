"""What counts for an episode, and ten seconds to take it back."""

from __future__ import annotations

import pytest

from robot_stack.console.messages import PageError
from robot_stack.console.verdicts import UNDO_NS, Verdicts, operator_label
from robot_stack.replay.outcome import verdict
from robot_stack.types.event import Label, LabelSource, Verdict

S = 1_000_000_000
GOOD, BAD, AWAY = Verdict.SUCCESS, Verdict.FAILURE, Verdict.DISCARD


def model(verdict: Verdict, stamp: float = 1.0) -> Label:
    return Label(episode_id="e", verdict=verdict, source=LabelSource.MODEL, stamp_unix_s=stamp)


def counts(verdicts: Verdicts) -> tuple[Verdict, LabelSource] | None:
    label = verdicts.counts("e")
    return None if label is None else (label.verdict, label.source)


def undo(verdicts: Verdicts, now_ns: int, now_unix_s: float) -> tuple[Label, Label | None]:
    newest, answer = verdicts.to_take_back(now_ns, now_unix_s)
    verdicts.taken_back(newest, answer)
    return newest.label, answer


def test_a_person_goes_before_the_model_and_later_before_earlier():
    verdicts = Verdicts()
    verdicts.claim(model(GOOD, 5.0))
    verdicts.ended(operator_label("e", BAD, 4.0), 0)
    verdicts.claim(model(GOOD, 6.0))
    assert counts(verdicts) == (BAD, LabelSource.OPERATOR)
    verdicts.load([operator_label("e", GOOD, 3.0)])
    assert counts(verdicts) == (BAD, LabelSource.OPERATOR)
    verdicts.load([operator_label("e", GOOD, 7.0)])
    assert counts(verdicts) == (GOOD, LabelSource.OPERATOR)


def test_the_truth_of_a_simulator_counts_for_nothing():
    verdicts = Verdicts()
    verdicts.load([Label(episode_id="e", verdict=GOOD, source=LabelSource.TRUTH, stamp_unix_s=1.0)])
    assert verdicts.counts("e") is None


def test_a_word_from_the_list_is_kept_back_and_taken_back_without_a_trace():
    verdicts = Verdicts()
    label = operator_label("e", GOOD, 1.0)
    verdicts.say(label, 0)
    assert verdicts.kept_back(UNDO_NS - 1) == label
    assert counts(verdicts) == (GOOD, LabelSource.OPERATOR)
    assert undo(verdicts, 5 * S, 6.0) == (label, None)
    assert verdicts.counts("e") is None
    assert verdicts.kept_back(5 * S) is None


def test_after_ten_seconds_it_is_sent_and_can_no_longer_be_taken_back():
    verdicts = Verdicts()
    verdicts.say(operator_label("e", GOOD, 1.0), 0)
    assert verdicts.kept_back(UNDO_NS) is None
    with pytest.raises(PageError, match="nothing was said within 10 s"):
        undo(verdicts, UNDO_NS, 11.0)
    assert counts(verdicts) == (GOOD, LabelSource.OPERATOR)


def test_an_undone_key_sets_the_episode_aside_where_nothing_was_said_before():
    verdicts = Verdicts()
    verdicts.ended(operator_label("e", GOOD, 1.0), 0)
    _, answer = undo(verdicts, 2 * S, 3.0)
    assert answer == operator_label("e", AWAY, 3.0)
    assert counts(verdicts) == (AWAY, LabelSource.OPERATOR)


def test_an_undone_refusal_lets_the_models_word_count_again():
    verdicts = Verdicts()
    verdicts.claim(model(GOOD))
    verdicts.ended(operator_label("e", BAD, 2.0), 0)
    _, answer = undo(verdicts, 2 * S, 4.0)
    assert answer == operator_label("e", GOOD, 4.0)


def test_only_the_newest_word_can_be_taken_back_and_only_once():
    verdicts = Verdicts()
    verdicts.say(operator_label("e", GOOD, 1.0), 0)
    verdicts.say(operator_label("f", BAD, 2.0), S)
    assert verdicts.kept_back(S) == operator_label("f", BAD, 2.0), "the first one goes out"
    said, _ = undo(verdicts, 2 * S, 3.0)
    assert said.episode_id == "f"
    with pytest.raises(PageError):
        undo(verdicts, 2 * S, 3.0)
    assert counts(verdicts) == (GOOD, LabelSource.OPERATOR)


def test_two_words_on_one_episode_are_undone_to_the_one_before():
    verdicts = Verdicts()
    verdicts.say(operator_label("e", GOOD, 1.0), 0)
    verdicts.say(operator_label("e", BAD, 2.0), S)
    undo(verdicts, 2 * S, 3.0)
    assert counts(verdicts) == (GOOD, LabelSource.OPERATOR)


def test_a_correction_counts_although_the_clock_was_set_back_in_between():
    verdicts = Verdicts()
    first = verdicts.label("e", GOOD, 3600.0)
    verdicts.say(first, 0)
    second = verdicts.label("e", BAD, 5.0)
    verdicts.say(second, 60 * S)
    assert verdicts.counts("e") == second
    assert verdict([second, first]) is BAD
    third = verdicts.label("e", GOOD, 6.0)
    verdicts.ended(third, 61 * S)
    said, answer = undo(verdicts, 62 * S, 7.0)
    assert said == third
    assert answer is not None
    assert verdict([third, answer, first, second]) is BAD
