"""Formulas as a reward model: what they may hold, what they come to, and what else they are checked for."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reward_models.expression.config import ExpressionConfig
from reward_models.expression.formula import Formula, FormulaError
from reward_models.expression.model import ExpressionModel
from reward_models.live import find_live
from reward_models.progress.clips import ScoredEpisode
from robot_stack.config.resolve import load_run
from robot_stack.learner.fitting import load_reward, save_reward
from robot_stack.learner.reward.fit_job import FitJob, TaskToFit
from robot_stack.learner.settings import check_settings
from robot_stack.types.errors import ConfigError, RewardError

SIZES = {"tip": 3, "open": 1, "left.tip": 3}
FRAMES = {
    "tip": np.array([[0.0, 3.0, 4.0], [1.0, 0.0, -2.0], [2.0, 6.0, 8.0]]),
    "open": np.array([[0.0], [1.0], [0.5]]),
    "left.tip": np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]),
}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("norm(tip[1:])", [5, 2, 10]),
        ("tip[-1] / 2 + 1", [3, 0, 5]),
        ("norm(tip - [1, 0, -2])", [np.sqrt(46), 0, np.sqrt(137)]),
        ("max(tip)", [4, 1, 8]),
        ("min(tip[0], open, 0.75)", [0, 0.75, 0.5]),
        ("clip(tip[2], 0, 5) ** 2", [16, 0, 25]),
        ("1 if open > 0.4 and not tip[0] >= 2 else -1", [-1, 1, -1]),
        ("0 < open < 1", [0, 0, 1]),
        ("tip[0] or open - 1", [1, 1, 1]),
        ("tip[2] - first(tip[2])", [0, -6, 4]),
        ("highest(tip[1])", [3, 3, 6]),
        ("lowest(tip[2])", [4, -2, -2]),
        ("norm(left.tip)", [np.sqrt(3), 0, 1]),
        ("1", [1, 1, 1]),
        ("1 / open", [np.nan, 1, 2]),
        ("highest(0 / open)", [np.nan, 0, 0]),
        ("1 if 0 / open else -1", [np.nan, -1, -1]),
        ("0 / open or 0 / open > -1", [np.nan, 1, 1]),
        ("not 0 / open", [np.nan, 1, 1]),
        ("not 1 / open < 5", [np.nan, 0, 0]),
        ("1 / open > 5", [np.nan, 0, 0]),
        ("highest(1 / open)", [np.nan, 1, 2]),
        ("exp(1000 * tip[0])", [1, np.nan, np.nan]),
        ("norm(0 < tip <= [1, 3, 4])", [np.sqrt(2), 1, 0]),
    ],
)
def test_a_formula_comes_to_what_is_written(text: str, wanted: list[float]) -> None:
    formula = Formula(text)
    formula.check(SIZES)
    np.testing.assert_allclose(formula(FRAMES), wanted)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("__import__('os').system('true')", "must hold numbers"),
        ("open.__class__.__mro__", "must hold numbers"),
        ("open.__class__", r"formula reads open.__class__, must read some of left.tip, open, tip"),
        ("(lambda: 1)()", "must hold numbers"),
        ("[1 for _ in tip]", "must hold numbers"),
        ("'a' * 10", "must hold numbers"),
        ("print(1)", "must hold numbers"),
        ("max(*tip)", "must hold numbers"),
        ("min(tip, axis=0)", "must hold numbers"),
        ("abs", "must hold numbers"),
        ("True", "must hold numbers"),
        ("1e99", "must hold numbers"),
        ("open == 1", "must hold numbers"),
        ("x := 1", "is no expression"),
        ("open = 1", "is no expression"),
        ("", "is no expression"),
        ("\0", "is no expression"),
        ("(" * 300 + "1" + ")" * 300, "is no expression"),
        ("-" * 900 + "1", "must have at most 200"),
        ("1+" * 600 + "1", "must have at most 1000"),
        ("tip[open]", "index is 'open', must be a number or first:last"),
        ("tip[::2]", "index is '::2', must be a number or first:last"),
        ("tip[1.5]", "must be a number or first:last"),
        ("tip[3]", "reads beyond the 3 numbers of 'tip'"),
        ("tip[-4]", "reads beyond the 3 numbers of 'tip'"),
        ("tip + tip[:2]", "joins 2 and 3 numbers"),
        ("tip", "comes to 3 numbers a frame, must come to one"),
        ("max(tip[:2] < 0 < tip)", "joins 2 and 3 numbers"),
        ("max([" + ", ".join(["pad"] * 90) + "])", "a list holds 360000 numbers a frame, must hold at most 4096"),
        ("clip(open, 0)", "clip is called with 2 arguments, must be with 3"),
        ("wrench[0]", "formula reads wrench, must read some of left.tip, open, tip"),
    ],
)
def test_what_is_no_formula_of_these_numbers_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(FormulaError, match=says):
        Formula(text).check(SIZES | ({"pad": 4000} if "pad" in text else {}))


@given(st.text(st.sampled_from("tipopen()[]0123456789.,:+-*/<>=!'\"_ \n\\#@&|^~ifelsandorlamb"), max_size=60))
def test_any_text_is_a_formula_or_refused(text: str) -> None:
    try:
        formula = Formula(text)
        formula.check(SIZES)
    except FormulaError:
        return
    assert formula(FRAMES).shape == (3,)


def test_a_formula_of_any_shape_takes_no_time() -> None:
    """Each part is evaluated once, however deep it lies."""
    for deep in ("0<(" * 39 + "open" + ")<1" * 39, "(" * 60 + "open" + ")+1" * 60, "not " * 90 + "open"):
        began_s = time.process_time()
        assert Formula(deep)(FRAMES).shape == (3,)
        assert time.process_time() - began_s < 1.0


SETTINGS = {"progress": "1 - norm(tip - [1, 0, 0])", "success": "norm(tip - [1, 0, 0]) < 0.1"}
PARTS = (("tip", 4, 7), ("open", 7, 8))


def episode(
    length: int = 20, *, success: bool = True, parts: tuple[tuple[str, int, int], ...] = PARTS
) -> ScoredEpisode:
    """Four features of noise, then a tip that moves from 0 to 1 m along x, or halfway, and an opening."""
    way = np.zeros((length, 8))
    way[:, :4] = np.random.default_rng(length).normal(size=(length, 4))
    way[:, 4] = np.linspace(0, 1.0 if success else 0.5, length)
    return ScoredEpisode(frames=way.astype(np.float32), success=success, done_frames=2, parts=parts)


def config(**more: object) -> ExpressionConfig:
    return ExpressionConfig.model_validate({**SETTINGS, **more})


def fitted(settings: ExpressionConfig) -> tuple[ExpressionModel, object]:
    shown = [episode(20 + i) for i in range(4)] + [episode(30, success=False)]
    model, report, _ = (
        find_live("expression").builders().fit(shown, settings, text="t", seed=0, on_step=lambda *_: None)
    )
    assert isinstance(model, ExpressionModel)
    return model, report


def test_progress_and_success_are_the_formulas_clamped() -> None:
    model, report = fitted(config(progress="1.2 - 1.4 * norm(tip - [1, 0, 0])"))
    scores = model.score(episode(11).frames)
    np.testing.assert_allclose(scores.progress, np.clip(1.2 - 1.4 * np.linspace(1, 0, 11), 0, 1), atol=1e-6)
    assert scores.success.tolist() == [0.0] * 10 + [1.0]
    late = model.score(episode(11).frames, start=4)
    np.testing.assert_array_equal(late.progress, scores.progress[4:])
    assert len(model.score(episode(11).frames, start=11).progress) == 0
    assert report.voc_heldout == pytest.approx(1.0, abs=0.1)  # type: ignore[attr-defined]
    assert report.false_done == 0.0  # type: ignore[attr-defined]


def test_a_frame_without_a_number_has_no_progress_and_is_not_done() -> None:
    model, _ = fitted(config(progress="1 / open", success="1 / open"))
    scores = model.score(episode(6).frames)
    assert not scores.progress.any(), "known, so that the shaping telescopes"
    assert not scores.success.any()


def test_it_is_kept_and_comes_back_and_other_words_are_another_version(tmp_path: Path) -> None:
    settings = config()
    model, _ = fitted(settings)
    path = tmp_path / "progress.safetensors"
    save_reward(path, model)
    again = load_reward(path, model.version, settings)
    np.testing.assert_array_equal(again.score(episode().frames).progress, model.score(episode().frames).progress)
    with pytest.raises(RewardError, match="damaged or of other settings"):
        load_reward(path, model.version, config(success="tip[0] > 0.9"))


def test_a_fit_on_other_episodes_makes_no_other_version_of_the_same_formulas() -> None:
    """Else a formula that has lost trust would be trusted again by every fit, without having learned anything."""
    fit = find_live("expression").builders().fit
    shown = [episode(20 + i) for i in range(4)]
    more = [*shown, episode(30, success=False), episode(40)]
    versions = {
        fit(episodes, config(), text="t", seed=seed, on_step=lambda *_: None)[0].version
        for seed, episodes in enumerate((shown, more))
    }
    assert len(versions) == 1
    corrected, _, _ = fit(shown, config(success="tip[0] > 0.9"), text="t", seed=0, on_step=lambda *_: None)
    assert corrected.version not in versions


def test_it_reads_the_embedded_scores_where_it_names_them(tmp_path: Path) -> None:
    tiny = {"members": 2, "window": 4, "width": 16, "layers": 1, "steps": 20, "batch": 8, "held_out": 1}
    settings = config(progress="max(phi, tip[0])", success="done > 0.5 and tip[0] > 0.9", **tiny)
    model, _ = fitted(settings)
    assert model.seen is not None
    frames = episode(12).frames
    seen = model.seen.score(frames)
    scores = model.score(frames)
    np.testing.assert_allclose(scores.progress, np.clip(np.maximum(seen.progress, frames[:, 4]), 0, 1))
    np.testing.assert_array_equal(scores.spread, seen.spread)
    assert scores.lacking is not None
    assert seen.lacking is not None
    np.testing.assert_array_equal(scores.lacking, seen.lacking)
    assert fitted(config())[0].score(frames).lacking is None
    late = model.score(frames, start=5)
    np.testing.assert_allclose(late.progress, scores.progress[5:], atol=1e-6)
    np.testing.assert_allclose(late.success, scores.success[5:], atol=1e-6)
    path = tmp_path / "progress.safetensors"
    save_reward(path, model)
    again = load_reward(path, model.version, settings)
    np.testing.assert_array_equal(again.score(frames).progress, scores.progress)


def test_episodes_without_the_part_are_refused() -> None:
    with pytest.raises(RewardError, match="progress: formula reads tip, must read some of done, open, phi"):
        find_live("expression").builders().fit(
            [episode(parts=PARTS[1:])], config(), text="t", seed=0, on_step=lambda *_: None
        )


def test_the_job_of_a_fit_elsewhere_says_which_column_is_what(tmp_path: Path) -> None:
    task = TaskToFit(text="t", told=(), episodes=(episode(),))
    job = FitJob(folder=tmp_path, tasks={"t": task}, column=-1, settings=config(), seed=0)
    again = FitJob.from_bytes(job.to_bytes())
    assert again.tasks["t"].episodes[0].parts == PARTS
    assert again.settings == config()


GOOD = {"progress": "1 - norm(tcp_pose[:3] - first(tcp_pose[:3]))", "success": "tcp_pose[2] < 0.01"}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (GOOD, None),
        ({**GOOD, "success": "tcp_pos[2] < 0.01"}, r"reward\.settings\.success.*formula reads tcp_pos, must read"),
        ({**GOOD, "success": "tcp_pose[6] < 0.01"}, r"reward\.settings\.success.*beyond the 6 numbers"),
        ({**GOOD, "progress": "__import__('os')"}, r"reward\.settings\.progress.*must hold numbers"),
        ({**GOOD, "progress": "highest(phi)"}, r"reward\.settings\.progress.*must be of parts of proprio"),
        ({**GOOD, "confirm": {}}, r"reward\.settings\.confirm.*must not be with formulas"),
        ({"progress": "phi"}, r"reward\.settings\.success"),
    ],
)
def test_a_runs_formulas_are_checked_against_its_proprio(settings: dict[str, object], says: str | None) -> None:
    wanted = ["reward.name=expression"]
    wanted += [f"reward.settings.{name}={json.dumps(text)}" for name, text in settings.items()]
    if says is None:
        check_settings(load_run("peg_insert", wanted))
        return
    with pytest.raises(ConfigError, match=says):
        check_settings(load_run("peg_insert", wanted))
