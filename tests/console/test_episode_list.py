"""The newest episodes, and the curve of the one that runs."""

from __future__ import annotations

import math

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.console.curve import MOST_POINTS, Curve
from robot_stack.console.episodes import KEPT, SHOWN, EpisodeList
from robot_stack.console.heard import Heard
from robot_stack.console.messages import PageError
from robot_stack.console.verdicts import Verdicts, operator_label
from robot_stack.runs.rows import ControlRow
from robot_stack.types.command import Mode
from robot_stack.types.event import Verdict
from robot_stack.types.reward import LiveScore
from robot_stack.types.transition import EndReason, EpisodeKind

S = 1_000_000_000


def told(episode_id: str, end: EndReason, *, steps: int = 0, holds: int = 0) -> ControlRow:
    return ControlRow(episode_id=episode_id, episode_kind=EpisodeKind.ONLINE, end=end, steps=steps, holds=holds)


def shown(episodes: EpisodeList, verdicts: Verdicts | None = None) -> list:
    return episodes.to_json(verdicts or Verdicts(), lambda _: "", lambda _: False)


def test_an_episode_counts_who_drove_and_for_how_long():
    episodes = EpisodeList(10.0)
    episodes.begin("000041-online-a", "online", Mode.POLICY, 0, 100.0)
    episodes.drives(Mode.HUMAN, 2 * S)
    episodes.drives(Mode.HUMAN, 3 * S)
    episodes.drives(Mode.POLICY, 4 * S)
    episodes.drives(Mode.HUMAN, 6 * S)
    assert episodes.elapsed_s(7 * S) == 7.0
    episodes.end(8 * S)
    (row,) = shown(episodes)
    assert (row["number"], row["s"], row["human"], row["interventions"], row["open"]) == ("41", 8.0, 0.5, 2, False)
    assert episodes.running == ""


def test_a_demonstration_has_no_interventions():
    episodes = EpisodeList(10.0)
    episodes.begin("000000-demo-a", "demo", Mode.HUMAN, 0, 100.0)
    episodes.end(2 * S)
    (row,) = shown(episodes)
    assert (row["number"], row["interventions"], row["human"]) == ("0", 0, 1.0)


def test_what_the_actor_writes_goes_before_what_was_seen():
    episodes = EpisodeList(10.0)
    episodes.begin("000041-online-a", "online", Mode.POLICY, 0, 100.0)
    episodes.end(9 * S)
    episodes.told(told("000041-online-a", EndReason.TIMEOUT, steps=80, holds=2))
    (row,) = shown(episodes)
    assert (row["end"], row["s"], row["holds"], row["at"]) == ("timeout", 8.0, 2, 100.0)


def test_a_word_counts_and_without_one_the_end_does():
    episodes, verdicts = EpisodeList(10.0), Verdicts()
    for name, end in (
        ("000001-online-a", EndReason.SUCCESS),
        ("000002-online-a", EndReason.SUCCESS),
        ("000003-online-a", EndReason.TIMEOUT),
    ):
        episodes.told(told(name, end))
    verdicts.say(operator_label("000002-online-a", Verdict.FAILURE, 1.0), 0)
    assert [(row["number"], row["success"], row["by"]) for row in shown(episodes, verdicts)] == [
        ("3", False, ""), ("2", False, "operator"), ("1", True, ""),
    ]  # fmt: skip


def test_the_list_is_bounded_and_an_episode_that_left_it_is_gone_in_words():
    episodes = EpisodeList(10.0)
    for number in range(KEPT + 5):
        episodes.told(told(f"{number:06d}-online-a", EndReason.TIMEOUT))
    assert len(shown(episodes)) == SHOWN
    assert shown(episodes)[0]["number"] == str(KEPT + 4)
    with pytest.raises(PageError, match="it is gone, or of another run"):
        episodes.check("000001-online-a")


