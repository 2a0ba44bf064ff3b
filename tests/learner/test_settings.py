"""Settings of a run are checked where they meet."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from policies.settings import LearnerConfig
from reward_models import live
from robot_stack.cli.checked_run import load_checked
from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.learner import settings
from robot_stack.learner.settings import imitation_window, learning_settings, reward_rule
from robot_stack.replay.rewards import RewardRule
from robot_stack.types.command import Mode
from robot_stack.types.errors import ConfigError
from robot_stack.workcell.build_safety import build_safety


@pytest.mark.parametrize("form", ["absolute", "difference"])
@pytest.mark.parametrize("over_steps", ["n_step=3", "chunk=2"])
def test_forms_of_single_steps_refuse_longer_returns(form: str, over_steps: str) -> None:
    resolved = load_run("peg_insert", [f"run.reward.form={form}", f"algorithm.settings.{over_steps}"])
    with pytest.raises(ConfigError, match=rf"run.reward.form: input is '{form}' with returns of \d steps, must be"):
        learning_settings(resolved)


@pytest.mark.parametrize("form", ["potential", "sparse"])
def test_forms_that_telescope_take_longer_returns(form: str) -> None:
    resolved = load_run("peg_insert", [f"run.reward.form={form}", "algorithm.settings.n_step=3"])
    assert learning_settings(resolved).config.sampling.n_step == 3


def test_values_that_do_not_reach_what_shaping_pays_are_refused() -> None:
    def settings_of(form: str, **values: float) -> LearnerConfig:
        algorithm = json.dumps({"name": "cqn", "settings": values})
        return learning_settings(
            load_run("peg_insert", [f"run.algorithm={algorithm}", f"run.reward.form={form}"])
        ).config

    with pytest.raises(ConfigError, match="value_min is -1, must be at most -3 with a shaping_weight of 3: returns"):
        settings_of("potential", shaping_weight=3.0)
    assert settings_of("potential", shaping_weight=3.0, value_min=-3.0).shaping_weight == 3.0
    assert settings_of("sparse", value_min=0.0).shaping_weight == 1.0


def test_an_unknown_form_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="form"):
        load_run("peg_insert", ["run.reward.form=raw"])


@pytest.mark.parametrize("path", sorted((config_root() / "runs").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_shipped_run_has_a_learner_and_a_safety_filter(path) -> None:
    resolved = load_run(path)
    assert learning_settings(resolved).algorithm == resolved.run.algorithm.name
    assert build_safety(resolved).mode is Mode.DISARMED


def test_a_mistyped_part_is_named_with_its_place_before_anything_starts(tmp_path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    text = (config_root() / "runs" / "peg_insert.yaml").read_text()
    (runs / "mine.yaml").write_text(text.replace("algorithm: {name: rlpd}", "algorithm: {name: rlpdd}"))
    with pytest.raises(
        ConfigError,
        match=r"mine\.yaml:\d+:\d+: algorithm\.name: algorithm is 'rlpdd', .*did you mean 'rlpd'",
    ):
        load_run("mine", root=tmp_path)


def test_what_a_failure_and_a_step_cost_is_read_from_the_run() -> None:
    words = ["run.reward.failure=-0.5", "run.reward.step_penalty=0.01", "algorithm.settings.shaping_weight=0.5"]
    plain, costly = load_run("peg_insert", []), load_run("peg_insert", words)
    assert reward_rule(plain, learning_settings(plain)) == RewardRule()
    assert reward_rule(costly, learning_settings(costly)) == RewardRule(failure=-0.5, step_penalty=0.01, shaping=0.5)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("run.algorithm.name=bc",), "with 'bc', whose settings have no discount"),
        (("algorithm.settings.n_step=3",), "with returns of 3 steps"),
        (("run.start_from={run: /tmp/monday}",), "with critics of an earlier run"),
        (("run.reward.form=sparse",), "without reward before the end"),
        (("algorithm.settings.shaping_weight=0.0",), "without reward before the end"),
    ],
)
def test_a_discount_that_nothing_can_schedule_is_refused_where_the_file_is_read(
    words: tuple[str, ...], why: str
) -> None:
    with pytest.raises(ConfigError, match=rf"reward.discount: .*{why}"):
        load_checked("peg_insert", [*words, "run.reward.discount=scheduled"])
    assert load_checked("peg_insert", ["run.reward.discount=scheduled"]).run.reward.discount == "scheduled"


def test_a_discount_of_several_tasks_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"reward.discount: .*with 2 tasks"):
        load_checked("peg_in_and_out", ["run.reward.discount=scheduled"])


def test_a_discount_by_a_model_of_success_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "find_live", lambda name: replace(live.PROGRESS, says_progress=False))
    with pytest.raises(ConfigError, match=r"reward.discount: .*'progress', which does not say how far"):
        load_checked("peg_insert", ["run.reward.discount=scheduled"])


@pytest.mark.parametrize("word", ["failure=0.1", "failure=-11", "step_penalty=-0.01", "step_penalty=1", "penalty=0"])
def test_a_reward_that_cannot_be_meant_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match=word.split("=", maxsplit=1)[0]):
        load_run("peg_insert", [f"run.reward.{word}"])


@pytest.mark.parametrize(
    ("name", "settings", "fits"),
    [
        ("yesno", "server: {url: 'http://127.0.0.1:8000/v1', model: any}", False),
        ("clip", "weights: {model: any}", False),
        ("clip", "weights: {model: any}, baseline: ' '", False),
        ("clip", "weights: {model: any}, baseline: a robot arm over a table", True),
        ("lrm", "weights: {model: any}, adapters: {completion: any}", False),
        ("lrm", "weights: {model: any}, adapters: {progress: any}", True),
        ("vlac", "server: {url: 'http://127.0.0.1:8000/v1', model: any}", True),
    ],
)
def test_a_large_model_that_cannot_shape_is_refused_where_the_file_is_read(
    name: str, settings: str, fits: bool
) -> None:
    words = [f"run.reward.rescore={{name: {name}, settings: {{{settings}}}}}"]
    if fits:
        assert load_checked("peg_insert", words).run.reward.rescore is not None
    else:
        with pytest.raises(ConfigError, match=f"'{name}', which with these settings does not say how far an episode"):
            load_checked("peg_insert", words)


@pytest.mark.parametrize("fusion", ["mean", "gated"])
def test_how_answers_are_fused_can_be_chosen(fusion: str) -> None:
    words = [f"run.reward.rescore={{name: grm, settings: {{weights: {{model: any}}, fusion: {fusion}}}}}"]
    assert learning_settings(load_run("peg_insert", words)).rescore.fusion == fusion


@pytest.mark.parametrize(
    ("words", "window"),
    [
        ([], 0),
        (["imitation.weights=equal"], 0),
        (["imitation.weights=progress"], 10),
        (["imitation.weights=progress", "run.algorithm.name=flow_bc", "algorithm.settings.chunk=15"], 15),
        (["imitation.weights=progress", "run.algorithm.name=flow_bc", "algorithm.settings.chunk=8"], 10),
    ],
)
def test_progress_weighs_over_a_second_or_a_longer_chunk(words: list[str], window: int) -> None:
    resolved = load_run("peg_insert", words)
    assert imitation_window(resolved, learning_settings(resolved)) == window


def test_weights_that_do_not_exist_are_refused_with_their_place() -> None:
    with pytest.raises(
        ConfigError, match=r"imitation\.weights: input should be 'equal' or 'progress' \(got 'reward'\)"
    ):
        load_run("peg_insert", ["imitation.weights=reward"])


def test_who_reads_no_reward_takes_every_form_of_it() -> None:
    resolved = load_run("peg_insert", ["run.reward.form=difference", "run.algorithm.name=flow_bc"])
    assert learning_settings(resolved).config.sampling.n_step > 1


@pytest.mark.parametrize("algorithm", ["dsrl", "residual", "jump_start"])
def test_an_encoder_that_goes_on_learning_is_refused_under_a_frozen_part(algorithm: str) -> None:
    trained = ["run.encoder.name=resnet10", "run.encoder.settings.trained=true", f"run.algorithm.name={algorithm}"]
    with pytest.raises(ConfigError, match=rf"encoder\.settings\.trained.* under '{algorithm}', .* must be false"):
        load_checked("peg_insert", trained)
    assert load_checked("peg_insert", [*trained, "run.algorithm.name=rlpd"]).run.algorithm.name == "rlpd"
