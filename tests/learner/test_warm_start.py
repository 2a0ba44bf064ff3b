"""A run starts from an earlier one: what is taken, what is refused by name, and what a kill on the way leaves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.tiny_run import write_run
from robot_stack.config.resolve import load_run
from robot_stack.disk.durable import make_durable
from robot_stack.learner import process, warm_start
from robot_stack.learner.fitting import Stopped
from robot_stack.learner.warm_start import prepare_start, read_start
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.layout import SUFFIX
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.reward_version import newest_reward, rows_about
from robot_stack.runs.rows import AlarmRow, RewardFitRow
from robot_stack.runs.statistics import EARLIER_RUN
from robot_stack.types.errors import MISCONFIGURED, ConfigError, ResumeError, StoreError
from robot_stack.types.event import Verdict
from robot_stack.types.transition import EpisodeKind
from tests.learner.driven import DEMOS, AskedForDemos, Driven

pytestmark = pytest.mark.long

ONLINE = "000002-online-a"
TAKEN = ("0-000000-demo-a", "0-000001-demo-a", "0-000002-online-a")


@pytest.fixture(scope="module")
def monday(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two demonstrations and an online episode that the operator called a failure, 60 updates long."""
    folder = tmp_path_factory.mktemp("runs") / "monday"
    driven = Driven(folder, write_run(folder))
    driven.demonstrate()
    driven.start()
    driven.begin(ONLINE)
    driven.send(ONLINE)
    driven.say(ONLINE, Verdict.FAILURE)
    driven.take()
    driven.run(60, {})
    driven.loop.save(wait=True)
    driven.close()
    return folder


