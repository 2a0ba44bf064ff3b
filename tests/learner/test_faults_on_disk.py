"""What the disk does to a run between two starts, or while it trains: named, and the rest goes on, or refused."""

from __future__ import annotations

import os
import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tiny_run import header_of, steps_of, write_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.checkpoint import CheckpointFolder, live_version, load_whole, pack
from robot_stack.learner.fitting import Stopped
from robot_stack.learner.publishing import VERSIONS_PER_LIFE
from robot_stack.learner.reward.rescoring import Rescorer
from robot_stack.learner.training import Training
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.runs.metrics import MetricsLog, read_rows
from robot_stack.runs.rows import AlarmRow, CheckpointFailedRow, FitRow, LostRow, of_kind
from robot_stack.types.errors import ResumeError, StoreError
from robot_stack.types.event import Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason
from tests.learner.driven import DEMOS, AskedForDemos, Driven

pytestmark = pytest.mark.long

BAD, GOOD = "000002-online-a", "000003-online-b"
SAVED = 40
DRIVEN_BY = 1
"""The version in the rows of `steps_of`."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two demonstrations, two online episodes and a checkpoint that knows them."""
    folder = tmp_path_factory.mktemp("faults") / "run"
    run = Driven(folder, write_run(folder, "algorithm.settings.utd=20.0"))
    try:
        run.demonstrate()
        run.start()
        for name in (BAD, GOOD):
            run.begin(name)
            run.send(name)
        run.take()
        run.run(SAVED, {})
        run.loop.save(wait=True)
    finally:
        run.close()
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def _start(folder: Path, *changes: str) -> Driven:
    run = Driven(folder, write_run(folder, "algorithm.settings.utd=20.0", *changes))
    try:
        run.start()
    except BaseException:
        run.close()
        raise
    return run


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def _damage(where: str, how: Callable[[Path], None]) -> Callable[[Path], None]:
    return lambda episode: how(episode / where)


