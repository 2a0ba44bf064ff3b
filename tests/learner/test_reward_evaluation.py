"""A run's own model comes back behind its trunk, and is asked under the run's own rule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from policies.encoders.embedded import EmbeddedTrunk
from reward_models.classifier.config import ClassifierConfig
from reward_models.evaluate.document import document
from reward_models.evaluate.judge import judge, phi_along
from reward_models.interface import Frame, LabelledEpisode
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig
from robot_stack.cli.reward import _summary
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.data.training_data import reward_inputs
from robot_stack.learner.fitting import fit_reward, image_shapes, save_reward, write_tensors
from robot_stack.learner.reward import embedded, evaluation
from robot_stack.learner.reward.embedded import EmbeddedModel
from robot_stack.learner.reward.evaluation import done_rule, evaluate_generated, evaluate_run, own_model, run_model
from robot_stack.learner.reward.judged_model import Wanted
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.reward.success import success_rule
from robot_stack.learner.reward.success_model import newest_model, run_success_model
from robot_stack.learner.reward.synthetic import SHARES, generate, labelled
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import AlarmRow, RewardFitRow
from robot_stack.types.command import Source
from robot_stack.types.errors import ConfigError, RewardError, StoreError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.observation import Observation
from robot_stack.types.transition import ActionRow, EndReason, Step
from tests.replay.recorded import header_of
from tests.reward_models.watermarked import Watermark

TINY = ProgressConfig(
    members=1, window=4, width=16, layers=1, steps=2, batch=4, held_out=0,
    confirm=ClassifierConfig(width=8, steps=3, batch=8),
)  # fmt: skip
SETTINGS = (
    "reward.settings={members: 1, window: 4, width: 16, layers: 1, steps: 2, batch: 4, held_out: 0, "
    "confirm: {width: 8, steps: 3, batch: 8}}"
)


@pytest.fixture(scope="module")
def resolved() -> ResolvedRun:
    return load_run("peg_insert", [SETTINGS])


@pytest.fixture(scope="module")
def made(resolved: ResolvedRun) -> list[LabelledEpisode]:
    return labelled(generate(resolved, {"partial": 1, "success": 1}, seed=(0,)))


@pytest.mark.long
def test_synthetic_episodes_are_such_as_the_cell_records(resolved: ResolvedRun, made: list[LabelledEpisode]) -> None:
    spec = resolved.spec()
    for episode in made:
        for frame in episode.frames:
            spec.check_images(dict(frame.images))
            assert frame.proprio is not None
            spec.check_proprio(frame.proprio)
    assert [episode.success for episode in made] == [False, True]


def write_model(folder: Path, resolved: ResolvedRun, episode: LabelledEpisode) -> str:
    torch.manual_seed(0)
    trunk = EmbeddedTrunk(image_shapes(resolved.spec()), 4).requires_grad_(False).eval()
    metadata = {"identity": trunk.identity, "reference": json.dumps(trunk.reference)}
    write_tensors(RunPaths(folder).trunk, trunk.state_dict(), metadata)
    images = {name: np.stack([frame.view(name) for frame in episode.frames]) for name in trunk.shapes}
    rows = reward_inputs(trunk.encode(images), np.stack([np.asarray(frame.proprio) for frame in episode.frames]))
    rng = np.random.default_rng(0)  # episodes that differ: of equal ones the model takes the very same frames alone
    others = [(rows + rng.normal(0.0, 0.05, rows.shape)).astype(np.float32) for _ in range(3)]
    verdicts = zip([rows, *others], (True, True, False, False), strict=True)
    shown = [ScoredEpisode(frames=frames, success=success) for frames, success in verdicts]
    model, _, _ = fit_reward(shown, TINY, text=resolved.task.text, seed=0, on_step=lambda *_: None)
    save_reward(folder / f"progress_{model.version}.safetensors", model)
    return model.version


@pytest.mark.long
def test_newest_model_of_a_run_that_is_there_is_taken(
    resolved: ResolvedRun, made: list[LabelledEpisode], tmp_path: Path
) -> None:
    version = write_model(tmp_path, resolved, made[1])
    log = MetricsLog(tmp_path / "metrics.jsonl")
    for name in ("older", version, "its-file-is-gone"):
        log.log(RewardFitRow(version=name))
    log.close()
    model = run_model(tmp_path, resolved)
    assert version in model.version
    judged = judge(model, made[1], done_rule(resolved))
    assert judged.known.all()
    assert len(judged.phi) == len(made[1].frames)


def steps_of(episode: LabelledEpisode, resolved: ResolvedRun) -> Iterator[Step]:
    still = np.zeros(resolved.spec().action_size, np.float32)
    row = ActionRow(
        executed=still, proposed=still, human=still, source=Source.POLICY, gripper_pressed=False, clipped=False,
        params_version=1, params_age_s=0.0,
    )  # fmt: skip
    last = len(episode.frames) - 1
    for index, frame in enumerate(episode.frames):
        assert frame.proprio is not None
        images = {camera.name: frame.view(camera.name) for camera in resolved.spec().cameras}
        observation = Observation(images=images, proprio=frame.proprio, stamp_ns=index * 100_000_000)
        over = index == last
        yield Step(
            episode_id="e",
            index=index,
            observation=observation,
            action=None if over else row,
            end=EndReason.TIMEOUT if over else None,
        )


@pytest.mark.long
def test_a_saved_success_model_says_of_each_step_what_the_learner_would_say(
    resolved: ResolvedRun, made: list[LabelledEpisode], tmp_path: Path
) -> None:
    version = write_model(tmp_path, resolved, made[1])
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.log(RewardFitRow(version=version))
    model = run_success_model(tmp_path, resolved)
    trunk, network = newest_model(tmp_path, resolved)
    scorer = Scorer(lambda: success_rule(resolved.task, resolved.spec()))
    scorer.adopt(network, [])
    images = {name: np.stack([frame.view(name) for frame in made[1].frames]) for name in trunk.shapes}
    proprio = np.stack([np.asarray(frame.proprio) for frame in made[1].frames])
    scorer.add("e", reward_inputs(trunk.encode(images), proprio), proprio)
    scorer.score_live("e")
    _, wanted = scorer.after(0, 0.0)
    for _ in range(2):  # an episode of the same name begins anew
        model.begin("e")
        assert model.newest("e") is None
        for step, score in zip(steps_of(made[1], resolved), wanted, strict=True):
            model.see(step)
            found = model.newest("e")
            assert found is not None
            assert (found.index, found.declared, found.version) == (score.index, score.declared, version)
            assert found.progress == pytest.approx(score.progress, abs=2e-3)
            assert found.success == pytest.approx(score.success, abs=2e-3)
    log.log(AlarmRow(version=version, alarm="canary", words="calls 9 of 12 canaries a success"))
    log.close()
    with pytest.raises(RewardError, match=f"success model {version} of .* is no longer trusted .canary: calls 9 of"):
        run_success_model(tmp_path, resolved)


@pytest.mark.long
def test_the_gate_of_a_run_is_the_gate_of_its_evaluation(resolved: ResolvedRun, made: list[LabelledEpisode]) -> None:
    torch.manual_seed(0)
    trunk = EmbeddedTrunk(image_shapes(resolved.spec()), 4).requires_grad_(False).eval()
    images = {name: np.stack([frame.view(name) for frame in made[1].frames]) for name in trunk.shapes}
    proprio = np.stack([np.asarray(frame.proprio) for frame in made[1].frames])
    rows = reward_inputs(trunk.encode(images), proprio)
    config = ProgressConfig(members=3, window=4, width=16, layers=1, steps=30, batch=8, held_out=0)
    network, _, _ = fit_reward(
        [ScoredEpisode(frames=rows, success=True)], config, text=resolved.task.text, seed=0, on_step=lambda *_: None
    )
    found = {}
    for gate in (0.0, 50.0):
        scorer = Scorer(lambda: success_rule(resolved.task, resolved.spec()), gate=gate)
        scorer.adopt(network, [])
        scorer.add("e", rows, proprio)
        scores = scorer.finish("e")
        assert scores is not None
        found[gate] = phi_along(EmbeddedModel(trunk, network, gate=gate), made[1].instruction, made[1].frames)
        assert found[gate] == pytest.approx(scores.progress, abs=2e-3)
    assert np.abs(found[0.0] - found[50.0]).max() > 0.01


@pytest.mark.long
def test_the_encoder_is_the_reward_models_own_where_it_has_one(
    resolved: ResolvedRun, made: list[LabelledEpisode], tmp_path: Path
) -> None:
    version, paths = write_model(tmp_path, resolved, made[1]), RunPaths(tmp_path)
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.log(RewardFitRow(version=version))
    log.close()
    paths.trunk.rename(paths.reward_trunk)
    wider = EmbeddedTrunk(image_shapes(resolved.spec()), 6).requires_grad_(False).eval()  # the policy's
    write_tensors(
        paths.trunk, wider.state_dict(), {"identity": wider.identity, "reference": json.dumps(wider.reference)}
    )
    model = run_success_model(tmp_path, resolved)
    model.begin("e")
    model.see(next(steps_of(made[1], resolved)))
    assert model.newest("e") is not None


def test_a_run_whose_words_have_changed_since_the_fit_is_refused(
    resolved: ResolvedRun, made: list[LabelledEpisode], tmp_path: Path
) -> None:
    version = write_model(tmp_path, resolved, made[1])
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.log(RewardFitRow(version=version))
    log.close()
    renamed = load_run("peg_insert", [SETTINGS, "task.text=put the orange peg into the blue socket"])
    with pytest.raises(RewardError, match=r"is 'put the .*', must be 'insert the .* it reads no language"):
        newest_model(tmp_path, renamed)


def test_the_classifier_beside_a_runs_model_is_judged_by_itself(
    resolved: ResolvedRun, made: list[LabelledEpisode], tmp_path: Path
) -> None:
    version = write_model(tmp_path, resolved, made[1])
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.log(RewardFitRow(version=version))
    log.close()
    model = own_model(tmp_path, resolved, Wanted(name="classifier"))
    assert (model.name, model.capabilities.done, model.capabilities.progress) == ("classifier", True, False)
    judged = judge(model, made[1], done_rule(resolved))
    assert np.isnan(judged.phi).all()
    assert np.isfinite(judged.done).all()
    assert own_model(tmp_path, resolved, Wanted(name="progress")).name == "progress"
    with pytest.raises(RewardError, match="settings of classifier are given, must not be"):
        own_model(tmp_path, resolved, Wanted(name="classifier", settings={"width": 8}))
    with pytest.raises(ConfigError, match="reward model is 'other', must be 'progress', as run"):
        own_model(tmp_path, resolved, Wanted(name="other"))


@pytest.fixture
def judged_run(
    resolved: ResolvedRun, made: list[LabelledEpisode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A run of five short episodes, alternately a success and none, whose model says what a pixel shows."""
    RunPaths(tmp_path).resolved.write_text(resolved.to_yaml())
    with EpisodeStore(tmp_path / "store", resolved.spec(), resolved.task.name) as store:
        for number in range(5):
            name = f"{number:06d}-online-a"
            store.begin(replace(header_of(name), task=resolved.task.name, task_id=""))
            whole = made[number % 2 == 0]
            shown = replace(
                whole, frames=whole.frames[-8:], progress=whole.progress[-8:], done_at=7 if whole.success else None
            )
            for step in steps_of(shown, resolved):
                store.append(replace(step, episode_id=name))
            said = Verdict.SUCCESS if number % 2 == 0 else Verdict.FAILURE
            store.append_label(Label(episode_id=name, verdict=said, source=LabelSource.OPERATOR, stamp_unix_s=1.0))
    paths = RunPaths(tmp_path)
    for file in (paths.trunk, paths.reward("v")):
        file.touch()
    brightness = Watermark(lambda query: float(query.frames[-1].view("wrist").mean()) / 255)
    monkeypatch.setattr(evaluation, "own_model", lambda *_: brightness)
    return tmp_path


