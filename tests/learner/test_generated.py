"""Sharing out, labelling and the rule of the cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_models.evaluate.judge import CLASSES
from robot_stack.config.resolve import load_run
from robot_stack.learner.reward import synthetic as generated
from robot_stack.learner.reward.synthetic import FULL, SHARES, frames_of, generate, labelled, shared_out
from robot_stack.types.errors import ConfigError
from sim.episodes import GeneratedEpisode
from sim.scripts import KINDS


def synthetic(kind: str, seed: int, frames: int = 5) -> GeneratedEpisode:
    rng = np.random.default_rng(seed)
    success = kind == "success"
    return GeneratedEpisode(
        kind=kind,
        seed=seed,
        text="insert the peg",
        images={"front": rng.integers(0, 256, (frames, 8, 8, 3), np.uint8)},
        proprio=rng.normal(size=(frames, 3)).astype(np.float32),
        actions=np.zeros((frames - 1, 4), np.float32),
        success=success,
        done_at=frames - 1 if success else None,
        progress=np.linspace(0, 1.0 if success else 0.4, frames),
        stages=np.zeros(frames, np.int8),
    )


def test_all_kinds_have_a_share() -> None:
    assert set(SHARES) == set(KINDS)


def test_full_evaluation_can_bound_the_false_dones_below_five_percent() -> None:
    sure = sum(share for kind, share in SHARES.items() if kind not in ("success", "regress_recover", "occlusion"))
    assert sure >= 80
    apart = [kind for kind in SHARES if CLASSES.get(kind) == "apart"]
    assert len(apart) == 4
    assert sum(SHARES[kind] for kind in apart) >= 90
    assert SHARES["success"] >= 20


@given(st.integers(len(SHARES), 400))
def test_shares_add_up_with_at_least_one_of_each(episodes: int) -> None:
    counts = shared_out(episodes)
    assert sum(counts.values()) == episodes
    assert min(counts.values()) >= 1
    assert all(abs(count - SHARES[kind] * episodes / FULL) < 2 for kind, count in counts.items())


def test_fewer_episodes_than_kinds_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be at least 14"):
        shared_out(13)


def test_labels_are_those_of_the_episode_and_the_demonstration_is_shown() -> None:
    demo, episode = synthetic("success", 0, frames=12), synthetic("stall", 1)
    (found,) = labelled([episode], shown=demo)
    assert (found.name, found.kind, found.success, found.done_at) == ("stall-1", "stall", False, None)
    assert len(found.frames) == 5
    np.testing.assert_array_equal(found.frames[3].view("front"), episode.images["front"][3])
    goal = found.instruction.goal
    assert goal is not None
    assert goal.key == frames_of(demo)[-1].key
    assert [frame.key for frame in found.instruction.reference][::10] == [frames_of(demo)[0].key, goal.key]
    assert labelled([episode])[0].instruction.goal is None


def test_task_without_synthetic_episodes_is_refused() -> None:
    resolved = load_run("peg_insert")
    resolved = replace(resolved, task=resolved.task.model_copy(update={"scene": "fold_towel"}))
    with pytest.raises(ConfigError, match="record some instead"):
        generate(resolved, {"success": 1}, seed=(0,))


def test_same_seed_makes_the_same_list_and_another_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    class Maker:
        def make(self, kind: str, seed: int) -> GeneratedEpisode:
            return synthetic(kind, seed)

    class Senses:
        closed = 0

        def close(self) -> None:
            Senses.closed += 1

    monkeypatch.setattr(generated, "build_maker", lambda resolved: (Maker(), Senses()))
    told: list[tuple[int, int]] = []

    def names(seed: Sequence[int]) -> list[str]:
        return [
            episode.name
            for episode in generate(
                load_run("peg_insert"),
                {"success": 2, "drop": 1},
                seed=seed,
                on_episode=lambda n, of: told.append((n, of)),
            )
        ]

    one = names((0, 1))
    assert one == names((0, 1))
    assert one != names((0, 2))
    assert [name.split("-")[0] for name in one] == ["success", "success", "drop"]
    assert told[:3] == [(1, 3), (2, 3), (3, 3)]
    assert Senses.closed == 3
