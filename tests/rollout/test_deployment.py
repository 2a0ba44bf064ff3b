"""A saved policy on a cell: recorded, never trained on, judged by who can tell."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from reward_models.metrics import wilson_interval
from robot_stack.config.resolve import load_run
from robot_stack.console.verdicts import operator_label
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.rollout import deploy as deploying
from robot_stack.rollout.deploy import DEPLOYED, deploy, in_words, succeeded
from robot_stack.types.command import Source
from robot_stack.types.errors import RewardError
from robot_stack.types.event import Label, Verdict
from robot_stack.types.params import Params
from robot_stack.types.reward import LiveScore
from robot_stack.types.transition import EndReason, EpisodeKind
from robot_stack.workcell.build import build_local_cell
from tests.rollout.outcomes import outcome
from tests.rollout.test_judged import SaysSo

pytestmark = pytest.mark.long

PARAMS = Params(version=3, tensors={}, sha256="", metadata={})


class Still:
    """A policy that does nothing."""

    version, age_s = 3, 0.0

    def __init__(self, resolved, params, *, seed) -> None:
        self._size = resolved.spec().action_size

    def begin_episode(self) -> None:
        pass

    def act(self, observation, *, deterministic, interrupted=False) -> np.ndarray:
        assert deterministic
        return np.zeros(self._size, np.float32)


def test_every_episode_is_recorded_as_an_evaluation_and_counted(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(deploying, "policy_of", Still)
    resolved = load_run("peg_insert", ["task.episode_steps=5"])
    said: list[str] = []
    for _ in range(2):
        cell = build_local_cell(resolved, seed=0)
        with EpisodeStore(tmp_path, resolved.spec(), resolved.task.name) as store:
            told = deploy(
                resolved, PARAMS, cell, cell, store, episodes=2, stop=threading.Event(), say=said.append
            )  # fmt: skip
            assert told.successes == [False, False]
            recorded = [store.read(name, images=False) for name in store.episodes]
    assert [episode.header.kind for episode in recorded] == [EpisodeKind.EVAL] * 4
    assert {episode.header.actor for episode in recorded} == {DEPLOYED}
    assert all((episode.arrays["params_version"] == 3).all() for episode in recorded)
    assert len({episode.header.seed for episode in recorded}) == 4
    assert said[0].startswith("000000-eval-deployed: timeout, 0.5 s")


class InTheHandFor:
    """A cell in which an operator has the arm in the first episode; everything else is the real one's."""

    def __init__(self, cell) -> None:
        self._cell = cell
        self._starts = 0

    def __getattr__(self, name: str):
        return getattr(self._cell, name)

    def start(self, *about) -> None:
        self._starts += 1
        self._cell.start(*about)

    def executed(self):
        windows = self._cell.executed()
        if self._starts > 1:
            return windows
        return {arm: replace(window, source=Source.HUMAN) for arm, window in windows.items()}

    def truth(self) -> None:
        """Nobody knows, as on a robot."""


