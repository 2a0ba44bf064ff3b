"""The accounts of a run's episodes: on which of them a verdict may still come."""

from __future__ import annotations

from robot_stack.runs.statistics import EpisodeAccount, awaited
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