def test_an_episode_that_begins_closes_the_one_before():
    episodes = EpisodeList(10.0)
    episodes.begin("000001-online-a", "online", Mode.POLICY, 0, 100.0)
    episodes.begin("000001-online-a", "online", Mode.POLICY, S, 101.0)
    episodes.begin("000002-online-a", "online", Mode.POLICY, 3 * S, 103.0)
    assert [(row["number"], row["open"], row["s"]) for row in shown(episodes)] == [("2", True, 0.0), ("1", False, 3.0)]


def score(index: int, progress: float = 0.5, episode: str = "e") -> LiveScore:
    return LiveScore(
        episode_id=episode, index=index, progress=progress, success=float("nan"), declared=False, version="v"
    )


def test_the_curve_shows_its_episode_with_the_spans_of_a_person():
    curve = Curve(10.0)
    curve.begin("e", Mode.POLICY, 0, threshold=0.8)
    curve.score(score(3, 0.25))
    curve.score(score(1, 0.125))
    curve.score(score(4, episode="another"))
    curve.drives(Mode.HUMAN, S)
    curve.drives(Mode.POLICY, 2 * S)
    curve.drives(Mode.HUMAN, 3 * S)
    drawn = curve.to_json()
    assert (drawn["t"], drawn["progress"], drawn["success"]) == ([0.1, 0.3], [0.125, 0.25], [None, None])
    assert drawn["spans"] == [[1.0, 2.0], [3.0, None]]
    assert drawn["threshold"] == 0.8
    assert curve.newest is not None
    assert curve.newest.index == 3
    before = curve.version
    curve.begin("f", Mode.POLICY, 4 * S, threshold=0.9)
    assert (curve.to_json()["t"], curve.to_json()["threshold"]) == ([], 0.9)
    assert curve.newest is None
    assert curve.version > before


def test_each_way_of_a_task_shows_its_own_threshold():
    heard = Heard(load_run("peg_in_and_out", ["task.backward.success.threshold=0.6"]))
    assert heard.curve.to_json()["threshold"] is None
    for name, task_id, threshold in (("a", "peg_insert", 0.8), ("b", "peg_insert_back", 0.6), ("c", "peg_insert", 0.8)):
        heard.episode(name, "online", 0, 0.0, task_id=task_id)
        assert heard.curve.to_json()["threshold"] == threshold


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    curve = Curve(10.0)
    curve.begin("e", Mode.POLICY, 0, threshold=0.8)
    for index in range(3001):
        curve.score(score(index, math.sin(index) ** 2))
    drawn = curve.to_json()["t"]
    assert len(drawn) <= MOST_POINTS + 1
    assert (drawn[0], drawn[-1]) == (0.0, 300.0)


def test_the_stage_key_begins_the_next_stage_on_the_page_until_there_is_none() -> None:
    heard = Heard(load_run("drawer"))
    heard.events(("stage",), "browser", 0, 1.0)  # no episode runs
    assert heard.stage_words() == ""
    heard.episode("e", "demo", 0, 1.0)
    assert heard.stage_words() == "stage 1 of 3: open"
    for second in (2, 4, 6):
        heard.events(("stage",), "keyboard", second * S, 1.0)
    assert heard.stage_words() == "stage 3 of 3: close"
    assert heard.curve.to_json()["marks"] == [(2.0, "fill"), (4.0, "close")]
    assert "must be of one from 1 to 2: the task has open, fill, close; mark no more" in heard.log[-1]["text"]
    heard.episode("f", "demo", 9 * S, 1.0)
    assert heard.curve.to_json()["marks"] == []
    assert heard.stage_words() == "stage 1 of 3: open"


def test_a_task_without_named_stages_counts_them_once_one_is_marked() -> None:
    heard = Heard(load_run("peg_insert"))
    heard.episode("e", "demo", 0, 1.0)
    assert heard.stage_words() == ""
    heard.events(("stage",), "keyboard", S, 1.0)
    assert heard.stage_words() == "stage 2"
