"""Whole runs with a base: it acts by itself, what it proposed is on disk, and its correction is learned."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.learning.lockstep import train_online
from robot_stack.cli.main import main
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.rollout.actor import seed_of_start
from robot_stack.rollout.asking.asker import Asker
from robot_stack.rollout.base.cell import with_base
from robot_stack.rollout.control_loop import ControlLoop, LoopLimits
from robot_stack.rollout.deploy import deploy
from robot_stack.rollout.episode_runner import episode_id
from robot_stack.rollout.evaluate import evaluate
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.paths import RunPaths
from robot_stack.types.command import Source
from robot_stack.types.errors import ConfigError, RobotError, SpecError, StoreError
from robot_stack.types.help import HelpEnd
from robot_stack.types.params import Params
from robot_stack.types.spec import BASE, BASE_NOISE, BASE_TICKS
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind
from robot_stack.workcell.build import build_local_cell
from tests.base.small_base import actions, base_that
from tests.benchmarks.test_evidence_runs import TINY
from tests.reward_models.bad_server import Server, status
from tests.rollout.asking.test_help_in_a_cell import Circles
from tests.rollout.asking.test_help_in_the_loop import StuckScores
from tests.rollout.fake_cell import ListSink

pytestmark = pytest.mark.long

DOWN = [[0.25, 0.0, 0.5, 0.0]] * 8
"""Sideways and down in the tool's frame, at a quarter and at half the speed."""
AWAY = [[0.25, 0.0, -0.5, 0.0]] * 8
ONE_EPISODE = ("training.max_episodes=1", "training.max_robot_minutes=0.1", "algorithm.settings.utd=0.5")


def served(url: str, more: Sequence[str] = (), **change: Any) -> ResolvedRun:
    words = {"rate_hz": 10, "state": ["tcp_pose"], "start_s": 0.5, "timeout_s": 0.5} | change
    names = {"cameras": {"front": "top"}, "action": ["fr3.x", "fr3.y", "fr3.z", "fr3.rz"]}
    base = {"kind": "http", "url": url, **names, **words}
    return load_run("peg_insert", ["task.episode_steps=12", f"run.base={json.dumps(base)}", *more])


