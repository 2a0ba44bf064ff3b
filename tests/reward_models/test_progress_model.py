"""The embedded progress model: learns an order that no clock has, looks only back, knows its own weights."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from reward_models.decode import gated, hop_between
from reward_models.live import PROGRESS
from reward_models.metrics import mean_voc, voc
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.fit import FitReport, fit, without_ruled_out
from reward_models.progress.model import ProgressModel
from reward_models.progress.network import ProgressNetwork
from robot_stack.types.errors import RewardError
from tests.reward_models.pictured import THUMBNAILS, pictured
from tests.reward_models.synthetic import INPUTS, QUICK, TEXT, bent_episode, episode, episodes

Fitted = tuple[ProgressModel, FitReport]


HELD = QUICK.model_copy(update={"steps": 150, "held_out": 0})


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    torch.set_num_threads(1)
    return fit(episodes(10, 4), QUICK, text=TEXT, seed=0)


@pytest.fixture(scope="module")
def bent() -> ProgressModel:
    torch.set_num_threads(1)
    shown = [ScoredEpisode(frames=bent_episode(seed)[0], success=True) for seed in range(10)]
    deep = QUICK.model_copy(update={"held_out": 0, "layers": 2, "width": 48})  # one layer bends too little for this
    return fit(shown, deep, text=TEXT, seed=0)[0]


@pytest.fixture(scope="module")
def holding() -> ProgressModel:
    """Fitted on hands that hold their part all the way."""
    torch.set_num_threads(1)
    return fit([pictured(seed) for seed in range(8)], HELD, text=TEXT, seed=0)[0]


def test_held_out_episodes_are_put_in_order(fitted: Fitted) -> None:
    model, report = fitted
    assert report.voc_heldout > 0.9
    fresh = [model.score(episode(seed).frames)[0] for seed in range(50, 55)]
    assert mean_voc(fresh) > 0.9


def test_done_is_said_at_the_end_of_a_success_and_not_of_a_failure(fitted: Fitted) -> None:
    model, report = fitted
    assert report.false_done < 0.2
    ends = [model.score(episode(seed).frames)[1][-1] for seed in range(50, 55)]
    failures = [model.score(episode(seed, success=False).frames)[1].max() for seed in range(150, 155)]
    assert min(ends) > max(failures)
    assert np.mean(ends) > 3 * np.mean(failures)


def test_scores_are_probabilities_for_each_frame(fitted: Fitted) -> None:
    model, _ = fitted
    frames = episode(50).frames
    for scores in model.score(frames)[:3]:
        assert scores.dtype == np.float32
        assert scores.shape == (len(frames),)
        assert ((scores >= 0) & (scores <= 1)).all()


def test_future_frames_do_not_change_a_score(fitted: Fitted) -> None:
    model, _ = fitted
    frames = episode(50).frames
    changed = frames.copy()
    changed[12:] = 3.0
    for whole, other in zip(model.score(frames)[:3], model.score(changed)[:3], strict=True):
        np.testing.assert_allclose(whole[:12], other[:12], atol=1e-5)
        assert not np.allclose(whole[12:], other[12:], atol=1e-3)


def test_scoring_from_a_frame_on_gives_the_end_of_scoring_all(fitted: Fitted) -> None:
    model, _ = fitted
    frames = episode(50).frames
    for whole, tail in zip(model.score(frames), model.score(frames, start=20), strict=True):
        np.testing.assert_allclose(tail, whole[20:], atol=1e-5)
    assert [len(scores) for scores in model.score(frames, start=len(frames))] == [0, 0, 0, 0]


def test_the_guess_at_progress_asks_for_a_frame_and_the_first_one_alone() -> None:
    torch.manual_seed(0)
    network = ProgressNetwork(INPUTS, width=32, layers=2).eval()
    seen = network.embed(torch.randn(3, 8, INPUTS))
    offset = network.left[2].bias.data
    offset.fill_(3.0)  # a long way at the start
    guess, order = network.frame_progress_logit(seen), [0, 5, 3, 7, 1, 2, 4, 6]
    torch.testing.assert_close(network.frame_progress_logit(seen[:, order]), guess[:, order])
    torch.testing.assert_close(guess[:, :1], torch.full((3, 1), math.log(0.01 / 0.99)))
    assert guess[:, 1:].std() > 0.01
    offset.fill_(-5.0)  # it begins where the task ends
    assert (network.frame_progress_logit(seen[:, :1]) > 3).all()


def test_network_looks_back_only() -> None:
    torch.manual_seed(0)
    network = ProgressNetwork(INPUTS, width=32, layers=2).eval()
    frames = torch.randn(3, 8, INPUTS)
    changed = frames.clone()
    changed[:, 5:] += 1
    judged = [network.judge(network.embed(shown)) for shown in (frames, changed)]
    for before, after in zip(*judged, strict=True):
        torch.testing.assert_close(before[:, :5], after[:, :5])
        assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_restored_model_scores_the_same_under_the_same_version(fitted: Fitted) -> None:
    model, report = fitted
    other = ProgressModel(INPUTS, QUICK, text="")
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    assert other.version == model.version == report.version
    frames = episode(50).frames
    for expected, got in zip(model.score(frames), other.score(frames), strict=True):
        assert np.array_equal(expected, got)


def test_weights_of_another_version_are_refused(fitted: Fitted) -> None:
    model, _ = fitted
    with pytest.raises(RewardError, match=f"progress model is {model.version}, must be 0123; the file is damaged"):
        ProgressModel(INPUTS, QUICK, text="").load_state_dict(model.state_dict() | {"version": "0123"})


def test_fit_is_decided_by_its_seed() -> None:
    short = QUICK.model_copy(update={"steps": 3})
    first, again, other = (fit(episodes(3), short, text=TEXT, seed=seed)[0].version for seed in (0, 0, 1))
    assert first == again != other


def test_fit_tells_its_steps_and_lowers_its_loss() -> None:
    told: list[tuple[int, int, float]] = []
    short = QUICK.model_copy(update={"steps": 60})
    fit(episodes(5, 2), short, text=TEXT, seed=0, on_step=lambda *step: told.append(step))
    assert [step for step, _, _ in told] == list(range(1, 2 * 60 + 1))
    losses = [loss for _, _, loss in told]
    assert np.mean(losses[50:60]) < 0.8 * np.mean(losses[:10])


def test_held_out_successes_are_not_trained_on() -> None:
    short = QUICK.model_copy(update={"steps": 2, "held_out": 1})
    first, *others = episodes(4)
    one, other = (fit([kept, *others], short, text=TEXT, seed=0)[0] for kept in (first, episode(77)))
    weights, others_weights = one.members.state_dict(), other.members.state_dict()
    assert all(torch.equal(weights[name], others_weights[name]) for name in weights)
    assert one.version != other.version  # the calibration is theirs


def test_held_out_successes_are_judged_by_the_looks_of_others_and_known_in_use() -> None:
    short = HELD.model_copy(update={"steps": 2, "held_out": 2})
    shown = [*(pictured(seed, light=0.9) for seed in (0, 1)), *(pictured(seed) for seed in range(2, 8))]
    model, report = fit(shown, short, text=TEXT, seed=0)
    assert all(model.always.fits(e.frames).all() for e in shown)
    assert report.voc_heldout == 0.0, "nothing of the light that only the held-out ones have was known"
    ends = {row.tobytes() for row in model.done_known}
    known = [{row.tobytes() for row in model.standardised(e.frames)[-4:, model.plain]} <= ends for e in shown]
    assert known == [True] * 8


def test_only_success_is_kept_for_training() -> None:
    short = QUICK.model_copy(update={"steps": 2})
    _, report = fit(episodes(1), short, text=TEXT, seed=0)
    assert np.isfinite(report.loss)


def test_failures_alone_teach_nothing() -> None:
    with pytest.raises(RewardError, match="successful episodes are 0, must be at least 1"):
        fit(episodes(0, 3), QUICK, text=TEXT, seed=0)


def test_a_stored_model_that_reads_words_is_refused_with_what_to_do(fitted: Fitted) -> None:
    tensors, texts = fitted[0].stored()
    older = {**tensors, "members.0.words.weight": torch.zeros(32, 256)}
    with pytest.raises(RewardError, match=r"reads words beside frames, must read frames alone; fit it again .*start"):
        PROGRESS.builders().restore(older, texts, QUICK)


def test_hops_point_the_way_and_are_as_long_as_it_is(fitted: Fitted) -> None:
    model, _ = fitted
    frames = episode(50).frames
    true = np.linspace(0, 1, len(frames))
    before, after = np.array([2, 5, 20, 15]), np.array([20, 15, 2, 5])
    hops = model.compare(frames[before], frames[after])
    wanted = [hop_between(true[a], true[b]) for a, b in zip(before, after, strict=True)]
    assert (np.sign(hops) == np.sign(wanted)).all()
    assert np.abs(hops - wanted).mean() < 0.35
    assert ((hops >= -1) & (hops <= 1)).all()


def test_members_differ_and_the_score_is_their_mean(fitted: Fitted) -> None:
    model, _ = fitted
    frames = episode(50).frames
    scores = model.score(frames)
    assert scores.spread.max() > 0.001
    prefixes = frames[[[0] * model.config.window]]
    progress, _ = model.logits(prefixes)
    members = torch.sigmoid(progress[:, 0]).numpy()
    assert scores.progress[0] == pytest.approx(members.mean(), abs=1e-5)


def test_success_is_what_the_members_say_on_average(fitted: Fitted) -> None:
    model, _ = fitted
    frames = episode(50).frames
    _, done = model.logits(np.stack([frames[-model.config.window :]]))
    scale, offset = model.calibration
    wanted = 1 / (1 + np.exp(-(scale * float(done.mean()) + offset)))
    assert model.score_prefixes(np.stack([frames[-model.config.window :]])).success[0] == pytest.approx(
        wanted, abs=1e-5
    )


def test_one_demonstration_adapts_a_model_to_another_world(fitted: Fitted) -> None:
    model, _ = fitted

    def elsewhere(seed: int) -> np.ndarray:
        return episode(seed).frames[:, ::-1].copy() * 1.3

    one = [ScoredEpisode(frames=elsewhere(60), success=True)]
    adapted, _ = fit(one, QUICK, text="plug the cable into the slot", seed=0, start=model)
    fresh = [adapted.score(elsewhere(seed)).progress for seed in range(70, 74)]
    lost = [model.score(elsewhere(seed)).progress for seed in range(70, 74)]
    assert mean_voc(fresh) > 0.85
    assert mean_voc(fresh) > mean_voc(lost)


def test_a_model_of_other_inputs_is_no_start(fitted: Fitted) -> None:
    model, _ = fitted
    narrow = ScoredEpisode(frames=np.zeros((9, 3), np.float32), success=True)
    with pytest.raises(RewardError, match="takes 16 inputs, must take 3"):
        fit([narrow], QUICK, text=TEXT, seed=0, start=model)


def test_weights_of_other_settings_are_refused_in_words(fitted: Fitted) -> None:
    model, _ = fitted
    wider = QUICK.model_copy(update={"width": 64})
    with pytest.raises(RewardError, match="of other settings"):
        ProgressModel(INPUTS, wider, text=TEXT).load_state_dict(model.state_dict())


def test_what_looks_like_no_finished_task_is_not_done_however_sure_the_members_are(fitted: Fitted) -> None:
    model, _ = fitted
    frames = episode(50).frames
    sure = copy.deepcopy(model)
    sure.calibration = (1.0, 30.0)
    near = sure.score(frames).success[-1]
    covered = frames.copy()
    covered[-1] += 50.0
    assert near > 0.99
    assert sure.score(covered).success[-1] == 0.0
    sure.done_reach = float("inf")
    assert sure.score(covered).success[-1] > 0.99


def test_one_success_says_nothing_of_how_finished_tasks_differ() -> None:
    short = QUICK.model_copy(update={"steps": 2})
    model, _ = fit(episodes(1), short, text=TEXT, seed=0)
    assert model.done_reach == float("inf")
    model, _ = fit(episodes(4), short, text=TEXT, seed=0)
    assert 0 < model.done_reach < float("inf")
    assert model.done_known.shape == (4 * 2, INPUTS)


def test_a_hop_from_a_frame_to_itself_is_none(fitted: Fitted) -> None:
    model, _ = fitted
    for seed in range(50, 54):
        frames = episode(seed).frames
        assert np.abs(model.compare(frames, frames)).max() < 1e-5
        near = frames + 0.01 * np.random.default_rng(seed).normal(size=frames.shape).astype(np.float32)
        assert np.abs(model.compare(frames, near)).mean() < 0.05


@pytest.mark.parametrize("turn", [0.6, 0.8, 1.0])
@pytest.mark.parametrize("back", [0.3, 0.6, 1.0])
def test_a_rewound_clip_falls_after_its_turn(bent: ProgressModel, turn: float, back: float) -> None:
    for seed in range(50, 58):
        frames, true = bent_episode(seed)
        top = round(turn * (len(frames) - 1))
        path = np.r_[: top + 1, top - np.arange(1, max(4, round(back * top)) + 1)]
        phi = bent.score(frames[path]).progress
        assert phi[-1] < phi[top], (seed, phi[top:].round(2).tolist())
        if true[path[top]] - true[path[-1]] > 0.1:
            assert voc(phi[top:]) < -0.5, (seed, phi[top:].round(2).tolist())


def test_a_hand_without_its_part_makes_no_progress_and_is_never_done(holding: ProgressModel) -> None:
    """No failure was among the demonstrations, and what the members read is as in a success."""
    for seed in range(40, 44):
        held, lost, never = (pictured(seed, **how) for how in ({}, {"lost_at": 0.5}, {"part": False}))
        good, bad = holding.score(held.frames), holding.score(lost.frames)
        half = len(lost.frames) // 2
        assert good.progress[-1] > 0.8
        assert good.success[-1] > 0.5
        np.testing.assert_array_equal(bad.progress[:half], good.progress[:half])
        assert not bad.progress[half + 1 :].any()
        assert not bad.success[half + 1 :].any()
        assert good.lacking is not None
        assert bad.lacking is not None
        assert (good.lacking.any(), bad.lacking[:half].any()) == (False, False)
        assert bad.lacking[half + 1 :].all()
        none = holding.score(never.frames)
        assert not none.progress.any()
        assert none.lacking is not None
        assert none.lacking.all()
        assert (holding.score(lost.frames, len(lost.frames) - 1).progress == 0).all()


def test_a_gate_follows_when_the_part_is_lost(holding: ProgressModel) -> None:
    lost = pictured(42, lost_at=0.7).frames
    scores = holding.score(lost)
    held = gated(scores.progress, scores.spread, alpha=20.0)
    assert held.max() > 0.5
    assert held[-1] == 0.0


def test_before_a_covered_camera_progress_may_stand_and_nothing_is_done(holding: ProgressModel) -> None:
    frames = pictured(40).frames
    dark = frames.copy()
    start, stop = THUMBNAILS[0]
    dark[-4:, start:stop] = 0.0
    scores, before = holding.score(dark), holding.score(frames)
    np.testing.assert_array_equal(scores.progress, before.progress)
    assert not scores.success[-4:].any()
    assert scores.lacking is not None
    assert not scores.lacking.any()


def test_failures_with_a_lost_part_do_not_make_a_model_doubt_successes(holding: ProgressModel) -> None:
    lost = [replace(pictured(60 + i, lost_at=0.5), success=False, refused=True) for i in range(4)]
    again, _ = fit([*(pictured(seed) for seed in range(8)), *lost], HELD, text=TEXT, seed=0)
    for seed in range(40, 44):
        assert again.score(pictured(seed).frames).success[-1] > 0.5
        assert not again.score(pictured(seed, lost_at=0.5).frames).success.any()


def test_a_success_that_was_missed_and_that_nobody_judged_is_not_learned_as_a_failure(fitted: Fitted) -> None:
    missed = [replace(episode(200 + i), success=False) for i in range(3)]

    def surest(*more: ScoredEpisode) -> list[float]:
        model, _ = fit([*episodes(10, 4), *more], QUICK, text=TEXT, seed=0)
        return [float(model.score(episode(seed).frames).success.max()) for seed in range(50, 56)]

    before = [float(fitted[0].score(episode(seed).frames).success.max()) for seed in range(50, 56)]
    assert np.mean(surest(*missed)) < np.mean(before) - 0.1, "an operator's word counts"
    assert np.mean(surest(*(replace(e, judged=False) for e in missed))) > np.mean(before) - 0.05


def test_from_an_episode_that_nobody_judged_it_is_learned_what_does_not_look_finished(fitted: Fitted) -> None:
    model, _ = fitted
    failed, missed = (replace(e, success=False, judged=False) for e in (episode(100, success=False), episode(200)))
    assert not without_ruled_out(model, failed).ruled_out.any()  # type: ignore[union-attr]
    assert without_ruled_out(model, replace(missed, judged=True)).ruled_out.sum() == 0  # type: ignore[union-attr]
    ruled_out = without_ruled_out(model, missed).ruled_out
    assert ruled_out is not None
    assert ruled_out[-1]
    assert not ruled_out[: len(ruled_out) // 4].any()


@pytest.mark.parametrize("light", [0.0, 0.9])
def test_a_model_adapted_to_another_light_still_knows_a_hand_without_its_part(
    holding: ProgressModel, light: float
) -> None:
    adapted, _ = fit([pictured(70, light=light)], HELD, text=TEXT, seed=0, start=holding)
    for seed, where in [(70, light), *((seed, light) for seed in range(40, 44)), (45, 0.0)]:
        whole, lost = (adapted.score(pictured(seed, light=where, lost_at=at).frames) for at in (2.0, 0.5))
        assert whole.success[-1] > 0.5
        assert whole.progress[-1] > 0.5
        assert (lost.success[-1], lost.progress[-1]) == (0.0, 0.0)


def test_members_read_no_thumbnail(holding: ProgressModel) -> None:
    frames = pictured(40).frames
    start, stop = THUMBNAILS[0]
    other = frames.copy()
    other[:, start:stop] = 1.0
    for before, after in zip(holding.logits(frames[None, -8:]), holding.logits(other[None, -8:]), strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("is_adapted", [False, True])
def test_a_restored_model_knows_what_successes_look_like(holding: ProgressModel, *, is_adapted: bool) -> None:
    model = fit([pictured(70, light=0.9)], HELD, text=TEXT, seed=0, start=holding)[0] if is_adapted else holding
    tensors, texts = model.stored()
    assert ("always.few" in tensors) is is_adapted, "what was stored before there was one is read as ever"
    other = PROGRESS.builders().restore(tensors, texts, HELD)
    assert other.version == model.version
    for frames in (pictured(41).frames, pictured(70, light=0.9).frames, pictured(41, lost_at=0.5).frames):
        for expected, got in zip(model.score(frames), other.score(frames), strict=True):
            assert np.array_equal(expected, got)
