"""A learner that watches episodes hears of each once, in the order of their ends, with the verdicts that came late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.tiny_run import write_run
from policies.jump_start.learner import JumpStartLearner
from robot_stack.types.event import Verdict
from tests.learner.driven import Driven

pytestmark = pytest.mark.long

FIRST, SECOND, THIRD, FOURTH, FIFTH = (f"{n:06d}-online-{actor}" for n, actor in enumerate("ababa", start=2))
SETTINGS = ("algorithm.settings.guide_updates=5", "algorithm.settings.window=200")
Start = Callable[[Path], Driven]


@pytest.fixture
def start() -> Iterator[Start]:
    """A learner of jump-start on a folder, past its fits; of a stage without end, which keeps all it is told."""
    runs: list[Driven] = []

    def start_on(folder: Path) -> Driven:
        run = Driven(folder, write_run(folder, "algorithm.name=jump_start", *SETTINGS))
        runs.append(run)
        if not (folder / "checkpoints").exists():
            run.demonstrate()
        run.start()
        return run

    yield start_on
    for run in runs:
        run.close()


def _told(run: Driven) -> list[float]:
    """1.0 per episode that was told as a success without help, as the retreat keeps them."""
    learner = run.loop.updater.learner
    assert isinstance(learner, JumpStartLearner)
    return learner._retreat._results


def _end(run: Driven, name: str, end: str) -> None:
    """Two frames that nobody helped in; then what was published next."""
    run.begin(name)
    run.send(name, 2, end=end)
    run.take()
    run.loop.publisher.publish()


def _say(run: Driven, name: str, verdict: Verdict) -> None:
    run.say(name, verdict)
    run.take()
    run.loop.publisher.publish()


def test_each_is_told_once_in_its_cells_order_of_end_and_with_its_late_verdict(start: Start, tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    run.begin(FIRST)
    _end(run, SECOND, "success")
    _end(run, FIRST, "timeout")
    assert _told(run) == []
    _say(run, FIRST, Verdict.SUCCESS)
    _end(run, THIRD, "timeout")
    _end(run, FOURTH, "success")
    _say(run, FOURTH, Verdict.FAILURE)
    assert _told(run) == []  # of either cell there are two, on which a verdict may still come
    _end(run, FIFTH, "timeout")
    assert _told(run) == [1.0]
    run.loop.publisher.finish()
    assert _told(run) == [1.0, 1.0, 0.0, 0.0, 0.0]
    run.loop.publisher.finish()
    assert len(_told(run)) == 5


def test_a_discarded_one_is_not_told(start: Start, tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    _end(run, FIRST, "success")
    _end(run, SECOND, "operator")
    _say(run, SECOND, Verdict.DISCARD)
    run.loop.publisher.finish()
    assert _told(run) == [1.0]


def test_resumed_learner_goes_on_where_the_checkpoint_was(start: Start, tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    for later, sooner in ((FIRST, SECOND), (THIRD, FOURTH)):
        run.begin(later)
        _end(run, sooner, "failure")
        _end(run, later, "timeout")
    assert _told(run) == []
    run.loop.save(wait=True)
    run.copy(tmp_path / "killed")
    resumed = start(tmp_path / "killed")
    for each in (run, resumed):
        _say(each, THIRD, Verdict.SUCCESS)
        _end(each, FIFTH, "failure")
        assert _told(each) == [0.0]
        each.loop.publisher.finish()
        assert _told(each) == [0.0, 0.0, 0.0, 1.0, 0.0]


def test_a_learner_that_begins_in_the_middle_is_told_of_none_that_another_drove(start: Start, tmp_path: Path) -> None:
    run = start(tmp_path / "run")
    for name in (FIRST, SECOND, THIRD):
        _end(run, name, "success")
    run.loop.updater.learner._retreat._results.clear()  # type: ignore[attr-defined]
    run.loop.begin_anew(online_steps=6, params_version=run.loop.publisher.version)
    for name in (FOURTH, FIFTH, "000007-online-a", "000008-online-a"):
        _end(run, name, "success")
    assert _told(run) == [1.0]