@pytest.fixture(scope="module")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run of flow_bc, whose policy plays chunks; it is no good."""
    folder = tmp_path_factory.mktemp("base") / "cloned"
    few = [word for word in TINY if "algorithm" not in word]
    small = ["algorithm.name=flow_bc", "algorithm.settings={pretrain_updates: 20, hidden: [32, 32], head: 8}"]
    train_online(load_run("peg_insert", [*few, *small, *ONE_EPISODE[:2]]), folder)
    return folder


def executed(resolved: ResolvedRun, params: Params | None, folder: Path) -> np.ndarray:
    """Deploy for two episodes; return what was executed."""
    cell = build_local_cell(resolved, seed=0)
    with (
        EpisodeStore(folder, resolved.spec(), resolved.task.name) as store,
        with_base(resolved, cell, waits=True) as based,
    ):
        deploy(resolved, params, based, cell, store, episodes=2, stop=threading.Event(), say=lambda _: None)
        return np.concatenate([store.read(name, images=False).arrays["executed"] for name in store.episodes])


def on_saved(folder: Path, *words: str) -> ResolvedRun:
    base = f"run.base={{kind: saved, policy: '{RunPaths(folder).policy('policy')}'}}"
    few = [word for word in TINY if "algorithm" not in word]
    return load_run("peg_insert", [*few, base, *words])


@pytest.mark.slow
def test_a_saved_base_by_itself_does_what_its_policy_does(cloned: Path, tmp_path: Path) -> None:
    params = load_params(RunPaths(cloned).policy("policy"))
    few = [word for word in TINY if "algorithm" not in word]
    itself = executed(load_run("peg_insert", few), params, tmp_path / "itself")
    based = executed(on_saved(cloned), None, tmp_path / "based")
    assert len(itself) > 40
    assert itself.std(0).min() > 0
    np.testing.assert_array_equal(based, itself)


def test_its_correction_is_learned_from_what_was_proposed(cloned: Path, tmp_path: Path) -> None:
    small = "algorithm.settings={pretrain_updates: 10, batch_size: 16, hidden: [32, 32], head: 8}"
    resolved = on_saved(cloned, "algorithm.name=residual_on_base", small, *ONE_EPISODE)
    train_online(resolved, tmp_path)
    spec = resolved.spec()
    entries = spec.part(BASE)
    with EpisodeStore(RunPaths(tmp_path).store.root, spec, resolved.task.name) as store:
        whole = {name: store.read(name, images=False) for name in store.episodes}
    online = [episode for name, episode in whole.items() if "online" in name]
    assert len(whole) >= 3
    assert online
    for episode in whole.values():
        proposals = episode.arrays["proprio"][:, entries]
        assert np.isfinite(proposals).all()
        assert np.abs(proposals).max() <= 1.0
        assert proposals.std(0).min() > 0  # in demonstrations too
    corrected = np.concatenate([e.arrays["proposed"] - e.arrays["proprio"][:-1, entries] for e in online])
    assert 0 < np.abs(corrected).max() <= 0.4 + 1e-5  # residual_scale
    params = load_params(RunPaths(tmp_path).policy("policy"))
    assert params.metadata["algorithm"] == "residual_on_base"
    assert len(evaluate(resolved, params, 1).successes) == 1


def leans(handler: Any, body: dict[str, Any]) -> None:
    """A base whose chunk goes sideways by the first number of its noise, in tenths, and down."""
    aside = max(-1.0, min(1.0, body["noise"][0] / 10))
    handler.reply(200, json.dumps({"actions": [[aside, 0.0, 0.5, 0.0]] * 8}).encode())


@pytest.mark.slow
def test_no_two_actors_nor_two_starts_of_one_begin_with_the_same_noise(tmp_path: Path) -> None:
    """Nobody chooses it while operators demonstrate."""
    with Server(base_that(leans, info={"noise": 2})) as server:
        resolved = served(server.url, noise=2, every_s=0.3, join_s=0)
        entries = resolved.spec().part(BASE_NOISE)

        def first(seed: tuple[int, ...]) -> tuple[float, ...]:
            cell = build_local_cell(resolved, seed=0)
            try:
                with with_base(resolved, cell, waits=True, seed=seed) as based:
                    based.reset(0)
                    observation = based.observe()
                    assert observation is not None
                    return tuple(observation.proprio[entries])
            finally:
                cell.close()

        one, other = (seed_of_start(resolved, tmp_path, actor) for actor in ("a", "b"))
        (tmp_path / "a.next").write_text("7")
        later = seed_of_start(resolved, tmp_path, "a")
        drawn = [first(seed) for seed in (one, other, later, one)]
    assert len(set(drawn)) == 3
    assert drawn[3] == drawn[0]


def test_its_noise_is_learned_from_what_it_made_of_which(tmp_path: Path) -> None:
    settings = "algorithm.settings={batch_size: 16, hidden: [32, 32], head: 8}"
    words = ["algorithm.name=dsrl_on_base", settings, *ONE_EPISODE[1:2], "training.max_episodes=3"]
    few = [word for word in TINY if "algorithm" not in word]
    with Server(base_that(leans, info={"noise": 2})) as server:
        resolved = served(server.url, [*few, *(f"run.{word}" for word in words)], noise=2, every_s=0.3, join_s=0)
        train_online(resolved, tmp_path)
        spec = resolved.spec()
        params = load_params(RunPaths(tmp_path).policy("policy"))
        assert params.metadata["algorithm"] == "dsrl_on_base"
        assert len(evaluate(resolved, params, 1).successes) == 1
    with EpisodeStore(RunPaths(tmp_path).store.root, spec, resolved.task.name) as store:
        whole = {name: store.read(name, images=False).arrays for name in store.episodes}
    noise, ticks, proposal = (spec.part(name) for name in (BASE_NOISE, BASE_TICKS, BASE))
    online = [arrays for name, arrays in whole.items() if "online" in name]
    assert len(online) > 1
    assert len(whole) > 3
    for arrays in whole.values():
        proprio = arrays["proprio"]
        np.testing.assert_allclose(proprio[:, proposal][:, 0], np.clip(proprio[:, noise][:, 0] / 10, -1, 1), atol=1e-6)
        changed = (np.diff(proprio[:, noise], axis=0) != 0).any(axis=1)
        counted = [0]  # anew with each chunk, whose first tick says how long the one before played
        for new in changed:
            counted.append(-(max(counted[-1], 0) + 1) if new else max(counted[-1], 0) + 1)
        np.testing.assert_array_equal(proprio[:, ticks][:, 0], counted)
    for arrays in online:
        np.testing.assert_array_equal(arrays["proposed"], arrays["proprio"][:-1, proposal])  # what acts is the base
        assert np.abs(arrays["proprio"][2:, noise]).max() <= 1.5  # chosen: noise_bound
    demos = np.concatenate([arrays["proprio"][:, noise] for name, arrays in whole.items() if "demo" in name])
    assert np.abs(demos).max() > 1.5  # drawn: nobody chooses
    rows = [json.loads(line) for line in RunPaths(tmp_path).metrics.read_text().splitlines()]
    known = [row["noise_known"] for row in rows if row["kind"] == "update"]
    assert known
    assert 0 < known[-1] < 1  # of corrections and of what acted by itself, not of demonstrations


def test_what_a_server_says_moves_the_arm_and_is_recorded(tmp_path: Path) -> None:
    with Server(base_that(actions(DOWN), info={})) as server:
        resolved = served(server.url)
        cell = build_local_cell(resolved, seed=0)
        with (
            EpisodeStore(tmp_path, resolved.spec(), resolved.task.name) as store,
            with_base(resolved, cell, waits=True) as based,
        ):
            told = deploy(resolved, None, based, cell, store, episodes=1, stop=threading.Event(), say=lambda _: None)
            (episode,) = [store.read(name, images=False) for name in store.episodes]
    assert told.successes == [False]
    proposals = episode.arrays["proprio"][:, resolved.spec().part(BASE)]
    np.testing.assert_allclose(proposals, [DOWN[0]] * 13, rtol=1e-6)
    np.testing.assert_allclose(episode.arrays["executed"][4:], [DOWN[0]] * 8, atol=0.02)
    pose = episode.arrays["proprio"][:, resolved.spec().part("tcp_pose")]
    assert 0.02 < np.linalg.norm(pose[-1, :3] - pose[0, :3]) < 0.08
    body = server.bodies[1]
    np.testing.assert_allclose(body["state"], pose[0], atol=1e-5)
    assert body["text"] == resolved.task.text
    assert body["images"]["top"]["shape"] == list(next(c.shape for c in resolved.spec().cameras if c.name == "front"))


def test_one_that_dies_in_an_episode_ends_it_as_a_fault_by_name_and_nothing_recorded_is_lost(tmp_path: Path) -> None:
    said: list[str] = []
    good = base_that(actions(DOWN[:3]), info={})
    with Server(good, good, good, base_that(status(500, "out of memory"), info={})) as server:
        resolved = served(server.url)
        cell = build_local_cell(resolved, seed=0)
        with (
            EpisodeStore(tmp_path, resolved.spec(), resolved.task.name) as store,
            with_base(resolved, cell, waits=True) as based,
        ):
            deploy(resolved, None, based, cell, store, episodes=1, stop=threading.Event(), say=said.append)
            (episode,) = [store.read(name, images=False) for name in store.episodes]
    assert re.fullmatch(
        r"000000-eval-deployed: fault: base at .*/chunk answers with status 500.*memory, 0\.\d s", said[0]
    )
    assert episode.end is EndReason.FAULT
    assert episode.length >= 3
    np.testing.assert_allclose(episode.arrays["proprio"][:, resolved.spec().part(BASE)], DOWN[: episode.length + 1])


def test_a_base_that_does_not_fit_is_refused_before_anything_moves(cloned: Path, tmp_path: Path) -> None:
    with (
        Server(base_that(actions(DOWN), info={"cameras": ["left"], "actions": 7})) as server,
        pytest.raises(ConfigError, match=r"must show \['left'\](.|\n)*must have 7"),
    ):
        evaluate(served(server.url), None, 1)
    with pytest.raises(RobotError, match=r"base at http://127\.0\.0\.1:1/info does not answer"):
        evaluate(served("http://127.0.0.1:1"), None, 1)
    with (
        Server(base_that(status(500, "out of memory"), info={})) as server,
        pytest.raises(RobotError, match=r"no episode begins without the base policy: .*out of memory"),
    ):
        evaluate(served(server.url), None, 1)
    for other in ("task.arm.translation_m=0.002", "task.arm.axes=[x, y, z, ry]", "run.rate_hz=8"):
        with pytest.raises(SpecError, match=r"spec of the base .* is another one, must be that of this cell"):
            evaluate(on_saved(cloned, other), None, 1)
    (tmp_path / "none").write_bytes(b"no policy at all")
    with pytest.raises(StoreError, match=r"policy .* is unreadable"):
        evaluate(load_run("peg_insert", [f"run.base={{kind: saved, policy: '{tmp_path}/none'}}"]), None, 1)


def test_a_run_that_was_never_started_is_evaluated_with_its_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with Server(base_that(actions(DOWN), info={})) as server:
        mine = tmp_path / "mine.yaml"
        mine.write_text(
            "cell: sim\ntask: peg_insert\nseed: 0\nrate_hz: 10\nalgorithm: {name: residual_on_base}\n"
            "reward: {name: progress, settings: {labels: distance}}\n"
            "training: {demos: 6, max_episodes: 5, max_robot_minutes: 1, eval_episodes: 2}\n"
            f"base: {{kind: http, url: '{server.url}', cameras: {{front: top}}, state: [tcp_pose], rate_hz: 10,\n"
            "  action: [fr3.x, fr3.y, fr3.z, fr3.rz]}\n"
        )
        assert main(["eval", str(mine), "--policy", "base", "--episodes", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"] == "base"
    assert main(["eval", "peg_insert", "--policy", "base", "--episodes", "1"]) == 1
    assert "run peg_insert has no base policy; add base: to its file" in capsys.readouterr().err


def test_a_served_base_leads_until_the_operator_who_was_called_has_come(tmp_path: Path) -> None:
    words = ["cell.teleop=scripted_on_request", "teleop.operator.reaction_s=1.5", "run.asking={base_after_s: 0.3}"]
    with Server(base_that(actions(AWAY), info={})) as server:
        resolved = served(server.url, words)
        asking = resolved.run.asking
        assert asking is not None
        cell = build_local_cell(resolved, seed=0)
        with with_base(resolved, cell, waits=True) as based:
            spec = resolved.spec()
            loop = ControlLoop(based, spec, cell, LoopLimits(episode_steps=80), Asker(asking, spec.period_s))
            kind, sink = EpisodeKind.ONLINE, ListSink()
            header = EpisodeHeader(
                episode_id=episode_id(1, kind, "a"), kind=kind, task="peg_insert", actor="a", started_unix_s=0.0, seed=3
            )
            outcome = loop.run_episode(header, Circles(), sink, scores=StuckScores())
    assert outcome.help is not None
    request = outcome.help.requests[0]
    assert request.end is HelpEnd.TAKEN
    assert request.base_s >= 0.5
    rows = [step.action for step in sink.steps if step.action is not None]
    first = round((request.asked_s + request.open_s - request.base_s) / spec.period_s)
    led = rows[first + 1 : next(i for i, row in enumerate(rows) if row.source is Source.HUMAN)]
    assert len(led) >= 5
    assert all(row.source is Source.POLICY for row in led)
    np.testing.assert_allclose([row.proposed for row in led], [AWAY[0]] * len(led), rtol=1e-6)
    np.testing.assert_allclose([row.executed for row in led[3:]], [AWAY[0]] * len(led[3:]), atol=0.02)
