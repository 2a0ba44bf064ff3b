"""Stages that a run's encoder proposes: marks of the model, which count for nothing until an operator accepts them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from policies.encoders.none import NoTrunk
from reward_models.interface import LabelledEpisode
from robot_stack.cli.main import main
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.datasets.store_view import open_store
from robot_stack.learner.reward import proposals
from robot_stack.learner.reward.proposals import propose_stages
from robot_stack.learner.reward.synthetic import generate, labelled
from robot_stack.replay.annotations import MarkLog
from robot_stack.replay.durable import WriterLock
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError, StoreError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.stages import StageMark, counting
from tests.learner.test_adaptation import SETTINGS, write_demo, write_run

pytestmark = pytest.mark.long

Says = Callable[[tuple[int, ...]], None]


@pytest.fixture(scope="module")
def resolved() -> ResolvedRun:
    return load_run("peg_insert", [f"run.{SETTINGS}"])


@pytest.fixture(scope="module")
def demo(resolved: ResolvedRun) -> LabelledEpisode:
    return labelled(generate(resolved, {"success": 1}, seed=(5,)))[0]


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> Says:
    """What the features are to show."""

    def says(starts: tuple[int, ...]) -> None:
        monkeypatch.setattr(proposals, "sub_goals", lambda features, stages: starts)

    return says


def recorded(folder: Path, resolved: ResolvedRun, demo: LabelledEpisode) -> str:
    """A run with one success; returns its id."""
    write_run(folder, resolved, demo)
    write_demo(folder, resolved, demo, Verdict.SUCCESS)
    return "e"


def proposed(folder: Path) -> list[tuple[int, int]]:
    marks = open_store(RunPaths(folder).store.root).marks
    return [(mark.stage, mark.frame) for mark in counting(marks, LabelSource.MODEL)]


def test_what_is_proposed_is_the_models_mark_and_a_later_proposal_replaces_it(
    tmp_path: Path, resolved: ResolvedRun, demo: LabelledEpisode, says: Says, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    name = recorded(folder, resolved, demo)
    says((0, 5, 9))
    assert propose_stages(folder).starts == {name: (0, 5, 9)}
    assert proposed(folder) == [(1, 5), (2, 9)]
    assert open_store(RunPaths(folder).store.root).marks_of(name) == ()  # nothing that counts
    says((0, 6))
    assert main(["reward", "stages", str(folder)]) == 0
    assert proposed(folder) == [(1, 6)]
    assert "stages begin at frames 0, 6" in capsys.readouterr().out
    says(())
    assert main(["reward", "stages", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"starts": {name: []}, "marked": []}
    assert proposed(folder) == []


def test_an_episode_that_an_operator_has_marked_stays_as_it_is(
    tmp_path: Path, resolved: ResolvedRun, demo: LabelledEpisode, says: Says
) -> None:
    folder = tmp_path / "run"
    name = recorded(folder, resolved, demo)
    log = MarkLog(RunPaths(folder).store.stages)
    log.open()
    log.append(StageMark(episode_id=name, stage=1, frame=4, source=LabelSource.OPERATOR, stamp_unix_s=1.0))
    says((0, 5))
    found = propose_stages(folder)
    assert (found.starts, found.marked) == ({}, (name,))
    assert proposed(folder) == []


def test_stages_are_read_from_the_features_without_thumbnails(
    tmp_path: Path, resolved: ResolvedRun, demo: LabelledEpisode, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    recorded(folder, resolved, demo)
    seen: list[np.ndarray] = []
    monkeypatch.setattr(proposals, "sub_goals", lambda features, stages: seen.append(features) or ())
    propose_stages(folder)
    (features,) = seen
    assert len(features) == len(demo.frames)
    assert features.shape[1] == sum(part.size for part in trunk_parts(folder, resolved))


def trunk_parts(folder: Path, resolved: ResolvedRun):
    from robot_stack.learner.fitting import load_trunk

    return load_trunk(RunPaths(folder).trunk, resolved.spec(), "cpu").parts


def test_a_run_that_goes_on_or_has_no_encoder_is_refused(
    tmp_path: Path, resolved: ResolvedRun, demo: LabelledEpisode
) -> None:
    folder = tmp_path / "run"
    recorded(folder, resolved, demo)
    lock = WriterLock(RunPaths(folder).store.lock)
    lock.acquire()
    with pytest.raises(StoreError):
        propose_stages(folder)
    lock.release()
    RunPaths(folder).trunk.unlink()
    with pytest.raises(StoreError, match="encoder of run run is missing, must be there; finish its demonstrations"):
        propose_stages(folder)


def test_an_encoder_that_sees_nothing_proposes_nothing_and_says_so(
    tmp_path: Path, resolved: ResolvedRun, demo: LabelledEpisode, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    recorded(folder, resolved, demo)
    monkeypatch.setattr(proposals.fitting, "load_trunk", lambda *_: NoTrunk())
    with pytest.raises(ConfigError, match="encoder of run run looks at nothing, must see images to propose stages"):
        propose_stages(folder)