def test_what_operators_say_and_do_is_counted_apart(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(deploying, "policy_of", Still)
    resolved = load_run("peg_insert", ["task.episode_steps=5"])
    ids = [f"{number:06d}-eval-deployed" for number in range(4)]
    words = [Verdict.SUCCESS, Verdict.DISCARD, Verdict.SUCCESS, Verdict.FAILURE]

    def said(final: bool) -> list[Label]:
        given = list(zip(ids, words))[: None if final else 3]
        return [operator_label(name, word, 2e9) for name, word in given]

    cell = build_local_cell(resolved, seed=0)
    with EpisodeStore(tmp_path, resolved.spec(), resolved.task.name) as store:
        told = deploy(
            resolved, PARAMS, InTheHandFor(cell), cell, store, episodes=3, stop=threading.Event(),
            say=lambda text: None, said=said,
        )  # fmt: skip
        assert list(store.episodes) == ids, "what was discarded is run anew"
        assert [(label.episode_id, label.verdict) for label in store.labels] == list(zip(ids, words))
    summary = told.summary()
    assert (summary["episodes"], summary["success"], summary["discarded"]) == (3, 2, 1)
    assert (summary["helped"]["episodes"], summary["helped"]["success"]) == (1, 1)
    alone = summary["alone"]
    assert (alone["episodes"], alone["success"]) == (2, 1)
    assert in_words(told) == (
        "by itself 1 of 2 succeeded (95 % interval 9 to 91 %); with an operator's help 1 of 1; 1 discarded"
    )
    assert alone["wilson95"] == [round(end, 4) for end in wilson_interval(1, 2)]


def test_what_was_counted_before_the_success_model_broke_is_kept(tmp_path, monkeypatch) -> None:
    class Breaks(SaysSo):
        def newest(self, episode_id: str) -> LiveScore | None:
            if len(self.begun) == 2 and len(self.seen) == 2:
                raise RewardError("the success model failed")
            return super().newest(episode_id)

    monkeypatch.setattr(deploying, "policy_of", Still)
    resolved = load_run("peg_insert", ["task.episode_steps=5"])
    said: list[str] = []
    cell = build_local_cell(resolved, seed=0)
    with EpisodeStore(tmp_path, resolved.spec(), resolved.task.name) as store:
        told = deploy(
            resolved, PARAMS, cell, cell, store, episodes=3, stop=threading.Event(), say=said.append,
            judge=Breaks(after=3),
        )  # fmt: skip
    assert told.broken
    assert told.successes == [False]
    assert [one.declared for one in told.judged] == [True]
    assert said[0].startswith("000000-eval-deployed: no success, though the success model said so")
    assert said[1] == "deployment ends here: the success model failed"
    with EpisodeStore(tmp_path, resolved.spec(), resolved.task.name) as store:
        assert store.unfinished == ()
        assert [store.read(name, images=False).end for name in store.episodes] == [EndReason.SUCCESS, EndReason.FAULT]


def test_an_episode_that_a_killed_deployment_left_open_is_closed_at_the_next_start(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(deploying, "policy_of", Still)
    resolved = load_run("peg_insert", ["task.episode_steps=5"])
    cell = build_local_cell(resolved, seed=0)

    def deployed(store: EpisodeStore) -> None:
        deploy(resolved, PARAMS, cell, cell, store, episodes=1, stop=threading.Event(), say=lambda _: None)

    with EpisodeStore(tmp_path, resolved.spec(), resolved.task.name) as store:
        deployed(store)
        whole = store.read(store.episodes[0])
        killed = replace(whole.header, episode_id="000001-eval-deployed")
        store.begin(killed)
        for step in list(whole.steps())[:3]:
            store.append(replace(step, episode_id=killed.episode_id))
        store.begin(replace(killed, episode_id="000002-eval-deployed"))  # and one whose cell did not start
    with EpisodeStore(tmp_path, resolved.spec(), resolved.task.name) as store:
        deployed(store)
        assert store.unfinished == ()
        assert store.episodes == ("000000-eval-deployed", "000001-eval-deployed", "000002-eval-deployed")
        cut, fresh = (store.read(name, images=False) for name in store.episodes[1:])
    assert (cut.end, cut.length) == (EndReason.FAULT, 2)
    assert (fresh.end, fresh.length) == (EndReason.TIMEOUT, 5)


@pytest.mark.parametrize(
    ("told", "success"),
    [
        (outcome(truth=True, operator=Verdict.FAILURE), True),
        (outcome(truth=False, end=EndReason.SUCCESS), False),
        (outcome(operator=Verdict.SUCCESS), True),
        (outcome(operator=Verdict.FAILURE, end=EndReason.SUCCESS), False),
        (outcome(end=EndReason.SUCCESS), True),
        (outcome(), False),
    ],
)
def test_success_is_the_simulators_word_else_the_persons_else_the_ending(told, success) -> None:
    assert succeeded(told) is success
