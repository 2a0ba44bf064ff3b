"""A run whose discount grows: what batches are drawn with, what is logged, and what a resumed learner goes on with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.tiny_run import write_run
from robot_stack.learner.reward.discount import Discount
from robot_stack.replay.discount import ALPHA
from robot_stack.replay.replay import Replay
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import UpdateRow, of_kind
from robot_stack.types.command import Source
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.learner.driven import Driven
from tests.replay.recorded import header_of, small_spec, steps_of

FINAL = 0.97
STEADY = np.linspace(0, 1, 41)


def add(
    replay: Replay,
    name: str,
    source: Source,
    phi: np.ndarray,
    end: EndReason = EndReason.TIMEOUT,
    *,
    first: Source | None = None,
) -> None:
    kind = EpisodeKind.DEMO if "demo" in name else EpisodeKind.EARLIER if "earlier" in name else EpisodeKind.ONLINE
    replay.begin(header_of(name, kind))
    sources = [source if first is None else first] + [source] * (len(phi) - 2)
    for step in steps_of(small_spec(), name, sources, end):
        replay.add_step(step)
    progress = phi.astype(np.float32)
    replay.add_scores(EpisodeScores(episode_id=name, version="v", progress=progress, success=progress))


def demonstrated() -> Replay:
    replay = Replay(small_spec())
    replay.activate_scores("v")
    add(replay, "000000-demo", Source.HUMAN, STEADY, EndReason.SUCCESS)
    return replay


def test_it_follows_the_order_of_episodes_however_their_scores_come() -> None:
    found = []
    for order in ((1, 2, 3), (3, 1, 2)):
        replay = demonstrated()
        discount = Discount(replay, FINAL, scheduled=True)
        assert discount.gamma == pytest.approx(ALPHA ** (1 / 2))
        for number in order:
            add(replay, f"{number:06d}-online", Source.POLICY, np.zeros(41) if number == 2 else STEADY)
        assert discount.gamma == pytest.approx(ALPHA ** (1 / 6))
        found.append(discount.mastered)
    assert found == [6, 6]


def test_it_is_the_algorithms_own_where_there_is_nothing_to_schedule_by() -> None:
    replay = demonstrated()
    fixed, scheduled = (Discount(replay, FINAL, scheduled=wanted) for wanted in (False, True))
    assert (fixed.gamma, fixed.mastered) == (FINAL, None)
    assert scheduled.gamma < FINAL
    replay.activate_scores(None)  # the reward model is not trusted any more: there is reward at the end alone
    assert (scheduled.gamma, scheduled.mastered) == (FINAL, None)


@pytest.mark.parametrize(
    ("name", "source", "end", "mastered"),
    [
        ("000001-online", Source.POLICY, EndReason.TIMEOUT, 4),
        ("000001-online", Source.HUMAN, EndReason.SUCCESS, 2),
        ("000001-earlier", Source.POLICY, EndReason.SUCCESS, 2),
        ("000001-demo", Source.HUMAN, EndReason.TIMEOUT, 2),
    ],
)
def test_only_what_this_runs_policy_did_itself_is_mastered(
    name: str, source: Source, end: EndReason, mastered: int
) -> None:
    replay = demonstrated()
    add(replay, name, source, STEADY, end)
    discount = Discount(replay, FINAL, scheduled=True)
    assert discount.gamma == pytest.approx(ALPHA ** (1 / mastered))


def test_the_arm_that_nobody_moves_when_an_episode_begins_is_nobodys_help() -> None:
    """On a running cell the first step is HOLD: the policy is let in once the episode has begun."""
    replay = demonstrated()
    add(replay, "000001-online", Source.POLICY, STEADY, first=Source.HOLD)
    add(replay, "000002-online", Source.POLICY, STEADY[::2], EndReason.SUCCESS, first=Source.HOLD)
    assert [each.alone for each in replay.potentials()] == [False, True, True]
    discount = Discount(replay, FINAL, scheduled=True)
    assert discount.gamma == pytest.approx(ALPHA ** (1 / 6))


@pytest.mark.long
def test_a_run_draws_with_it_logs_it_and_resumes_with_the_same(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "run"
    resolved = write_run(folder, "algorithm.settings.utd=100.0", "run.reward.discount=scheduled", "device=cpu")
    drawn: list[float] = []
    draw = Replay.draw

    def noted(replay: Replay, *args, gamma: float, **rest):  # type: ignore[no-untyped-def]
        drawn.append(gamma)
        return draw(replay, *args, gamma=gamma, **rest)

    monkeypatch.setattr(Replay, "draw", noted)

    def train_online(run: Driven) -> None:
        """An episode that the policy ends well by itself."""
        run.begin("000002-online-a")
        run.send("000002-online-a", end="success", alone=True)

    whole = Driven(folder, resolved)
    whole.demonstrate()
    whole.start()
    whole.run(60, {20: train_online})
    whole.loop.save(wait=True)
    whole.copy(tmp_path / "copy")
    saved = len(drawn)
    whole.run(200, {})
    assert drawn[0] < drawn[-1] < FINAL
    assert len(set(drawn)) == 2
    rows = of_kind(read_rows(RunPaths(folder).metrics).rows, UpdateRow)
    assert ALPHA ** (1 / rows[-1].metrics["mastered_ticks"]) == drawn[-1]
    after, rewards = drawn[saved:], whole.told.rewards
    whole.close()

    drawn.clear()
    resumed = Driven(tmp_path / "copy", resolved)
    resumed.start()
    resumed.run(200, {})
    assert drawn == after
    assert resumed.told.rewards == rewards[-len(after) :]
    resumed.close()