class Tuesday:
    """A run that starts from another."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder = folder
        self.settings = settings
        self._open: list[Driven] = []

    def start(self) -> Driven:
        driven = Driven(self.folder, write_run(self.folder, *self.settings))
        self._open.append(driven)
        return driven

    def close(self) -> None:
        for driven in self._open:
            driven.close()


@pytest.fixture
def tuesday(monday: Path, tmp_path: Path) -> Iterator[Tuesday]:
    run = Tuesday(tmp_path / "tuesday", f"start_from.run={monday}", "seed=5")
    yield run
    run.close()


def weights(folder: Path) -> dict[str, torch.Tensor]:
    state = warm_start.CheckpointFolder(RunPaths(folder).checkpoints).load_latest()
    assert state is not None
    policy: dict[str, torch.Tensor] = state["learner"]["policy"]
    return policy


def test_it_needs_no_demonstration_and_begins_with_the_earlier_policy(monday: Path, tuesday: Tuesday) -> None:
    driven = tuesday.start()
    driven.start()
    assert driven.training.status().message != "0 of 2 demonstrations"
    began, was = weights(tuesday.folder), weights(monday)
    assert all(torch.equal(began[name], was[name]) for name in was)
    assert driven.loop.updates == 20, "the updates on demonstrations count as made, those of the earlier run do not"
    assert RunPaths(tuesday.folder).trunk.read_bytes() == RunPaths(monday).trunk.read_bytes()


def test_it_asks_for_no_demonstration_though_the_new_run_would_begin_from_more(tuesday: Tuesday) -> None:
    tuesday.settings += ("training.demos=5",)
    driven = tuesday.start()
    driven.start(AskedForDemos(driven.training))
    assert driven.loop.updates == 20


@pytest.mark.parametrize("take", ["episodes,encoder,reward", "episodes,encoder,learner", "encoder,reward,learner"])
def test_it_asks_for_demonstrations_where_something_is_left_to_be_fitted_on_them(tuesday: Tuesday, take: str) -> None:
    tuesday.settings += ("training.demos=5", f"start_from.take=[{take}]")
    driven = tuesday.start()
    with pytest.raises(Stopped):
        driven.start(AskedForDemos(driven.training))


def test_earlier_episodes_are_learned_from_and_not_counted(monday: Path, tuesday: Tuesday) -> None:
    driven = tuesday.start()
    driven.start()
    statistics = driven.training.parts.statistics
    assert tuple(statistics.episodes) == TAKEN
    assert statistics.online_steps == 0
    assert [account.header.kind for account in statistics.accounts] == [
        EpisodeKind.DEMO,
        EpisodeKind.DEMO,
        EpisodeKind.EARLIER,
    ]
    assert not statistics.episodes[TAKEN[2]].success
    driven.begin("000000-online-a")
    driven.send("000000-online-a")
    driven.run(60, {})
    drawn = {episode for batch in driven.told.batches for episode, _ in batch}
    assert drawn == {*TAKEN, "000000-online-a"}


def test_the_reward_model_and_its_scores_are_those_that_were_in_use(monday: Path, tuesday: Tuesday) -> None:
    driven = tuesday.start()
    driven.start()
    version = driven.training.parts.scorer.version
    assert RunPaths(monday).reward(version).exists()
    scores = {each.episode_id: each.progress for each in driven.training.parts.store.scores(version)}
    assert set(scores) == set(TAKEN)
    with np.load(RunPaths(monday).store.scores / version / f"{ONLINE}.npz") as kept:
        assert np.array_equal(scores[TAKEN[2]], kept["progress"])
    here, there = newest_reward(tuesday.folder), newest_reward(monday)
    assert here is not None
    assert there is not None
    assert (here.version, here.alarm) == (version, there.alarm)
    assert here.held_out == {EARLIER_RUN + name for name in there.held_out}


def test_what_ended_trust_in_the_reward_model_is_known_to_whoever_takes_it_over(tmp_path: Path) -> None:
    log = MetricsLog(RunPaths(tmp_path).metrics)
    log.log(RewardFitRow(version="v", trained_on=("a", "b"), held_out=("c",), online_episodes=9))
    log.log(AlarmRow(version="v", alarm="false_done", words="two of three", episodes=["d"]))
    log.log(AlarmRow(version="w", alarm="false_done", words="of another"))
    log.close()
    fit, alarm = rows_about(tmp_path, "v", "0-")
    assert isinstance(fit, RewardFitRow)
    assert (fit.trained_on, fit.held_out, fit.online_episodes) == (("0-a", "0-b"), ("0-c",), 0)
    assert isinstance(alarm, AlarmRow)
    assert (alarm.words, alarm.episodes) == ("two of three", ["0-d"])


def test_a_reward_model_that_an_alarm_ended_after_the_last_checkpoint_is_not_trusted(
    monday: Path, tmp_path: Path, tuesday: Tuesday
) -> None:
    ended = newest_reward(monday)
    assert ended is not None
    assert not ended.alarm
    source = shutil.copytree(monday, tmp_path / "monday")
    log = MetricsLog(RunPaths(source).metrics)
    log.log(AlarmRow(version=ended.version, alarm="false_claims", words="two of three"))
    log.close()
    tuesday.settings += (f"start_from.run={source}",)
    driven = tuesday.start()
    driven.start()
    assert driven.learner is not None
    assert driven.learner.reward.monitor.lost
    assert driven.replay.score_version is None


def test_what_a_run_begins_with_is_refused_with_a_flipped_bit_and_taken_again_once_it_is_removed(
    tuesday: Tuesday,
) -> None:
    start, resolved = RunPaths(tuesday.folder).start, write_run(tuesday.folder, *tuesday.settings)
    prepare_start(resolved, tuesday.folder)
    content = bytearray(start.read_bytes())
    content[len(content) // 2] ^= 4
    start.write_bytes(content)
    with pytest.raises(ResumeError, match=rf"start_from\.pt is unreadable .*: rm '{start}'$"):
        read_start(tuesday.folder)
    start.unlink()
    prepare_start(resolved, tuesday.folder)
    assert read_start(tuesday.folder).learner is not None


def test_when_its_encoder_is_fitted_again_is_a_matter_of_the_new_run(monday: Path, tmp_path: Path) -> None:
    run = Tuesday(tmp_path / "tuesday", f"start_from.run={monday}", "encoder.settings.refit_at=[5]")
    try:
        run.start()
        assert RunPaths(run.folder).trunk.read_bytes() == RunPaths(monday).trunk.read_bytes()
    finally:
        run.close()


def test_it_stands_by_itself_once_it_has_begun(monday: Path, tuesday: Tuesday, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(monday, copy)
    tuesday.settings = (f"start_from.run={copy}",)
    driven = tuesday.start()
    driven.close()
    shutil.rmtree(copy)
    again = tuesday.start()
    again.start()
    assert again.loop.updates == 20
    assert read_start(tuesday.folder).reward is not None


def test_a_second_start_resumes_the_run_and_not_the_earlier_one(tuesday: Tuesday) -> None:
    driven = tuesday.start()
    driven.start()
    driven.begin("000000-online-a")
    driven.send("000000-online-a")
    driven.run(50, {})
    driven.loop.save(wait=True)
    driven.close()
    again = tuesday.start()
    again.start()
    assert again.loop.updates == 50
    assert tuple(again.training.parts.statistics.episodes) == (*TAKEN[:2], TAKEN[2], "000000-online-a")


def test_a_kill_between_any_two_episodes_is_made_good_at_the_next_start(
    tuesday: Tuesday, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, moved = warm_start.os.replace, []

    def killed(of: Path, to: Path) -> None:
        if len(moved) == 2:
            raise KeyboardInterrupt
        moved.append(to)
        real(of, to)

    monkeypatch.setattr(warm_start.os, "replace", killed)
    resolved = write_run(tuesday.folder, *tuesday.settings)
    with pytest.raises(KeyboardInterrupt):
        prepare_start(resolved, tuesday.folder)
    assert len(moved) == 2
    assert not RunPaths(tuesday.folder).start.exists()
    monkeypatch.setattr(warm_start.os, "replace", real)
    driven = tuesday.start()
    assert driven.training.parts.store.episodes == TAKEN
    assert len(driven.training.parts.store.labels) == 1
    assert not (tuesday.folder / "start_from.partial").exists()


def test_what_is_copied_is_on_disk_before_it_has_a_name_in_the_store(
    tuesday: Tuesday, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut would leave empty files under names that are not copied again."""
    done: list[str] = []
    sync, replace = os.sync, os.replace

    def synced() -> None:
        done.append("sync")
        sync()

    def replaced(of: Path, to: Path) -> None:
        if to.suffix == SUFFIX:
            done.append(to.name.removesuffix(SUFFIX))
        replace(of, to)

    monkeypatch.setattr(warm_start.os, "sync", synced)
    monkeypatch.setattr(warm_start.os, "replace", replaced)
    store, made = RunPaths(tuesday.folder).store, []
    monkeypatch.setattr(warm_start, "make_durable", lambda folder: (made.append(folder), make_durable(folder)))
    prepare_start(write_run(tuesday.folder, *tuesday.settings), tuesday.folder)
    assert done == ["sync", *TAKEN]
    assert made == [store.episodes]


