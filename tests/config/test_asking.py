"""What a run may ask of its asking, and what bad settings get: file, key, rule."""

from __future__ import annotations

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.learner.settings import check_settings
from robot_stack.types.errors import ConfigError


def test_a_run_asks_for_nothing_unless_told_to() -> None:
    assert load_run("peg_insert", []).run.asking is None
    asking = load_run("peg_insert", ["run.asking={}"]).run.asking
    assert asking is not None
    assert asking.signals == ("stall", "distance", "samples")
    assert not asking.hold


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("run.asking.signals=[distance]", "asking.signals: signals have no 'stall', must have it"),
        ("run.asking.signals=[stall, stall]", "asking.signals: signals are stall, stall, must be named once each"),
        ("run.asking.signals=[]", "asking.signals"),
        ("run.asking.signals=[stal]", "asking.signals.0: input should be 'stall', 'distance', 'samples' or 'critics'"),
        ("run.asking.missed=0", "asking.missed: input should be greater than 0"),
        ("run.asking.missed=1", "asking.missed: input should be less than 1"),
        ("run.asking.missed=.nan", "asking.missed"),
        ("run.asking.needless=1.1", "asking.needless: input should be less than or equal to 1"),
        ("run.asking.hold_s=0", "asking.hold_s: input should be greater than 0"),
        ("run.asking.base_after_s=0", "asking.base_after_s: input should be greater than 0"),
        ("run.asking.base_after_s=3", "asking.base_after_s: input is 3 in a run without a base policy, must be null"),
        ("run.asking={hold: true, base_after_s: 3}", "base_after_s is 3, must be at least hold_s (10) with hold"),
        ("run.asking.least_evidence=1", "asking.least_evidence"),
        ("run.asking.memory=3", "asking.memory"),
        ("run.asking.stall_s=-1", "asking.stall_s"),
        ("run.asking.holdings=true", "extra inputs are not permitted (got True); did you mean"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused_by_its_key(override: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_run("peg_insert", [override])
    assert message in str(refused.value)


def test_an_operator_who_waits_to_be_asked_needs_a_policy_that_asks() -> None:
    with pytest.raises(ConfigError, match=r"scripted_on_request.yaml:\d+:\d+: teleop.operator.attention: .* add ask"):
        load_run("peg_insert", ["cell.teleop=scripted_on_request"])
    load_run("peg_insert", ["cell.teleop=scripted_on_request", "run.asking={}"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["run.asking.signals=[stall, critics]", "run.algorithm.name=hg_dagger"], "'critics' under 'hg_dagger'"),
        (["run.asking={}", "run.encoder.name=resnet10", "run.encoder.settings.trained=true"], "'distance' with an enc"),
    ],
)
def test_a_signal_that_the_run_cannot_give_is_refused_by_name(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_settings(load_run("peg_insert", overrides))
    assert "run.asking.signals" in str(refused.value)
    assert message in str(refused.value)


@pytest.mark.parametrize("algorithm", ["rlpd", "cal_ql", "qc", "qc_fql"])
def test_algorithms_with_critics_may_ask_by_them(algorithm: str) -> None:
    check_settings(load_run("peg_insert", ["run.asking.signals=[stall, critics]", f"run.algorithm.name={algorithm}"]))
