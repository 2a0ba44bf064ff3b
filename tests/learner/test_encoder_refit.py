"""The image encoder is fitted again beside online training, and takes the place of the first, whenever it is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from benchmarks.learning.lockstep import train_online
from benchmarks.tiny_run import write_run
from policies.distributed import Ranks
from policies.encoders.config import EmbeddedConfig
from policies.encoders.trunk import encode_frames
from robot_stack.learner import fitting, online_training, update_loop
from robot_stack.learner.encoder import refit, trunk_job
from robot_stack.learner.encoder.refit import TrunkRefitter, adopt, adopted, finish_adoption
from robot_stack.learner.encoder.trunk_job import TrunkJob, fit_elsewhere
from robot_stack.learner.online_training import Pause
from robot_stack.learner.publishing import VERSIONS_PER_LIFE
from robot_stack.learner.training import Training
from robot_stack.replay.stored_episode import read_episode
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import EpisodeRow, FitRow, RefitFailedRow, of_kind
from robot_stack.types.errors import ConfigError, FitError, ResumeError, StoreError
from robot_stack.types.event import Verdict
from robot_stack.types.transition import EndReason
from tests.learner.driven import DEMOS, Driven
from tests.suites.test_configured import ASKED, SEEN, loaded

pytestmark = pytest.mark.long

AT = ("encoder.settings.refit_at=[2]", "encoder.settings.refit_steps=7", "algorithm.settings.utd=2")
WON, LOST = "000002-online-a", "000003-online-a"


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[[], Driven]]:
    """Start the learner of a run, as often as it is asked for: as after a kill, but that its files are closed."""
    begun: list[Driven] = []

    def start() -> Driven:
        for one in begun:
            one.close()
        begun[:] = [Driven(tmp_path / "run", write_run(tmp_path / "run", *AT))]
        return begun[0]

    yield start
    for one in begun:
        one.close()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fit is done in this process, which is sooner ready."""
    monkeypatch.setattr(refit, "fit_elsewhere", lambda job, stopping: job.fit(fitting.unless(stopping)))


def trained(driven: Driven) -> Driven:
    """Two demonstrations, one episode that succeeded and one that did not, and a checkpoint."""
    driven.demonstrate()
    driven.start()
    for name, verdict in ((WON, Verdict.SUCCESS), (LOST, Verdict.FAILURE)):
        driven.begin(name)
        driven.send(name, end=verdict.value)
        driven.say(name, verdict)
    driven.take()
    driven.run(60, {})
    driven.training.parts.store.flush()
    driven.loop.save(wait=True)
    return driven


def fitted(driven: Driven) -> TrunkRefitter:
    """The encoder that the run has fitted again."""
    refitter = TrunkRefitter(driven.training.parts)
    refitter.maybe_start()
    wait(lambda: refitter.ready)
    return refitter