def test_a_dataset_gives_its_episodes_alone(monday: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    resolved = write_run(folder, f"start_from.run={RunPaths(monday).store.root}", "start_from.take=[episodes]")
    prepare_start(resolved, folder)
    with EpisodeStore(RunPaths(folder).store.root, resolved.spec(), resolved.task.name) as store:
        assert store.episodes == TAKEN
        assert store.header(TAKEN[2]).kind is EpisodeKind.EARLIER
    assert read_start(folder).learner is None
    assert not RunPaths(folder).trunk.exists()


def test_an_encoder_alone_leaves_everything_else_to_the_run(monday: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    driven = Driven(folder, write_run(folder, f"start_from.run={monday}", "start_from.take=[encoder]"))
    try:
        driven.demonstrate()
        driven.start()
        assert tuple(driven.training.parts.statistics.episodes) == DEMOS
        assert RunPaths(folder).trunk.read_bytes() == RunPaths(monday).trunk.read_bytes()
    finally:
        driven.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["cameras.wrist.policy_width_px=32"], r"spec.cameras\[\d\].width_px is 16, must be 32"),
        (["encoder.settings.steps=6"], "encoder.settings.steps is 5, must be 6; make them the same, or leave encoder"),
        (["reward.settings.steps=6"], "reward.settings.steps is 5, must be 6"),
        (["algorithm.settings.head=16"], "algorithm.settings.head is 8, must be 16"),
        (["algorithm.name=hg_dagger", "algorithm.settings.critics=null"], "algorithm"),
    ],
    ids=["spec", "encoder", "reward", "learner", "algorithm"],
)
def test_what_differs_is_named_field_by_field(monday: Path, tmp_path: Path, settings: list[str], said: str) -> None:
    folder = tmp_path / "run"
    resolved = write_run(folder, f"start_from.run={monday}", *settings)
    with pytest.raises(ConfigError, match=said):
        prepare_start(resolved, folder)
    assert not RunPaths(folder).start.exists()
    assert not RunPaths(folder).store.episodes.exists(), "nothing was taken"


