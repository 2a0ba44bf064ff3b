"""Curves of learning over robot time, as the page is sent and as it draws them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from robot_stack.runs.learning import MOST_POINTS, Learning
from robot_stack.runs.rows import EndRow, MetricsRow
from robot_stack.types.transition import EpisodeKind
from tests.console.page_rig import FakeCell, trained


def told(*rows: MetricsRow) -> dict:
    learning = Learning(rate_hz=10.0)
    for row in rows:
        learning.row(row)
    return learning.to_json()


def test_points_are_over_the_newest_twenty_episodes_and_minutes_of_robot_time() -> None:
    curves = told(*trained(40))
    episodes, updates = curves["episodes"], curves["updates"]
    assert episodes["count"] == 40
    assert episodes["t"] == list(range(1, 41))
    assert (episodes["success"][0], episodes["alone"][0], episodes["human"][0]) == (1.0, 0.0, 0.5)
    assert (episodes["success"][2], episodes["alone"][2]) == (0.6667, 0.3333), "fewer at the start"
    assert (episodes["success"][-1], episodes["alone"][-1], episodes["human"][-1]) == (0.5, 0.25, 0.125)
    assert (updates["t"][-1], updates["q"][-1], updates["q_share"][-1]) == (40.0, 0.39, 0.25)


def test_other_rows_and_other_episodes_change_nothing() -> None:
    learning = Learning(rate_hz=10.0)
    update, episode = trained(1)
    for row in (
        replace(episode, episode_kind=EpisodeKind.DEMO),
        replace(episode, episode_kind=EpisodeKind.EVAL),
        replace(update, metrics={"actor_loss": 1.0}),
        EndRow(updates=1, env_steps=1, replay_bytes_per_transition=1.0, replay_transitions=1),
    ):
        learning.row(row)
    assert (learning.version, learning.to_json()["episodes"]["t"]) == (0, [])


def test_the_way_back_takes_robot_time_and_is_no_point() -> None:
    _, episode = trained(1)
    back = replace(episode, task="peg", task_id="peg_back")
    assert told(back, episode)["episodes"]["t"] == [2.0]


def test_a_discarded_episode_takes_robot_time_and_is_no_point() -> None:
    _, episode = trained(1)
    assert told(replace(episode, discarded=True), episode)["episodes"]["t"] == [2.0]


def test_a_log_that_is_read_from_its_middle_has_the_robot_time_of_the_learner() -> None:
    assert told(*trained(3, first=50))["episodes"]["t"] == [51.0, 52.0, 53.0]


def test_a_long_run_is_thinned_and_its_last_point_is_kept() -> None:
    curves = told(*trained(1001))
    assert len(curves["episodes"]["t"]) <= MOST_POINTS + 1
    assert (curves["episodes"]["t"][-1], curves["updates"]["t"][-1]) == (1001.0, 1001.0)


def test_what_the_learner_has_not_said_is_null() -> None:
    update, _ = trained(1)
    curves = told(replace(update, metrics={"q": None, "q_gradient": 1.0, "imitation_gradient": 1.0}))
    assert curves["updates"] == {"t": [1.0], "q": [None], "q_share": [0.5]}


def test_the_desk_sends_the_curves_when_they_change(cell: FakeCell) -> None:
    before = cell.desk.heard.learning.version
    with cell.desk.locked():
        cell.desk.heard.rows(trained(2))
    assert cell.desk.heard.learning.version > before
    assert cell.desk.part("learning")["episodes"]["success"] == pytest.approx([1.0, 0.5])