def wait(until: Callable[[], bool], within_s: float = 240.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not until():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def in_use(driven: Driven) -> str | None:
    return fitting.saved_identity(RunPaths(driven.folder).trunk)


def checkpoints(driven: Driven) -> list[str]:
    folder = RunPaths(driven.folder).checkpoints
    return sorted(path.name for path in folder.glob("*.pt"))


def sees_by_its_own_encoder(driven: Driven) -> None:
    """Every frame of the replay has the features of the encoder in use, and so have the parameters that are out."""
    parts = driven.training.parts
    trunk = fitting.load_trunk(RunPaths(driven.folder).trunk, driven.spec, "cpu")
    frames = driven.replay.frames
    assert set(frames.episode_ids) == {*DEMOS, WON, LOST}
    for name in frames.episode_ids:
        stored = parts.store.read(name)
        images = {camera.name: stored.arrays[f"image_{camera.name}"] for camera in driven.spec.cameras}
        wanted = encode_frames(trunk, images, len(stored.arrays["proprio"]))
        have = np.asarray(frames.column("features")[frames.episode(name).rows])
        assert np.allclose(have, wanted, atol=4e-3), name
        assert parts.scorer.inputs(name).shape[0] == len(wanted)
    params = driven.training.board.after(0, 0.0)
    assert params is not None
    assert params.metadata["trunk"] == trunk.identity


def test_it_is_fitted_in_a_process_of_its_own_on_what_succeeded(begin: Callable[[], Driven]) -> None:
    driven = trained(begin())
    first = in_use(driven)
    refitter = TrunkRefitter(driven.training.parts)
    job = refitter._job(2)
    assert [path.stem for path in job.episodes] == [*DEMOS, WON]
    assert job.settings.steps == 7
    assert TrunkJob.from_bytes(job.to_bytes()) == job
    refitter.maybe_start()
    wait(lambda: refitter.ready)
    next_one = fitting.saved_identity(RunPaths(driven.folder).next_trunk)
    assert next_one not in (None, first)
    assert in_use(driven) == first, "it waits beside the one in use"
    assert job.fit() == next_one, "elsewhere as here"


@pytest.mark.usefixtures("here")
def test_it_is_not_fitted_before_its_time_nor_twice(begin: Callable[[], Driven]) -> None:
    driven = begin()
    driven.demonstrate()
    driven.start()
    refitter = TrunkRefitter(driven.training.parts)
    refitter.maybe_start()
    assert refitter._thread is None
    driven.close()
    driven = trained(begin())
    refitter = fitted(driven)
    thread = refitter._thread
    refitter.maybe_start()
    assert refitter._thread is thread, "one waits to be adopted"
    adopt(driven.folder, online_steps=24, params_version=5)
    again = TrunkRefitter(driven.training.parts)
    again.maybe_start()
    assert (again.ready, again._thread) == (False, None)


@pytest.mark.parametrize("said", ["", '{"trunk": "a", "onl', "[]", '{"trunk": "a", "online": 3}', "\xff"])
def test_a_note_that_cannot_be_read_is_refused_by_file(tmp_path: Path, said: str) -> None:
    RunPaths(tmp_path).adopted.write_bytes(said.encode("latin-1"))
    for read in (adopted, finish_adoption):
        with pytest.raises(
            ResumeError, match=r"adopted\.json is unreadable .*, must be the note of the encoder in use"
        ):
            read(tmp_path)


@pytest.mark.usefixtures("here")
def test_all_begins_anew_behind_it_and_old_features_are_nowhere(begin: Callable[[], Driven]) -> None:
    driven = trained(begin())
    first, version, updates = in_use(driven), driven.loop.publisher.version, driven.loop.updates
    old_model = driven.training.parts.scorer.version
    driven.training._take_encoder(driven.learner if fitted(driven) else None)
    assert checkpoints(driven) == []
    assert fitting.saved_identity(RunPaths(driven.folder).first_trunk) == first
    driven.start()
    assert in_use(driven) != first
    sees_by_its_own_encoder(driven)
    assert driven.loop.publisher.version == version + VERSIONS_PER_LIFE + 1, "actors take newer ones alone"
    owed = 20 + int(driven.training.parts.settings.config.utd * driven.training.parts.statistics.online_steps)
    assert driven.loop.updates == owed >= updates
    assert driven.training.parts.scorer.version not in ("", old_model)
    assert not RunPaths(driven.folder).reward(old_model).exists(), "its features are nowhere any more"
    rows = of_kind(read_rows(RunPaths(driven.folder).metrics).rows, FitRow)
    assert [row.online_episodes for row in rows] == [0, 2]
    before = driven.loop.updates
    driven.begin("000004-online-a")
    driven.send("000004-online-a")
    driven.take()
    driven.run(before + 20, {})
    assert {episode for batch in driven.told.batches[-20:] for episode, _ in batch} >= {DEMOS[0], WON}


@pytest.mark.usefixtures("here")
def test_a_run_that_was_fitted_again_is_resumed_from_its_own_checkpoint(begin: Callable[[], Driven]) -> None:
    driven = trained(begin())
    driven.training._take_encoder(driven.learner if fitted(driven) else None)
    driven.start()
    driven.run(driven.loop.updates, {})
    updates, trunk = driven.loop.updates, in_use(driven)
    again = begin()
    again.start()
    assert (again.loop.updates, in_use(again)) == (updates, trunk)
    sees_by_its_own_encoder(again)
    assert len(of_kind(read_rows(RunPaths(again.folder).metrics).rows, FitRow)) == 3


@pytest.mark.usefixtures("here")
def test_a_new_learner_makes_up_for_some_updates_and_an_old_one_for_none_at_a_restart(
    begin: Callable[[], Driven], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_loop, "MADE_UP", 5)
    driven = trained(begin())
    driven.training._take_encoder(driven.learner if fitted(driven) else None)
    driven.start()
    owed = 20 + int(driven.training.parts.settings.config.utd * driven.training.parts.statistics.online_steps)
    assert (driven.loop.updater.learner.updates, driven.loop.updates) == (20 + 5, owed)
    asked = driven.loop.updater.held_out
    monkeypatch.setattr(asked, "before_update", lambda gamma, updates: told.append(updates))
    told = list[int]()
    driven.loop.updater.update()
    assert told == [owed]
    monkeypatch.undo()
    monkeypatch.setattr(update_loop, "MADE_UP", 5)
    name = "000005-online-a"
    driven.begin(name)
    driven.send(name)
    driven.take()
    driven.training.parts.store.flush()
    driven.loop.save(wait=True)
    again = begin()
    again.start()
    assert (again.loop.updater.learner.updates, again.loop.updates) == (20 + 6, owed + 1), "it lags, as before"


@pytest.mark.usefixtures("here")
def test_a_policy_that_nobody_saw_act_is_neither_the_best_nor_good_enough(
    begin: Callable[[], Driven], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_loop, "BEST_OF", 1)
    driven = trained(begin())
    assert not np.isnan(driven.training.parts.statistics.recent_success(1))
    best = RunPaths(driven.folder).policy("best")
    driven.training._take_encoder(driven.learner if fitted(driven) else None)
    before = best.read_bytes()
    driven.start()
    assert np.isnan(driven.training.parts.statistics.recent_success(1))
    assert best.read_bytes() == before
    again = begin()
    again.start()
    assert best.read_bytes() == before, "nor after a restart"


@pytest.mark.usefixtures("here")
def test_a_learner_that_is_stopped_while_it_makes_up_publishes_nothing(begin: Callable[[], Driven]) -> None:
    driven = trained(begin())
    driven.training._take_encoder(driven.learner if fitted(driven) else None)
    again = begin()
    stop, status = threading.Event(), again.training.parts.status
    say = status.say

    def stopping(message: str) -> None:
        say(message)
        if message.startswith("learning from all episodes: step 30"):
            stop.set()

    status.say = stopping  # type: ignore[method-assign]
    with pytest.raises(fitting.Stopped):
        again.training.prepare(stop)
    assert again.training.board.after(0, 0.0) is None
    last = begin()
    last.start()
    sees_by_its_own_encoder(last)


@pytest.mark.usefixtures("here")
def test_nothing_changes_where_nothing_new_has_succeeded(tmp_path: Path) -> None:
    more = (*AT, "encoder.settings.refit_at=[2, 3]")
    driven = trained(Driven(tmp_path / "run", write_run(tmp_path / "run", *more)))
    try:
        driven.training._take_encoder(driven.learner if fitted(driven) else None)
        driven.start()
        driven.begin("000004-online-a")
        driven.send("000004-online-a", end="failure")
        driven.take()
        refitter = TrunkRefitter(driven.training.parts)
        refitter.maybe_start()
        assert refitter._thread is not None
        refitter._thread.join(240.0)
        assert not refitter.ready
        assert not TrunkRefitter(driven.training.parts).ready, "nor after a restart"
        driven.training.parts.store.flush()
        driven.loop.save(wait=True)
        kept = checkpoints(driven)
        finish_adoption(driven.folder)
        assert checkpoints(driven) == kept != []
        thread = refitter._thread
        refitter.maybe_start()
        assert refitter._thread is thread, "done for this time"
    finally:
        driven.close()


@pytest.mark.usefixtures("here")
def test_the_change_waits_for_the_episode_that_runs_but_not_for_a_dead_actor(
    begin: Callable[[], Driven], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(online_training, "BEGUN_WITHIN_S", 0.05)
    driven = trained(begin())
    parts = driven.training.parts
    pause = Pause(parts, TrunkRefitter(parts))
    assert not pause.begun()
    driven.begin("000004-online-a")
    driven.send("000004-online-a", stop=6)
    driven.take()
    pause = Pause(parts, fitted(driven))
    parts.status.enter("training")
    assert not pause.begun()
    assert parts.status.phase == "fitting", "no actor begins another"
    time.sleep(0.1)
    assert not pause.begun()
    driven.send("000004-online-a", start=6)
    driven.take()
    wait(pause.begun, 5.0)
    driven.begin("000005-online-a")
    driven.take()
    assert pause.begun(), "once begun it goes on"
    monkeypatch.setattr(online_training, "SILENT_S", 0.5)
    dead = Pause(parts, fitted(driven))
    assert not dead.begun()
    time.sleep(0.3)
    driven.send("000005-online-a", stop=3)
    driven.take()
    time.sleep(0.3)
    assert not dead.begun(), "steps come"
    wait(dead.begun, 5.0)


def test_several_processes_cannot_change_their_encoder(tmp_path: Path) -> None:
    resolved = write_run(tmp_path / "run", *AT)
    with pytest.raises(ConfigError, match="refit_at is set for a learner in 2 processes"):
        Training(resolved, tmp_path / "run", ranks=Ranks(index=0, count=2))


def test_demonstrations_and_the_newest_successes_are_taken_as_far_as_memory_goes(
    begin: Callable[[], Driven], monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = trained(begin())
    name = "000004-online-a"
    driven.begin(name)
    driven.send(name, end="success")
    driven.say(name, Verdict.SUCCESS)
    driven.take()
    frames = 2 * 16 * 16 * 3 * 13
    refitter = TrunkRefitter(driven.training.parts)
    chosen = []
    for episodes in (4, 3, 1):
        monkeypatch.setattr(refit, "MOST_BYTES", episodes * frames)
        chosen.append([path.stem for path in refitter._job(3).episodes])
    assert chosen == [[*DEMOS, WON, name], [*DEMOS, name], [DEMOS[1]]]


class Killed(BaseException):
    """Where a SIGKILL would have struck."""


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "before", ["note", *(pytest.param(name, marks=pytest.mark.slow) for name in ("clear", "first", "sync")), "replace"]
)
def test_a_learner_killed_while_it_changes_goes_on_with_one_of_the_two(
    begin: Callable[[], Driven], monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    driven = trained(begin())
    first = in_use(driven)
    fitted(driven)

    real = os.replace

    def killed(*_: object, **__: object) -> None:
        raise Killed

    def killed_at_the_end(source: Path, target: Path) -> None:
        if target == RunPaths(driven.folder).trunk:
            raise Killed
        real(source, target)

    with monkeypatch.context() as short:
        target = {
            "note": (refit, "write_json", killed),
            "clear": (refit.CheckpointFolder, "clear", killed),
            "first": (refit, "write_durable", killed),
            "replace": (refit.os, "replace", killed_at_the_end),
            "sync": (refit, "sync_directory", killed),
        }[before]
        short.setattr(*target)
        with pytest.raises(Killed):
            adopt(driven.folder, online_steps=24, params_version=driven.loop.publisher.version)
    again = begin()
    again.start()
    sees_by_its_own_encoder(again)
    if before == "note":
        assert in_use(again) == first
        assert again.loop.updates == 60, "from its checkpoint"
        assert TrunkRefitter(again.training.parts).ready, "the new one is taken as soon as training goes on"
    else:
        assert in_use(again) != first
        assert adopted(again.folder) is not None
        assert not RunPaths(again.folder).next_trunk.exists()


def _child() -> int:
    """The number of the process that fits, once it is there."""
    found: list[int] = []

    def there() -> bool:
        for thread in Path("/proc/self/task").iterdir():
            for number in (thread / "children").read_text().split():
                words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
                if trunk_job.OWN.encode() in words and b"--nice" not in words:
                    found.append(int(number))
        return bool(found)

    wait(there)
    return found[0]


def test_a_fit_that_is_killed_leaves_the_encoder_in_use_and_is_said(begin: Callable[[], Driven]) -> None:
    driven = trained(begin())
    first = in_use(driven)
    refitter = TrunkRefitter(driven.training.parts)
    endless = refitter._job(2).settings.model_copy(update={"steps": 100_000})
    refitter._parts.settings.encoder_config.__dict__["refit_steps"] = endless.steps
    refitter.maybe_start()
    os.kill(_child(), signal.SIGKILL)
    assert refitter._thread is not None
    refitter._thread.join(240.0)
    assert (refitter.ready, in_use(driven)) == (False, first)
    (row,) = of_kind(read_rows(RunPaths(driven.folder).metrics).rows, RefitFailedRow)
    assert (row.of, "ended by signal 9" in row.reason) == ("image encoder", True)
    thread = refitter._thread
    refitter.maybe_start()
    assert refitter._thread is thread, "tried again some episodes later"


def test_a_learner_that_ends_takes_its_fit_along(begin: Callable[[], Driven]) -> None:
    driven = trained(begin())
    refitter = TrunkRefitter(driven.training.parts)
    refitter._parts.settings.encoder_config.__dict__["refit_steps"] = 100_000
    refitter.maybe_start()
    child = _child()
    refitter.stop()
    wait(lambda: not Path(f"/proc/{child}").exists())
    assert not refitter.ready


def test_an_episode_that_is_gone_is_an_error_of_the_fit(begin: Callable[[], Driven], tmp_path: Path) -> None:
    driven = trained(begin())
    job = TrunkRefitter(driven.training.parts)._job(2)
    gone = TrunkJob(
        episodes=(tmp_path / "gone",),
        spec=job.spec,
        settings=job.settings,
        seed=0,
        online=2,
        target=tmp_path / "next.safetensors",
    )
    with pytest.raises((FitError, StoreError), match="gone"):
        fit_elsewhere(gone, threading.Event())
    assert not gone.target.exists()


@pytest.mark.parametrize("at", [[0], [-3], ["soon"]])
def test_a_time_to_fit_again_that_is_none_is_refused(at: list[object]) -> None:
    with pytest.raises(ValidationError, match="refit_at"):
        EmbeddedConfig.model_validate({"refit_at": at})


@pytest.mark.usefixtures("here")
def test_a_whole_run_changes_its_encoder_between_two_episodes(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = {"steps": 5, "batch": 16, "refit_at": [2], "refit_steps": 7}
    training = ASKED["training"] | {"max_episodes": 8}
    encoder = {"name": "embedded", "settings": settings}
    train_online(loaded(tmp_path, SEEN, encoder=encoder, training=training), folder)
    paths = RunPaths(folder)
    rows = read_rows(paths.metrics).rows
    first, changed = (row.online_episodes for row in of_kind(rows, FitRow))
    assert first == 0
    assert 2 <= changed <= 8
    online = [row for row in of_kind(rows, EpisodeRow) if "online" in row.episode_id]
    assert len(online) >= 8
    versions = [row.params_version for row in online]
    assert versions == sorted(versions)
    assert versions[-1] > VERSIONS_PER_LIFE, "the last ones were driven behind the new encoder"
    policy = load_params(paths.policy("policy"))
    assert policy.metadata["trunk"] == fitting.saved_identity(paths.trunk)
    assert policy.metadata["trunk"] != fitting.saved_identity(paths.first_trunk)
    ended = {read_episode(path, images=False).end for path in paths.store.episodes.iterdir()}
    assert EndReason.FAULT not in ended, "the change waited for the episode that ran"
