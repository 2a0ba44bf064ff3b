"""A reward model is judged where the scene is another, and whether its run would notice stands beside."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from policies.encoders.embedded import EmbeddedTrunk
from reward_models.alarms import AlarmConfig
from reward_models.evaluate.estimate import UNKNOWN, Estimate, Rate
from reward_models.interface import ClipQuery, OtherWords
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.data.training_data import reward_inputs
from robot_stack.learner.fitting import fit_reward, image_shapes
from robot_stack.learner.reward import generalisation
from robot_stack.learner.reward.embedded import EmbeddedModel
from robot_stack.learner.reward.evaluation import GeneratedModel
from robot_stack.learner.reward.generalisation import (
    OTHER_WORDS,
    PARAPHRASE,
    Generalised,
    SceneMonitor,
    evaluate_generalisation,
)
from robot_stack.learner.reward.synthetic import SHARES, build_maker, frames_of
from robot_stack.types.errors import ConfigError, RewardError
from robot_stack.workcell.variations import rows
from sim.episodes import GeneratedEpisode
from sim.randomise import KEY, RandomiseConfig
from sim.scripts import KINDS
from sim.world import UnstableScene, World
from tests.reward_models.watermarked import Watermark

TEXT = load_run("peg_insert").task.text


def resolve(words: Sequence[str]) -> ResolvedRun:
    return load_run("peg_insert", list(words))


def synthetic(resolved: ResolvedRun, counts: Mapping[str, int], **_: Any) -> list[GeneratedEpisode]:
    """Return episodes whose first pixel says how far they are, a factor of the light of it in a scene that varies."""
    varying = resolved.section(f"task.sim.{KEY}", RandomiseConfig).varying
    share = 0.5 if "light" in varying else 1.0
    made = []
    for kind, count in counts.items():
        won = KINDS[kind].success is not False and kind not in ("mismatch", "invisible")
        for seed in range(count):
            progress = np.minimum(np.linspace(0.0, 1.3, 12), 1.0 if won else 0.4)
            image = np.zeros((12, 8, 8, 3), np.uint8)
            image[:, 0, 0, 0] = np.round(255 * share * progress)
            proprio = np.zeros((12, resolved.spec().proprio_size), np.float32)
            proprio[:, 2] = 1.0  # down in the hole
            made.append(
                GeneratedEpisode(
                    kind=kind, seed=seed, text=TEXT, images={"front": image, "wrist": image}, proprio=proprio,
                    actions=np.zeros((11, resolved.spec().action_size), np.float32), success=won,
                    done_at=int((progress >= 1.0).argmax()) if won else None, progress=progress,
                    stages=np.zeros(12, np.int8),
                )
            )  # fmt: skip
    return made


def reads(query: ClipQuery) -> float:
    if query.instruction.text != TEXT:
        raise OtherWords("reads no language")
    return float(query.frames[-1].view("front")[0, 0, 0]) / 255


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[str, Generalised]:
    def model(resolved: ResolvedRun, **_: Any) -> GeneratedModel:
        demos = synthetic(resolved, {"success": 2})
        return GeneratedModel(model=Watermark(reads), demos=demos, large=False, every=1, fit_s=0.0)

    monkeypatch.setattr(generalisation, "generate", synthetic)
    monkeypatch.setattr(generalisation, "generated_model", model)
    episodes = 2 * len(SHARES)
    about, rows_of = evaluate_generalisation(resolve, wanted=None, episodes=episodes, seed=0, say=lambda *_: None)
    assert about.model.name == "watermark"
    return dict(rows_of)


@pytest.mark.long
def test_every_held_out_range_has_a_row_with_the_scene_as_shown_first(table: dict[str, Generalised]) -> None:
    first, *others = rows(resolve(()))
    assert list(table) == [first, PARAPHRASE, *others]
    assert table["none"].varied == "as in training"
    assert table["table"].varied == "a table of 0.3 times the brightness"


@pytest.mark.long
def test_a_factor_that_fools_a_model_shows_in_its_row_alone(table: dict[str, Generalised]) -> None:
    plain, dim = table["none"], table["light"]
    assert plain.mae.value == pytest.approx(0.0, abs=0.01)
    assert (plain.missed.count, plain.false_done.count, plain.holds) == (0, 0, True)
    assert dim.mae.value > 0.2
    assert dim.missed.count == dim.missed.n > 0
    assert table["mass"].mae.value == plain.mae.value


@pytest.mark.long
def test_other_words_are_refused_by_a_model_that_reads_none(table: dict[str, Generalised]) -> None:
    told = table[PARAPHRASE]
    assert OTHER_WORDS in told.varied
    assert told.refused > 0
    assert (told.why, told.holds, told.missed.n) == ("reads no language", None, 0)
    assert json.loads(json.dumps(told.document()))["mae"]["value"] is None
    assert table["none"].refused == 0


@pytest.mark.long
def test_a_model_that_is_not_watched_has_no_alarms_to_tell_of(table: dict[str, Generalised]) -> None:
    assert {row.alarms for row in table.values()} == {None}


@pytest.mark.parametrize(
    ("voc", "false", "holds"), [(0.86, 2, True), (0.84, 0, False), (0.99, 3, False), (float("nan"), 0, False)]
)
def test_what_must_hold_is_order_and_no_false_success(voc: float, false: int, holds: bool) -> None:
    row = Generalised(
        varied="", voc=Estimate(value=voc, low=voc, high=voc, n=5), mae=UNKNOWN, auc=UNKNOWN,
        false_done=Rate.of(false, 100), missed=Rate.of(0, 5), alarms=(), refused=0, why="",
    )  # fmt: skip
    assert row.holds is holds


def test_a_model_that_can_be_asked_about_nothing_makes_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(query: ClipQuery) -> float:
        raise RewardError("server is gone")

    def model(resolved: ResolvedRun, **_: Any) -> GeneratedModel:
        demos = synthetic(resolved, {"success": 2})
        return GeneratedModel(model=Watermark(silent), demos=demos, large=True, every=1, fit_s=None)

    monkeypatch.setattr(generalisation, "generate", synthetic)
    monkeypatch.setattr(generalisation, "generated_model", model)
    _, found = evaluate_generalisation(resolve, wanted=None, episodes=14, seed=0, say=lambda *_: None)
    with pytest.raises(RewardError, match="none of 14 episodes could be scored; of success-0: server is gone"):
        next(found)


def embedded() -> tuple[EmbeddedModel, list[GeneratedEpisode]]:
    """Return a tiny model fitted on four successes whose images are one picture with a little noise on it."""
    resolved = resolve(())
    torch.manual_seed(0)
    trunk = EmbeddedTrunk(image_shapes(resolved.spec()), 4).requires_grad_(False).eval()
    rng = np.random.default_rng(0)
    demos = []
    for demo in synthetic(resolved, {"success": 4}):
        pictures = {name: np.random.default_rng(1).integers(80, 160, shape) for name, shape in trunk.shapes.items()}
        images = {
            name: (picture + rng.integers(-3, 4, (12, *picture.shape))).astype(np.uint8)
            for name, picture in pictures.items()
        }
        demos.append(GeneratedEpisode(**{f: getattr(demo, f) for f in FIELDS} | {"images": images}))
    shown = [ScoredEpisode(frames=reward_inputs(trunk.encode(d.images), d.proprio), success=True) for d in demos]
    tiny = ProgressConfig(members=2, window=4, width=16, layers=1, steps=2, batch=4, held_out=0)
    model, _, _ = fit_reward(shown, tiny, text=TEXT, seed=0, on_step=lambda *_: None)
    return EmbeddedModel(trunk, model), demos


FIELDS = ("kind", "seed", "text", "proprio", "actions", "success", "done_at", "progress", "stages")


def painted(demo: GeneratedEpisode) -> GeneratedEpisode:
    images = {name: np.where(image > 115, 255, 0).astype(np.uint8) for name, image in demo.images.items()}
    return GeneratedEpisode(**{f: getattr(demo, f) for f in FIELDS} | {"images": images})


def test_the_monitor_rings_where_the_scene_is_another_and_nowhere_else() -> None:
    model, demos = embedded()
    about = GeneratedModel(model=model, demos=demos, large=False, every=1, fit_s=0.0, alarms=AlarmConfig())
    monitor = SceneMonitor.of(about)
    assert monitor is not None
    rng = np.random.default_rng(0)
    usual, other = (
        [monitor.evidence(frames_of(demo)) for demo in shown] for shown in (demos, [painted(demo) for demo in demos])
    )
    assert monitor.alarms(usual, rng) == ()
    assert monitor.alarms(other, rng) == ("unfamiliar",)
    assert monitor.alarms([*usual, *other[:2]], rng) == ()
    deaf = SceneMonitor.of(replace(about, alarms=AlarmConfig(strange_episodes=5)))
    assert deaf is not None
    assert deaf.alarms(other, rng) == ()
    assert SceneMonitor.of(replace(about, alarms=None)) is None


@pytest.mark.long
def test_an_alarm_of_the_scene_stands_in_the_row_whatever_frames_are_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, demos = embedded()
    about = GeneratedModel(model=model, demos=demos, large=False, every=3, fit_s=0.0, alarms=AlarmConfig())

    def made(resolved: ResolvedRun, counts: Mapping[str, int], **_: Any) -> list[GeneratedEpisode]:
        varying = resolved.section(f"task.sim.{KEY}", RandomiseConfig).varying
        shown = [painted(demo) for demo in demos] if "table" in varying else demos
        lost = [replace(one, kind="missing", success=False, done_at=None) for one in (painted(d) for d in demos)]
        return [*shown, *lost]

    monkeypatch.setattr(generalisation, "generate", made)
    monkeypatch.setattr(generalisation, "generated_model", lambda *_, **__: about)
    _, found = evaluate_generalisation(resolve, wanted=None, episodes=14, seed=0, say=lambda *_: None)
    told = dict(found)
    assert told["none"].alarms == ()
    assert told["table"].alarms == ("unfamiliar",)
    assert told["table"].document()["alarms"] == ["unfamiliar"]
    assert told[PARAPHRASE].alarms is None


@pytest.mark.long
def test_synthetic_episodes_are_of_the_scene_as_it_varies() -> None:
    images = []
    for words in ((), (f"task.sim.{KEY}.tested=[table]",)):
        maker, senses = build_maker(resolve(words))
        images.append(maker.make("partial", 3).images["front"][0].astype(float))
        senses.close()
    assert images[1].mean() < 0.85 * images[0].mean()


@pytest.mark.long
def test_an_episode_whose_scene_blew_up_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    maker, senses = build_maker(resolve(()))
    usual = maker.make("partial", 3)
    advance, torn, raised = World.advance, itertools.count(), []

    def torn_once(world: World, duration_s: float) -> None:
        if next(torn) == 5:
            world.data.qfrc_applied[0] = 1e20
        try:
            advance(world, duration_s)
        except UnstableScene as error:
            raised.append(error)
            raise

    monkeypatch.setattr(World, "advance", torn_once)
    again = maker.make("partial", 3)
    senses.close()
    assert len(raised) == 1
    assert again.proprio.shape != usual.proprio.shape or not np.array_equal(again.proprio, usual.proprio)


def test_too_few_episodes_are_refused_before_anything_is_fitted() -> None:
    with pytest.raises(ConfigError, match=f"must be at least {len(SHARES)}"):
        evaluate_generalisation(resolve, wanted=None, episodes=3, seed=0, say=lambda *_: None)