def test_a_folder_that_is_no_run_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for settings, said in (
        ((), "is no run"),
        (("start_from.take=[episodes]",), "has no episodes"),
    ):
        resolved = write_run(folder, f"start_from.run={tmp_path / 'nowhere'}", *settings)
        with pytest.raises(ConfigError, match=said):
            prepare_start(resolved, folder)


def test_a_run_without_a_checkpoint_cannot_give_its_learner(monday: Path, tmp_path: Path) -> None:
    early, folder = tmp_path / "early", tmp_path / "run"
    shutil.copytree(monday, early)
    shutil.rmtree(RunPaths(early).checkpoints)
    resolved = write_run(folder, f"start_from.run={early}")
    with pytest.raises(ConfigError, match="has no checkpoint"):
        prepare_start(resolved, folder)


def test_episodes_of_another_task_are_refused(monday: Path, tmp_path: Path) -> None:
    other, folder = tmp_path / "other", tmp_path / "run"
    shutil.copytree(RunPaths(monday).store.root, other)
    identity = other / "store.json"
    identity.write_text(identity.read_text().replace('"task": "peg_insert"', '"task": "stack"'))
    resolved = write_run(folder, f"start_from.run={other}", "start_from.take=[episodes]")
    with pytest.raises(ConfigError, match="is of task 'stack' instead of 'peg_insert'"):
        prepare_start(resolved, folder)


@pytest.mark.parametrize("part", ["executed/c*", "zarr.json"])  # an array, and the header
def test_a_broken_episode_is_left_behind_by_name(
    monday: Path, tmp_path: Path, part: str, caplog: pytest.LogCaptureFixture
) -> None:
    damaged, folder = tmp_path / "damaged", tmp_path / "run"
    shutil.copytree(monday, damaged)
    next(RunPaths(damaged).store.episode(ONLINE).glob(part)).write_bytes(b"")
    resolved = write_run(folder, f"start_from.run={damaged}")
    prepare_start(resolved, folder)
    with EpisodeStore(RunPaths(folder).store.root, resolved.spec(), resolved.task.name) as store:
        assert store.episodes == TAKEN[:2]
    assert f"episode {ONLINE} is left behind: " in caplog.text


def test_another_process_that_writes_to_the_run_is_named(monday: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    resolved = write_run(folder, f"start_from.run={monday}")
    with (
        EpisodeStore(RunPaths(folder).store.root, resolved.spec(), resolved.task.name),
        pytest.raises(StoreError, match="writer of"),
    ):
        prepare_start(resolved, folder)


@pytest.mark.parametrize(
    ("take", "said"),
    [
        ("[learner]", "take has learner without encoder, must have both"),
        ("[]", "at least 1"),
        ("[episodes, episodes]", "parts of start_from.take"),
        ("[policy]", "policy"),
    ],
)
def test_parts_that_do_not_go_together_are_refused_where_the_file_is_read(take: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_run("peg_insert", ["start_from.run=/runs/monday", f"start_from.take={take}"])


def test_a_relative_folder_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"start_from\.run"):
        load_run("peg_insert", ["start_from.run=runs/monday"])


def test_the_learner_process_says_what_it_cannot_use_and_is_not_started_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    write_run(folder, f"start_from.run={tmp_path / 'nowhere'}")
    assert process.main(["--run", str(RunPaths(folder).resolved), "--address", "127.0.0.1:0"]) == MISCONFIGURED
    assert "nowhere is no run (it has no run.yaml)" in capfd.readouterr().err
