"""One demonstration of a changed scene adapts a run's reward model, which keeps what one episode cannot tell."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from policies.encoders.embedded import EmbeddedTrunk
from reward_models.interface import LabelledEpisode
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig
from reward_models.progress.fit import fit
from robot_stack.cli.main import main
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.data.training_data import reward_inputs
from robot_stack.learner.fitting import fit_reward, image_shapes, save_reward, write_tensors
from robot_stack.learner.reward.success_model import newest_model
from robot_stack.learner.reward.synthetic import generate, labelled
from robot_stack.replay.durable import WriterLock
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.reward_version import newest_reward
from robot_stack.runs.rows import RewardFitRow
from robot_stack.types.event import Label, LabelSource, Verdict
from tests.learner.test_reward_evaluation import steps_of
from tests.replay.recorded import header_of
from tests.reward_models.synthetic import QUICK, TEXT, episode, episodes

pytestmark = pytest.mark.long

SETTINGS = (
    "reward.settings={members: 2, window: 4, width: 16, layers: 1, steps: 60, refit_steps: 60, batch: 8, held_out: 0}"
)


@pytest.fixture(scope="module")
def resolved() -> ResolvedRun:
    return load_run("peg_insert", [f"run.{SETTINGS}"])


@pytest.fixture(scope="module")
def demos(resolved: ResolvedRun) -> list[LabelledEpisode]:
    return labelled(generate(resolved, {"success": 2}, seed=(5,)))


def darkened(episode: LabelledEpisode) -> LabelledEpisode:
    """The same motion before a darker scene."""
    frames = tuple(
        replace(frame, images={name: image // 3 for name, image in frame.images.items()}) for frame in episode.frames
    )
    return replace(episode, frames=frames)


def write_run(folder: Path, resolved: ResolvedRun, episode: LabelledEpisode) -> str:
    torch.manual_seed(0)
    trunk = EmbeddedTrunk(image_shapes(resolved.spec()), 4).requires_grad_(False).eval()
    paths = RunPaths(folder)
    paths.store.root.mkdir(parents=True)
    paths.resolved.write_text(resolved.to_yaml())
    write_tensors(
        paths.trunk, trunk.state_dict(), {"identity": trunk.identity, "reference": json.dumps(trunk.reference)}
    )
    images = {name: np.stack([frame.view(name) for frame in episode.frames]) for name in trunk.shapes}
    rows = reward_inputs(trunk.encode(images), np.stack([np.asarray(frame.proprio) for frame in episode.frames]))
    config = resolved.section("run.reward.settings", ProgressConfig)
    model, _, _ = fit_reward(
        [ScoredEpisode(frames=rows, success=True)], config, text=resolved.task.text, seed=0, on_step=lambda *_: None
    )
    save_reward(paths.reward(model.version), model)
    log = MetricsLog(paths.metrics)
    log.log(RewardFitRow(version=model.version, trained_on=("d",), held_out=("e", "f")))
    log.close()
    return model.version


def write_demo(folder: Path, resolved: ResolvedRun, episode: LabelledEpisode, verdict: Verdict) -> None:
    with EpisodeStore(folder / "store", resolved.spec(), resolved.task.name) as store:
        store.begin(replace(header_of("e"), task=resolved.task.name, task_id=""))
        for step in steps_of(episode, resolved):
            store.append(step)
        label = Label(episode_id="e", verdict=verdict, source=LabelSource.OPERATOR, stamp_unix_s=1.0)
        store.append_label(label)


@pytest.fixture
def run(tmp_path: Path, resolved: ResolvedRun, demos: list[LabelledEpisode]) -> tuple[Path, str]:
    folder = tmp_path / "run"
    return folder, write_run(folder, resolved, demos[0])


def test_the_adapted_model_is_the_runs_newest_and_knows_the_changed_scene(
    run: tuple[Path, str], resolved: ResolvedRun, demos: list[LabelledEpisode], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, before = run
    changed = folder.parent / "changed"
    write_demo(changed, resolved, darkened(demos[1]), Verdict.SUCCESS)
    assert main(["reward", "adapt", str(folder), "--demo", str(changed / "store"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    newest = newest_reward(folder)
    assert newest is not None
    assert (said["start"], said["version"], said["episode"]) == (before, newest.version, "e")
    assert said["version"] != before
    assert (newest.trained_on, newest.held_out) == ({"d", "e"}, {"f"})
    assert said["after"] > said["before"]
    _, model = newest_model(folder, resolved)
    assert model.version == said["version"]


def test_what_is_no_demonstration_is_refused_and_the_run_is_as_it_was(
    run: tuple[Path, str], resolved: ResolvedRun, demos: list[LabelledEpisode], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, before = run
    failed = folder.parent / "failed"
    write_demo(failed, resolved, demos[1], Verdict.FAILURE)
    slower = load_run("peg_insert", [f"run.{SETTINGS}", "task.arm.translation_m=0.005"])
    other = folder.parent / "other"
    write_demo(other, slower, demos[1], Verdict.SUCCESS)
    lock = WriterLock(RunPaths(folder).store.lock)
    cases = [
        (["--demo", str(failed / "store")], "successes in .* are 0, must be at least 1; record a demonstration"),
        (["--demo", str(other / "store"), "--episode", "f"], "demonstration is 'f', must be one of the 1 successes"),
        (["--demo", str(other / "store")], "cell of .* must be that of run"),
    ]
    for arguments, words in cases:
        assert main(["reward", "adapt", str(folder), *arguments]) == 1
        assert re.search(words, " ".join(capsys.readouterr().err.split()))
    lock.acquire()
    assert main(["reward", "adapt", str(folder), "--demo", str(other / "store")]) == 1
    assert "stop that process" in capsys.readouterr().err
    lock.release()
    newest = newest_reward(folder)
    assert newest is not None
    assert newest.version == before


def test_one_episode_leaves_calibration_and_known_ends_as_they_were() -> None:
    short = QUICK.model_copy(update={"steps": 5})
    start, _ = fit(episodes(4, 2), short, text=TEXT, seed=0)
    assert start.calibration != (1.0, 0.0)
    assert np.isfinite(start.done_reach)
    adapted, _ = fit([episode(50)], short, text=TEXT, seed=0, start=start)
    assert adapted.calibration == start.calibration
    assert adapted.done_reach == start.done_reach
    assert len(adapted.done_known) == len(start.done_known) + episode(50).done_frames
    fresh, _ = fit([episode(50)], short, text=TEXT, seed=0)
    assert (fresh.calibration, fresh.done_reach) == ((1.0, 0.0), float("inf"))
