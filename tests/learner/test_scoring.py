"""Live scores reach every reader in order, and a new model scores whole episodes."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from reward_models.progress.model import FrameScores
from robot_stack.config.resolve import load_run
from robot_stack.config.task import GateCondition, NOfM, SuccessConfig
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.reward.success import SuccessRule, success_rule
from tests.learner.bench import RULE, SPEC, FakeModel, make_scorer

PROPRIO = np.zeros((1, SPEC.proprio_size), np.float32)


def _frames(scorer: Scorer, episode_id: str, count: int) -> None:
    scorer.add(episode_id, np.zeros((count, 5), np.float32), np.repeat(PROPRIO, count, axis=0))


def _adopt(scorer: Scorer, model: FakeModel, episode_ids: list[str]) -> list[object]:
    return list(scorer.adopt(model, episode_ids))  # type: ignore[arg-type]


def test_only_new_frames_are_scored_live() -> None:
    scorer, model = make_scorer(), FakeModel("m")
    _adopt(scorer, model, [])
    for count in (2, 3):
        _frames(scorer, "e", count)
        scorer.score_live("e")
    assert model.asked == [(2, 0), (5, 2)]
    cursor, scores = scorer.after(0, 0.0)
    assert [s.index for s in scores] == [0, 1, 2, 3, 4]
    assert cursor == 5
    assert scorer.after(cursor, 0.0) == (5, [])


def test_late_reader_gets_what_is_kept_and_goes_on_from_its_cursor() -> None:
    scorer = make_scorer()
    _adopt(scorer, FakeModel("m"), [])
    for _ in range(3000):
        _frames(scorer, "e", 1)
    scorer.score_live("e")
    cursor, scores = scorer.after(0, 0.0)
    assert cursor == 3000
    assert scores[-1].index == 2999
    assert [s.index for s in scores] == list(range(3000 - len(scores), 3000))
    _frames(scorer, "e", 2)
    scorer.score_live("e")
    cursor, scores = scorer.after(cursor, 0.0)
    assert [s.index for s in scores] == [3000, 3001]
    assert cursor == 3002


def test_reader_is_woken_by_the_next_score() -> None:
    scorer, got = make_scorer(), []
    _adopt(scorer, FakeModel("m"), [])
    reader = threading.Thread(target=lambda: got.append(scorer.after(0, 30.0)))
    reader.start()
    _frames(scorer, "e", 1)
    scorer.score_live("e")
    reader.join(30.0)
    assert [(cursor, len(scores)) for cursor, scores in got] == [(1, 1)]


def test_without_a_model_nothing_is_scored() -> None:
    scorer = make_scorer()
    _frames(scorer, "e", 3)
    scorer.score_live("e")
    assert scorer.version == ""
    assert scorer.finish("e") is None
    assert scorer.after(0, 0.0) == (0, [])


def test_new_model_scores_whole_episodes_it_has_the_frames_of() -> None:
    scorer, new = make_scorer(), FakeModel("m2")
    _adopt(scorer, FakeModel("m1"), [])
    _frames(scorer, "e", 4)
    scorer.score_live("e")
    (scores,) = scorer.adopt(new, ["e", "never-seen"])  # type: ignore[arg-type]
    assert (scores.episode_id, scores.version, len(scores.progress)) == ("e", "m2", 4)
    assert new.asked == [(4, 0)]
    assert scorer.version == "m2"
    finished = scorer.finish("e")
    assert finished is not None
    assert finished.version == "m2"


class TornModel(FakeModel):
    """Its members agree on the first two frames only."""

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        scores = super().score(frames, start)
        return scores._replace(spread=np.where(np.arange(start, len(frames)) < 2, 0, 1).astype(np.float32))


def test_the_gate_holds_back_what_shapes_the_reward_and_not_what_is_shown() -> None:
    gated = Scorer(lambda: SuccessRule(RULE, SPEC), gate=20.0)
    free = make_scorer()
    for scorer in (gated, free):
        _adopt(scorer, TornModel("torn"), [])
        _frames(scorer, "e", 5)
        scorer.score_live("e")
        _, live = scorer.after(0, 0.0)
        assert [round(s.progress, 2) for s in live] == [0.0, 0.01, 0.02, 0.03, 0.04]
    held, followed = gated.finish("e"), free.finish("e")
    assert held is not None
    assert followed is not None
    assert held.progress.tolist() == pytest.approx([0.0, 0.01, 0.01, 0.01, 0.01], abs=1e-6)
    assert followed.progress.tolist() == pytest.approx([0.0, 0.01, 0.02, 0.03, 0.04], abs=1e-6)


def test_success_is_declared_per_episode_and_latched() -> None:
    scorer, model = make_scorer(), FakeModel("m", success=0.9)
    _adopt(scorer, model, [])
    _frames(scorer, "one", 3)
    scorer.score_live("one")
    model.success = 0.0
    _frames(scorer, "one", 1)
    _frames(scorer, "two", 3)
    scorer.score_live("one")
    scorer.score_live("two")
    _, scores = scorer.after(0, 0.0)
    assert [s.declared for s in scores if s.episode_id == "one"] == [False, True, True, True]
    assert not any(s.declared for s in scores if s.episode_id == "two")


def _declared(rule: SuccessRule, successes: list[float], force: float = 0.0) -> list[bool]:
    proprio = PROPRIO[0].copy()
    proprio[6] = force
    return [rule.update(p, proprio) for p in successes]


def test_rule_wants_n_hits_of_the_last_m() -> None:
    rule = SuccessRule(RULE, SPEC)
    assert _declared(rule, [0.9, 0.1, 0.1, 0.9, 0.1, 0.9]) == [False] * 5 + [True]


def test_rule_latches() -> None:
    assert _declared(SuccessRule(RULE, SPEC), [0.9, 0.9, 0.0, 0.0, 0.0])[-1]


def test_threshold_itself_is_a_hit_and_nan_never_is() -> None:
    assert _declared(SuccessRule(RULE, SPEC), [RULE.threshold] * 2)[-1]
    assert not any(_declared(SuccessRule(RULE, SPEC), [float("nan")] * 9))


@pytest.mark.parametrize(("force", "declared"), [(4.9, False), (5.0, True), (6.0, True), (6.1, False)])
def test_gate_must_hold_too(force: float, declared: bool) -> None:
    config = SuccessConfig(threshold=0.5, n_of_m=NOfM(n=1, m=1), gate={"force": GateCondition(min=(5.0,), max=(6.0,))})
    assert _declared(SuccessRule(config, SPEC), [0.9], force) == [declared]


def test_gate_leaves_entries_without_a_bound_alone() -> None:
    config = SuccessConfig(
        threshold=0.5,
        n_of_m=NOfM(n=1, m=1),
        gate={"tcp_pose": GateCondition(min=(None, None, 0.1, None, None, None))},
    )
    proprio = PROPRIO[0].copy()
    proprio[0] = -9.0
    assert not SuccessRule(config, SPEC).update(0.9, proprio)
    proprio[2] = 0.2
    assert SuccessRule(config, SPEC).update(0.9, proprio)


def test_the_way_back_has_a_rule_of_its_own() -> None:
    task = load_run("peg_in_and_out").task
    spec = load_run("peg_in_and_out").spec()
    at, pose = spec.part("direction").start, spec.part("tcp_pose").start + 2

    def declared(direction: float, down_m: float) -> bool:
        rule, proprio = success_rule(task, spec), np.zeros(spec.proprio_size, np.float32)
        proprio[at], proprio[pose] = direction, down_m
        return [rule.update(0.9, proprio) for _ in range(3)][-1]

    assert declared(1.0, 0.07)
    assert not declared(1.0, -0.07)
    assert declared(-1.0, -0.07)
    assert not declared(-1.0, 0.07)
