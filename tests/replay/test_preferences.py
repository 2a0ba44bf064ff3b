"""Preferences: which cannot be, which count, and what stays of them in another folder of episodes."""

from __future__ import annotations

import pytest

from robot_stack.types.errors import SpecError
from robot_stack.types.event import LabelSource
from robot_stack.types.preferences import Further, Kept, Moment, Preference, carried, check_preference, settled

FRAMES = {"a": 10, "b": 20}


def preference(
    first: tuple[str, int] = ("a", 3),
    second: tuple[str, int] = ("b", 7),
    further: Further = Further.SECOND,
    *,
    source: LabelSource = LabelSource.OPERATOR,
    by: str = "anna",
    stamp: float = 1.0,
) -> Preference:
    return Preference(
        first=Moment(episode_id=first[0], frame=first[1]), second=Moment(episode_id=second[0], frame=second[1]),
        further=further, source=source, by=by, stamp_unix_s=stamp,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (preference(second=("a", 3)), "compares a moment with itself, must compare two"),
        (preference(("a", -1), ("a", -1)), "compares a moment with itself"),
        (preference(("a", -1)), "compares a frame with an episode, must compare two of a kind"),
        (preference(("a", 10)), "is at frame 10, must be within 0 and 9; name a frame of the episode"),
        (preference(("a", -2), ("b", -1)), "is at frame -2, must be 0 or more, or -1"),
        (preference(("gone", 3)), "is of episode 'gone', must be of one of the 2 that have ended"),
        (preference(("../x", 3)), "episode id of a preference is '../x'"),
        (preference(source=LabelSource.TRUTH), "must be 'operator' or 'model': the truth never trains"),
        (preference(by=""), "has 0 characters, must have 1 to 128; name who said it"),
        (preference(by="x" * 129), "has 129 characters"),
        (preference(stamp=float("nan")), "is nan, must be finite"),
    ],
)
def test_a_preference_that_cannot_be_is_refused_in_words(wrong: Preference, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        check_preference(wrong, FRAMES)


def test_frames_and_whole_episodes_are_compared_with_their_own_kind() -> None:
    check_preference(preference(("a", 9), ("a", 0)), FRAMES)
    check_preference(preference(("a", -1), ("b", -1)), FRAMES)


def test_who_answers_again_replaces_his_answer_and_unknown_takes_it_back() -> None:
    turned = preference(("b", 7), ("a", 3), Further.SECOND)
    found = settled([preference(), turned], FRAMES)
    assert found.preferences == (preference(further=Further.FIRST),)  # turned round, a got further
    assert (found.by_operators, found.contradicting) == (1, 0)
    found = settled([preference(), preference(further=Further.UNKNOWN)], FRAMES)
    assert (found.preferences, found.unknown) == ((), 1)


def test_givers_who_contradict_each_other_are_counted_and_all_kept() -> None:
    agreed = [preference(("a", 4)), preference(("a", 4), by="x")]
    found = settled([preference(), preference(further=Further.FIRST, by="ben"), *agreed], FRAMES)
    assert (len(found.preferences), found.contradicting) == (4, 1)


def test_a_person_overrides_models_but_not_by_what_he_cannot_say() -> None:
    model = preference(source=LabelSource.MODEL, by="lrm", further=Further.FIRST)
    found = settled([preference(), model], FRAMES)
    assert (found.preferences, found.by_operators, found.overruled, found.contradicting) == ((preference(),), 1, 1, 0)
    found = settled([model, preference(further=Further.UNKNOWN)], FRAMES)
    assert (found.preferences, found.by_operators, found.unknown) == ((model,), 0, 1)


def test_what_is_of_no_episode_to_learn_from_or_of_itself_is_counted() -> None:
    wrong = [preference(("gone", 1)), preference(("a", 10)), preference(("a", 5), ("a", 5)), preference(("a", -1))]
    found = settled([*wrong, preference()], FRAMES)
    assert (found.preferences, found.unusable) == ((preference(),), 4)


def test_of_a_trimmed_episode_what_is_within_stays_and_nothing_of_its_lost_end() -> None:
    kept = {"a": Kept(name="c", first=2, last=5), "b": Kept(name="b", first=1)}
    assert carried([preference()], kept) == [preference(("c", 1), ("b", 6))]
    assert carried([preference(("a", 6)), preference(("a", 1)), preference(("a", 3), ("gone", 3))], kept) == []
    whole = preference(("a", -1), ("b", -1))
    assert carried([whole], kept) == []
    assert carried([whole], {**kept, "a": Kept(name="a", first=2)}) == [whole]


def test_a_preference_turned_round_says_the_same() -> None:
    for further in Further:
        one = preference(("b", 7), ("a", 3), further).ordered()
        assert one.ordered() == one
        assert one.first == Moment(episode_id="a", frame=3)
    assert preference(("b", 7), ("a", 3), Further.SAME).ordered().further is Further.SAME