@pytest.mark.parametrize(
    "damage",
    [
        _damage("image_front/c.0.0.0.0", _flip),
        _damage("image_wrist/c.1.0.0.0", lambda path: os.truncate(path, path.stat().st_size // 2)),
        _damage("source/c.0", Path.unlink),
        _damage("manifest.json", lambda path: path.write_text("{}")),
        _damage("manifest.json", Path.unlink),
    ],
    ids=["bit flip in an image", "truncated chunk", "missing chunk", "unreadable manifest", "missing manifest"],
)
def test_damaged_episode_is_named_and_training_goes_on_without_it(
    folder: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    damage(folder / "store" / "episodes" / f"{BAD}.zarr")
    run = _start(folder)
    try:
        assert run.loop.updates == SAVED
        run.run(SAVED + 5, {})
        (lost,) = of_kind(read_rows(folder / "metrics.jsonl").rows, LostRow)
        assert lost.episode_id == BAD
        assert lost.reason
        assert BAD in caplog.text
        assert GOOD in {name for batch in run.told.batches for name, _ in batch}
        run.loop.save(wait=True)
    finally:
        run.close()
    again = _start(folder)  # and once is enough
    again.close()
    assert len(of_kind(read_rows(folder / "metrics.jsonl").rows, LostRow)) == 1


def test_run_that_trains_already_waits_for_no_demonstration_in_the_place_of_one_that_is_taken_back(
    folder: Path,
) -> None:
    run = Driven(folder, write_run(folder, "algorithm.settings.utd=20.0"))
    try:
        run.say(DEMOS[0], Verdict.DISCARD)
        run.start(AskedForDemos(run.training))
        assert run.loop.updates == SAVED
        run.run(SAVED + 5, {})
        assert DEMOS[0] not in {name for batch in run.told.batches for name, _ in batch}
    finally:
        run.close()


def test_episode_that_is_gone_without_a_trace_is_refused(folder: Path) -> None:
    shutil.rmtree(folder / "store" / "episodes" / f"{BAD}.zarr")
    with pytest.raises(ResumeError, match=f"episode {BAD} has 0 frames, must have 13"):
        _start(folder)


def test_without_its_checkpoint_the_learner_numbers_above_what_drove_the_episodes(folder: Path) -> None:
    """An actor takes newer parameters alone: numbered from 1 again, it took none for hours."""
    shutil.rmtree(folder / "checkpoints")
    run = _start(folder)
    try:
        assert run.loop.publisher.version == DRIVEN_BY + VERSIONS_PER_LIFE + 1
    finally:
        run.close()


def test_an_older_checkpoint_numbers_above_what_drove_the_episodes(folder: Path) -> None:
    saved = max((folder / "checkpoints").glob("step_*.pt"))
    state = load_whole(saved)
    saved.write_bytes(pack({**state, "params_version": 0}, success=state["success"]))
    run = _start(folder)
    try:
        assert run.loop.publisher.version == DRIVEN_BY + VERSIONS_PER_LIFE + 1
    finally:
        run.close()


def test_damaged_features_are_computed_again_and_counted(folder: Path) -> None:
    (cached,) = folder.glob(f"features/*/{BAD}.safetensors")
    _flip(cached)
    run = _start(folder)
    try:
        assert BAD in run.replay.frames.episode_ids
        assert run.training.status().counters["damaged_features"] == 1
    finally:
        run.close()
    rows = of_kind(read_rows(folder / "metrics.jsonl").rows, FitRow)
    assert (rows[-1].damaged_features, rows[-1].cached_episodes) == (1, 3)


def test_features_of_another_trunk_are_not_used(folder: Path) -> None:
    (key,) = (folder / "features").iterdir()
    key.rename(key.with_name("another-trunk"))
    run = _start(folder)
    try:
        (row,) = of_kind(read_rows(folder / "metrics.jsonl").rows, FitRow)[1:]
        assert (row.cached_episodes, row.damaged_features) == (0, 0)
    finally:
        run.close()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("algorithm.settings.hidden=[24, 32]", "another network"),
        ("algorithm.settings.head=12", "another network"),
        ("algorithm.settings.critics=3", "another network"),
    ],
)
def test_checkpoint_of_another_network_is_refused(folder: Path, change: str, what: str) -> None:
    with pytest.raises(ResumeError, match=rf"{what}.*put run.yaml and trunk.safetensors back"):
        _start(folder, change)


def test_checkpoint_of_another_trunk_is_refused(folder: Path) -> None:
    (folder / "trunk.safetensors").unlink()
    shutil.rmtree(folder / "features")
    with pytest.raises(ResumeError, match=r"trunk of the checkpoint is '\w+', must be"):
        _start(folder, "seed=5")
    assert not (folder / "features").exists()


def test_reward_model_that_an_alarm_ended_after_the_checkpoint_is_not_trusted_again(folder: Path) -> None:
    (newest,) = (folder / "checkpoints").glob("step_*40.pt")
    state = load_whole(newest)
    newest.write_bytes(pack({**state, "reward_trusted": True}, success=state["success"]))
    metrics = MetricsLog(folder / "metrics.jsonl")
    metrics.log(AlarmRow(version=live_version(state), alarm="false_claims"))
    metrics.close()
    run = _start(folder)
    try:
        assert run.learner is not None
        assert run.learner.reward.monitor.lost
        assert not run.training.parts.scorer.trusted
        assert run.replay.score_version is None
    finally:
        run.close()


RESCORED = "reward.rescore={name: grm, settings: {server: {url: 'http://127.0.0.1:1/v1', model: any}}}"
"""A large model whose server is away."""
ELSEWISE = "grm-0123456789abcdef"
"""A version of that model that was told or shown something else."""


def _shaped_by(folder: Path, version: str) -> None:
    """Let the large model of a version have scored and shaped all that the checkpoint knows."""
    (newest,) = (folder / "checkpoints").glob("step_*40.pt")
    state = load_whole(newest)
    replay = {**state["replay"], "score_version": version, "scored_episodes": sorted(state["replay"]["episodes"])}
    newest.write_bytes(pack({**state, "replay": replay, "reward_version": version}, success=state["success"]))
    files = ScoreFiles(folder / "store" / "scores")
    for name, frames in replay["episodes"].items():
        line = np.linspace(0.0, 1.0, frames, dtype=np.float32)
        files.append(EpisodeScores(episode_id=name, version=version, progress=line, success=line))


def _large_version(folder: Path) -> str:
    run = _start(folder, RESCORED)
    try:
        return _rescorer(run).version
    finally:
        run.close()


def _rescorer(run: Driven) -> Rescorer:
    (found,) = (watched for watched in run.training.parts.status.watched if isinstance(watched, Rescorer))
    return found


def test_large_model_of_another_version_than_the_checkpoints_stops_no_run(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _shaped_by(folder, ELSEWISE)
    run = _start(folder, RESCORED)
    try:
        assert run.replay.score_version == run.training.parts.scorer.version
        assert ELSEWISE in caplog.text
        run.run(SAVED + 5, {})
    finally:
        run.close()


def test_large_model_goes_on_shaping_where_a_file_of_its_scores_is_damaged(folder: Path) -> None:
    version = _large_version(folder)
    _shaped_by(folder, version)
    _flip(folder / "store" / "scores" / version / f"{BAD}.npz")
    run = _start(folder, RESCORED)
    try:
        assert run.replay.score_version == version
        assert BAD not in run.replay.state_dict()["scored_episodes"]
        assert GOOD in run.replay.state_dict()["scored_episodes"]
        run.learner.reward.shaping.rescore()  # type: ignore[union-attr]
        assert BAD in _rescorer(run)._offered
    finally:
        run.close()


def test_large_model_that_an_alarm_ended_is_not_trusted_again_in_other_words(folder: Path) -> None:
    metrics = MetricsLog(folder / "metrics.jsonl")
    metrics.log(AlarmRow(version=ELSEWISE, alarm="order"))
    metrics.close()
    run = _start(folder, RESCORED)
    try:
        assert run.learner is not None
        assert run.learner.reward.shaping.lost
    finally:
        run.close()


class DemonstratedByTwo(threading.Event):
    """No stop: the demonstrations of two actors come once the learner asks, one of the second actor's first."""

    def __init__(self, run: Driven) -> None:
        super().__init__()
        self._run, self._asked = run, AskedForDemos(run.training)

    def is_set(self) -> bool:
        if not self._run.training.parts.statistics.accounts and self._asked.is_set():
            for name in ("000001-demo-b", "000000-demo-a"):
                self._run.begin(name)
                self._run.send(name, end="success")
        return False


def test_large_model_is_shown_the_same_demonstration_after_a_restart_until_that_is_taken_back(tmp_path: Path) -> None:
    versions = []
    for taken_back in ([], [], ["000001-demo-b"], []):
        run = Driven(tmp_path / "run", write_run(tmp_path / "run", RESCORED))
        try:
            for name in taken_back:
                run.say(name, Verdict.DISCARD)
            run.start(DemonstratedByTwo(run))
            versions.append(_rescorer(run).version)
        finally:
            run.close()
    assert versions[0] == versions[1]
    assert versions[1] != versions[2]
    assert versions[2] == versions[3]


def test_torn_rows_of_metrics_stop_nobody(folder: Path) -> None:
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"t": 1.0, "kind": "episode", "episode')
    run = _start(folder)
    run.close()
    assert read_rows(folder / "metrics.jsonl").rows[-1].kind == "fit"


def test_store_in_use_by_a_second_learner_is_refused(folder: Path) -> None:
    run = _start(folder)
    try:
        with pytest.raises(StoreError, match=f"writer of .* is process {os.getpid()}"):
            Training(run.resolved, folder).serve("127.0.0.1:0")
    finally:
        run.close()


def test_episode_of_another_spec_is_set_aside(folder: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", "task.arm.translation_m=0.02")
    name = "000009-online-x"
    with EpisodeStore(tmp_path / "other" / "store", other.spec(), other.task.name) as store:
        store.begin(header_of(other, name))
        for step in steps_of(other.spec(), name, 3):
            store.append(step)
    shutil.copytree(tmp_path / "other/store/episodes" / f"{name}.zarr", folder / "store/episodes" / f"{name}.zarr")
    run = _start(folder)
    try:
        assert "translation_m is 0.02" in run.training.parts.store.quarantined[name]
        assert name not in run.replay.frames.episode_ids
    finally:
        run.close()


@pytest.fixture
def full_disk() -> Iterator[Callable[[bool], None]]:
    """full_disk(True): from now on no file grows beyond 4 kB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(full: bool) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096 if full else soft, hard))

    yield fill
    fill(False)


def test_disk_that_is_full_at_a_checkpoint_is_said_and_tried_again(
    folder: Path, full_disk: Callable[[bool], None]
) -> None:
    run = _start(folder)
    loop = run.loop
    try:
        before = CheckpointFolder(folder / "checkpoints").steps()
        full_disk(True)
        loop.save(wait=True)
        run.run(SAVED + 10, {})
        loop.save(wait=True)
        assert CheckpointFolder(folder / "checkpoints").steps() == before
        assert "is not written" in run.training.status().message
        full_disk(False)
        loop.save(wait=True)
        assert "is not written" not in run.training.status().message
        assert CheckpointFolder(folder / "checkpoints").steps()[-1] == SAVED + 10
    finally:
        full_disk(False)
        run.close()
    failed = of_kind(read_rows(folder / "metrics.jsonl").rows, CheckpointFailedRow)
    assert len(failed) == 2


def test_folder_that_is_read_only_at_a_checkpoint_ends_nobody(folder: Path) -> None:
    run = _start(folder)
    loop = run.loop
    try:
        shutil.move(folder / "checkpoints", folder / "aside")
        (folder / "checkpoints").write_text("")  # nothing can be made in here, as on a read-only disk
        run.run(SAVED + 10, {})
        loop.save(wait=True)
        rows = of_kind(read_rows(folder / "metrics.jsonl").rows, CheckpointFailedRow)
        assert "is not written" in rows[-1].reason
        assert run.training.status().message == rows[-1].reason
    finally:
        run.close()


@pytest.mark.parametrize("what", ["encoder", "reward"])
def test_stop_ends_a_fit_at_its_next_step(tmp_path: Path, what: str) -> None:
    endless, begins = {
        "encoder": ("encoder.settings.steps=100000", "encoder:"),
        "reward": ("reward.settings.steps=20000", "reward model:"),
    }[what]
    run = Driven(tmp_path / "run", write_run(tmp_path / "run", endless))
    stop = threading.Event()
    try:
        run.demonstrate()
        stopper = threading.Thread(target=_stop_once_it_says, args=(run, begins, stop))
        stopper.start()
        with pytest.raises(Stopped):
            run.training.prepare(stop)
        stopper.join()
    finally:
        run.close()
    assert (tmp_path / "run" / "trunk.safetensors").exists() == (what == "reward")
    assert DEMOS[0] in {path.stem for path in (tmp_path / "run/store/episodes").iterdir()}


def test_run_that_was_stopped_in_a_fit_returns(tmp_path: Path) -> None:
    resolved: ResolvedRun = write_run(tmp_path / "run", "encoder.settings.steps=100000")
    run = Driven(tmp_path / "run", resolved)
    stop = threading.Event()
    try:
        run.demonstrate()
        timer = threading.Timer(1.0, stop.set)
        timer.start()
        run.training.run(stop)
        assert run.training.status().phase == "fitting"
    finally:
        run.close()


def test_episode_that_lost_its_manifest_is_completed_by_its_actor(folder: Path) -> None:
    (folder / "store" / "episodes" / f"{BAD}.zarr" / "manifest.json").unlink()
    run = _start(folder)
    try:
        assert run.training.parts.store.read(BAD, images=False).end is None
        run.send(BAD)
        run.take()
        assert run.training.parts.store.read(BAD, images=False).end is EndReason.TIMEOUT
        assert run.training.parts.statistics.episodes[BAD].end is EndReason.TIMEOUT
        assert run.replay.frame_count(BAD) == 13
    finally:
        run.close()


def _stop_once_it_says(run: Driven, begins: str, stop: threading.Event) -> None:
    deadline_s = time.monotonic() + 60.0
    while not run.training.status().message.startswith(begins) and time.monotonic() < deadline_s:
        time.sleep(0.005)
    stop.set()
