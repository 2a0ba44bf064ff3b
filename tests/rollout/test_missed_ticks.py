"""Frames between which a control tick was missed are recorded as they were, and are no transition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.rollout.control_loop import ControlLoop, LoopLimits
from robot_stack.types.observation import Observation
from robot_stack.types.transition import EndReason, Step
from tests.learner.bench import SPEC, TASK, header_of
from tests.rollout.fake_cell import PERIOD_NS, FakeCell, FakePolicy, ListSink

pytestmark = pytest.mark.long

NAME = "000000-online-a"
STEPS = 8


class StampedCell(FakeCell):
    """Observations carry the time of their tick, as those of a real cell do."""

    def observe(self) -> Observation | None:
        seen = super().observe()
        if seen is None:
            return None
        return Observation(images=seen.images, proprio=seen.proprio, stamp_ns=self.now_ns())


def _recorded(cell: FakeCell) -> list[Step]:
    sink = ListSink()
    loop = ControlLoop(cell, SPEC, cell, LoopLimits(episode_steps=STEPS))
    loop.run_episode(header_of(NAME), FakePolicy(), sink)
    return sink.steps


def _drawn(replay: Replay) -> list[int]:
    return replay.frames.column("frame")[replay.pools.online].tolist()


def _live(steps: list[Step]) -> Replay:
    replay = Replay(SPEC)
    replay.begin(header_of(NAME))
    for step in steps:
        assert replay.add_step(step)
    return replay


@pytest.mark.parametrize(
    ("cell", "missed"),
    [
        (StampedCell(), []),
        (StampedCell(late_ns={3: PERIOD_NS // 3}), []),
        (StampedCell(blind=lambda tick: tick in (3, 6)), [2, 4]),
        (StampedCell(late_ns={3: 7 * PERIOD_NS // 2}), [2]),
    ],
    ids=["none", "a little late", "blind", "overrun"],
)
def test_frames_around_a_missed_tick_are_recorded_and_never_drawn(
    cell: FakeCell, missed: list[int], tmp_path: Path
) -> None:
    steps = _recorded(cell)
    assert [step.index for step in steps] == list(range(STEPS + 1))
    assert steps[-1].end is EndReason.TIMEOUT
    replay = _live(steps)
    assert _drawn(replay) == [t for t in range(STEPS) if t not in missed]
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        store.begin(header_of(NAME))
        for step in steps:
            store.append(step)
        resumed = Replay(SPEC)
        resumed.add_episode(store.read(NAME))
    assert _drawn(resumed) == _drawn(replay)


def test_returns_over_several_steps_end_before_a_missed_tick_and_bootstrap_there() -> None:
    replay = _live(_recorded(StampedCell(blind=lambda tick: tick == 5)))  # between frames 4 and 5
    draw = replay.draw(np.random.default_rng(0), 200, gamma=0.5, expert_fraction=0.0, n_step=3)
    frame = replay.frames.column("frame")
    for start, reached, discount in zip(frame[draw.rows], frame[draw.next_rows], draw.discount):
        assert start != 4
        assert reached == (min(start + 3, 4) if start < 4 else min(start + 3, STEPS))
        assert discount == 0.5 ** (reached - start)
