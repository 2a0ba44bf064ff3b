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

pytestmark = pytest.mark.long

MOST = 0.97


def add(replay: Replay, name: str, kind: EpisodeKind, source: Source, phi: np.ndarray) -> None:
    replay.begin(header_of(name, kind))
    for step in steps_of(small_spec(), name, [source] * (len(phi) - 1), EndReason.SUCCESS):
        replay.add_step(step)
    progress = phi.astype(np.float32)
    replay.add_scores(EpisodeScores(episode_id=name, version="v", progress=progress, success=progress))


def test_it_follows_scores_in_the_order_of_episodes_however_they_come() -> None:
    replays = []
    for order in ((1, 2, 3), (3, 1, 2)):
        replay = Replay(small_spec())
        replay.activate_scores("v")
        discount = Discount(replay, MOST, scheduled=True)
        assert (discount.gamma, discount.mastered) == (MOST, None)  # there is no demonstration with Φ
        add(replay, "000000-demo", EpisodeKind.DEMO, Source.HUMAN, np.linspace(0, 1, 41))
        assert discount.gamma == pytest.approx(ALPHA ** (1 / 2))
        for number in order:
            phi = np.linspace(0, 1, 41) if number != 2 else np.zeros(41)
            add(replay, f"{number:06d}-online", EpisodeKind.ONLINE, Source.POLICY, phi)
            assert discount.mastered is not None
        replays.append((replay, discount))
    assert [discount.mastered for _, discount in replays] == [6, 6]
    fixed = Discount(replays[0][0], MOST, scheduled=False)
    assert (fixed.gamma, fixed.mastered) == (MOST, None)
    replays[0][0].activate_scores(None)
    assert replays[0][1].gamma == MOST  # no reward before the end any more: the policy looks at the end


def test_what_an_operator_did_in_an_online_episode_is_not_mastered() -> None:
    replay = Replay(small_spec())
    replay.activate_scores("v")
    add(replay, "000000-demo", EpisodeKind.DEMO, Source.HUMAN, np.linspace(0, 1, 41))
    add(replay, "000001-online", EpisodeKind.ONLINE, Source.HUMAN, np.linspace(0, 1, 41))
    assert Discount(replay, MOST, scheduled=True).mastered == 2


def test_a_run_draws_with_it_logs_it_and_resumes_with_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    resolved = write_run(
        folder,
        "algorithm.settings.utd=100.0",
        "run.reward.discount=scheduled",
        "training.max_episodes=50",
        "device=cpu",
    )

    def train_online(run: Driven) -> None:
        run.begin("000002-online-a")
        run.send("000002-online-a", end="success")

    whole = Driven(folder, resolved)
    drawn: list[float] = []
    whole.demonstrate()
    whole.start()
    replay, draw = whole.replay, whole.replay.draw

    def noted(*args, gamma: float, **rest):  # type: ignore[no-untyped-def]
        drawn.append(gamma)
        return draw(*args, gamma=gamma, **rest)

    replay.draw = noted  # type: ignore[method-assign]
    whole.run(200, {20: train_online})
    whole.loop.save(wait=True)
    mastered = Discount(replay, MOST, scheduled=True).mastered
    assert mastered is not None
    assert drawn
    assert set(drawn) <= {min(MOST, ALPHA ** (1 / k)) for k in range(1, 12)} | {MOST}
    assert min(drawn) < MOST
    rows = of_kind(read_rows(RunPaths(folder).metrics).rows, UpdateRow)
    assert rows[-1].metrics["mastered_ticks"] >= 1
    whole.copy(tmp_path / "copy")
    whole.close()
    resumed = Driven(tmp_path / "copy", resolved)
    resumed.start()
    assert Discount(resumed.replay, MOST, scheduled=True).mastered == mastered
    resumed.close()