def names(*numbers: int) -> tuple[str, ...]:
    return tuple(f"{number:06d}-online-a" for number in numbers)


@pytest.mark.long
def test_a_runs_model_is_judged_by_episodes_that_it_was_not_trained_on(judged_run: Path) -> None:
    log = MetricsLog(RunPaths(judged_run).metrics)
    log.log(RewardFitRow(version="v", trained_on=names(2, 3), held_out=names(0, 1)))
    log.close()
    found = evaluate_run(judged_run, wanted=None, episodes=None, seed=0, say=lambda *_: None)
    assert [one.name for one in found.report.judged] == list(names(0, 1, 4))
    assert found.left_out == dict.fromkeys(names(3, 2), "the model was trained on it")
    about = document(found.report, fit_s=None)["sections"]["about"]["seen"]
    assert (about["trained_on"], about["held_out"]) == (0, 2)
    assert about["words"] == "it was trained on none of them: 2 were held out from its fit, 1 it has never seen"
    (new,) = (one for one in found.report.judged if one.name == names(4)[0])
    assert found.report.discrimination.calibration == pytest.approx(1 - new.done[-1])  # of its last frame alone
    assert (found.report.discrimination.early.n, found.report.discrimination.detect_s.n) == (0, 0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("noted", "count", "words"),
    [
        ({"trained_on": names(0, 1, 2, 3, 4)}, 5, "it was trained on 5 of 5, no others are there: figures say how"),
        ({}, None, "whether it was trained on them is not known: its fit did not note its episodes"),
    ],
)
def test_where_no_episode_is_held_out_the_report_says_so_and_accepts_nothing(
    judged_run: Path, noted: dict[str, tuple[str, ...]], count: int | None, words: str
) -> None:
    log = MetricsLog(RunPaths(judged_run).metrics)
    log.log(RewardFitRow(version="v", **noted))
    log.close()
    found = evaluate_run(judged_run, wanted=None, episodes=None, seed=0, say=lambda *_: None)
    assert len(found.report.judged) == 5
    result = document(found.report, fit_s=None)
    assert result["sections"]["about"]["seen"]["trained_on"] == count
    assert result["sections"]["about"]["seen"]["words"].startswith(words)
    assert _summary(result).splitlines()[1].strip().startswith(words)
    (check,) = (check for check in found.report.checks if check.name == "judged by other episodes")
    assert check.passed is None
    assert np.isnan(found.report.discrimination.calibration) == (count is not None)


