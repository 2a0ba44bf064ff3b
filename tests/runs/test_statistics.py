"""The accounts of a run's episodes: on which of them a verdict may still come."""

from __future__ import annotations

from robot_stack.runs.statistics import EpisodeAccount, awaited, by_start
from robot_stack.types.transition import EpisodeHeader, EpisodeKind


def account(number: int, actor: str) -> EpisodeAccount:
    name = f"{number:06d}-online-{actor}"
    header = EpisodeHeader(
        episode_id=name, kind=EpisodeKind.ONLINE, task="t", actor=actor, started_unix_s=float(number)
    )
    return EpisodeAccount(header=header)


def test_what_other_cells_begin_says_nothing_of_a_verdict_that_is_to_come() -> None:
    begun = [account(0, actor) for actor in ("left", "mid", "right")]
    assert awaited(begun) == {"000000-online-left", "000000-online-mid", "000000-online-right"}
    begun += [account(number, "right") for number in (1, 2, 3)]
    assert awaited(begun) == {
        "000000-online-left", "000000-online-mid", "000002-online-right", "000003-online-right",
    }  # fmt: skip


def test_of_one_cell_the_newest_two_are_awaited() -> None:
    assert awaited([]) == set()
    assert awaited([account(number, "a") for number in range(4)]) == {"000002-online-a", "000003-online-a"}


def test_episodes_of_several_actors_are_in_the_order_of_their_start() -> None:
    started = {"000000-online-a": 10.0, "000001-online-a": 20.0, "000000-online-b": 30.0, "000002-online-a": 40.0}
    assert by_start(started) == ["000000-online-a", "000001-online-a", "000000-online-b", "000002-online-a"]


def test_a_clock_that_was_set_back_moves_no_episode_before_another_of_its_actor() -> None:
    started = {"000000-demo-a": 5000.0, "000001-online-a": 100.0, "000000-online-b": 4000.0, "000002-online-a": 5100.0}
    assert by_start(started) == ["000000-online-b", "000000-demo-a", "000001-online-a", "000002-online-a"]


def test_episodes_of_an_earlier_run_come_first_whatever_clock_it_had() -> None:
    started = {"000000-online-a": 5.0, "0-000001-demo-a": 9.0, "0-000000-demo-a": 8.0}
    assert by_start(started) == ["0-000000-demo-a", "0-000001-demo-a", "000000-online-a"]