@pytest.mark.slow
def test_the_classifier_is_fitted_on_synthetic_demonstrations(
    resolved: ResolvedRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trunk = EmbeddedTrunk(image_shapes(resolved.spec()), 4).requires_grad_(False).eval()
    monkeypatch.setattr(embedded, "make_trunk", lambda *_, **__: trunk)
    found = evaluate_generated(
        resolved,
        wanted=Wanted(name="classifier", settings={"steps": 3, "width": 8, "batch": 8}, every=20),
        episodes=len(SHARES),
        seed=0,
        say=lambda *_: None,
    )
    assert found.report.model == "classifier"
    assert found.fit_s is not None
    assert found.report.discrimination.false_done.n > 0
    assert (found.report.ordering.voc.n, found.report.accuracy["all"].mae.n) == (0, 0)
    from robot_stack.report.reward_page import write_reward_page  # matplotlib: two seconds, of this test alone

    page = write_reward_page(
        tmp_path / "page.html", found.report, found.episodes, title="t", fit_s=found.fit_s, left_out={}
    )
    assert "classifier" in page.read_text()
    with pytest.raises(RewardError, match="settings of reward model classifier are wrong"):
        evaluate_generated(
            resolved,
            wanted=Wanted(name="classifier", settings={"wide": 8}),
            episodes=len(SHARES),
            seed=0,
            say=lambda *_: None,
        )


def test_run_without_a_model_is_refused(resolved: ResolvedRun, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="finish its demonstrations first"):
        run_model(tmp_path, resolved)


def test_rule_is_the_tasks_with_its_gate(resolved: ResolvedRun) -> None:
    rule, success = done_rule(resolved), resolved.task.success
    assert (rule.threshold, rule.n, rule.m) == (success.threshold, success.n_of_m.n, success.n_of_m.m)
    bound = success.gate["tcp_pose"].min
    assert bound is not None
    assert rule.gate is not None
    proprio = np.zeros(resolved.spec().proprio_size, np.float32)
    image = np.zeros((8, 8, 3), np.uint8)
    assert not rule.gate(Frame(images={"front": image}, proprio=proprio))
    proprio[2] = (bound[2] or 0.0) + 0.01
    assert rule.gate(Frame(images={"front": image}, proprio=proprio))
    assert not rule.gate(Frame(images={"front": image}))
