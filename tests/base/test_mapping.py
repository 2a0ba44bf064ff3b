"""A base policy is shown and understood in its own names and units, and whatever does not fit is said by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from robot_stack.config.resolve import load_run
from robot_stack.learner.settings import check_settings
from robot_stack.rollout.base.mapping import MOST_STEPS, Told
from robot_stack.types.errors import ConfigError, SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.spec import BASE
from tests.base.small_base import CHUNK, OURS, TEXT, mapping, seen

FITS = Told(name="small", cameras=frozenset({"observation.images.top"}), state=7, actions=4, rate_hz=10.0)
PEG = (
    "run.base={kind: http, url: 'http://127.0.0.1:1', cameras: {front: top}, state: [tcp_pose], "
    "action: [fr3.x, fr3.y, fr3.z, fr3.rz], rate_hz: 10}"
)


def test_a_question_has_its_names_units_and_order() -> None:
    observation = seen(3)
    question = mapping().question(observation)
    assert list(question.images) == ["observation.images.top"]
    np.testing.assert_array_equal(question.images["observation.images.top"], observation.images["front"])
    force, pose = observation.proprio[6:], observation.proprio[:6]
    np.testing.assert_allclose(question.state, np.concatenate([force, 100 * pose + 1]), rtol=1e-6)
    assert question.state.dtype == np.float32
    assert question.text == TEXT
    assert mapping(text="in its own words").question(observation).text == "in its own words"


def test_a_state_may_have_where_the_tool_is_in_the_frame_of_the_robots_base() -> None:
    shown = mapping(state=[{"field": "tcp_place", "scale": 100.0}, "force"])
    assert shown.state_size == 7
    place = Pose.from_rpy(np.array([0.5, -0.05, 0.2]), np.array([0.0, 0.0, 1.5]))
    observation = replace(seen(3), T_base_tcp={"arm": place})
    state = shown.question(observation).state
    np.testing.assert_allclose(state, [50, -5, 20, 0, 0, 150, observation.proprio[6]], rtol=1e-6, atol=1e-5)
    with pytest.raises(SpecError, match=r"base.state shows tcp_place where nobody says where the tool of arm is"):
        shown.question(seen(3))
    assert load_run("peg_insert", [PEG, "run.base.state=[tcp_place, wrench]"]).run.base is not None


def test_a_base_without_a_state_or_without_images_is_shown_what_it_wants() -> None:
    blind, plain = mapping(cameras={}), mapping(state=[])
    blind.check(replace(FITS, cameras=frozenset()))
    plain.check(replace(FITS, state=0))
    assert blind.question(seen(3)).images == {}
    state = plain.question(seen(3)).state
    assert (state.dtype, state.shape) == (np.float32, (0,))
    with pytest.raises(ValueError, match=r"shown neither images nor a state, must be shown one; name cameras or state"):
        mapping(state=[], cameras={})


def test_an_answer_becomes_ours_in_order_units_and_range() -> None:
    ours = mapping().chunk(np.array(CHUNK))
    assert (ours.shape, ours.dtype) == ((5, 3), np.float32)
    np.testing.assert_allclose(mapping().limited(ours[0]), OURS, rtol=1e-6)
    far = mapping().chunk(np.full((2, 4), 1e9))
    assert np.isfinite(far).all()
    np.testing.assert_array_equal(np.abs(mapping().limited(far[0])), [1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (np.zeros((5, 3)), r"shape \(5, 3\), must be .*4"),
        (np.zeros(4), r"shape \(4,\)"),
        (np.zeros((0, 4)), r"shape \(0, 4\)"),
        (np.zeros((MOST_STEPS + 1, 4)), rf"1 to {MOST_STEPS}"),
        (np.full((2, 4), np.nan), "no finite numbers"),
        (np.array([[0.0, 0.0, np.inf, 0.0]]), "no finite numbers"),
        (np.array([["a", "b", "c", "d"]]), "no finite numbers"),
        (np.zeros((2, 4), bool), "no finite numbers"),
    ],
)
def test_an_answer_of_another_shape_or_not_finite_is_refused(answer: np.ndarray, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        mapping().chunk(answer)


def test_what_a_base_says_of_itself_fits_or_every_difference_is_named() -> None:
    mapping().check(FITS)
    mapping().check(Told(name="says nothing"))
    other = Told(name="other", cameras=frozenset({"left", "right"}), state=6, actions=7, rate_hz=30.0)
    with pytest.raises(ConfigError) as error:
        mapping().check(other)
    lines = str(error.value).splitlines()
    assert len(lines) == 4
    assert "must show ['left', 'right']" in lines[0]
    assert "base.state has 7 numbers, must have 6" in lines[1]
    assert "base.action has 4 entries, must have 7" in lines[2]
    assert "base.rate_hz is 10, must be 30" in lines[3]
    assert all("(of other)" in line for line in lines)


def test_the_proposal_is_the_last_field_of_what_is_observed() -> None:
    plain, based = load_run("peg_insert").spec(), load_run("peg_insert", [PEG]).spec()
    assert based.part(BASE) == slice(plain.proprio_size, plain.proprio_size + plain.action_size)
    assert based.sensed == plain == plain.sensed
    assert based.digest != plain.digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("run.base.cameras={fronnt: top}", "no camera 'fronnt' in the cell.*did you mean 'front'"),
        ("run.base.state=[tcp_posse]", "the task records no 'tcp_posse'.*did you mean 'tcp_pose'"),
        ("run.base.state=[base]", "the task records no 'base'"),
        ("run.base.action=[fr3.x, fr3.y, fr3.z, fr3.ry]", "no action 'fr3.ry' in this run"),
        ("run.base.action=[fr3.x, fr3.y, null]", "nobody proposes fr3.z, fr3.rz"),
        ("run.base.action=[fr3.x, fr3.x, fr3.y, fr3.z, fr3.rz]", "names of base.action"),
        ("run.base.cameras={front: top, wrist: top}", "names there of base.cameras"),
        ("run.base={kind: saved, policy: runs/mine/policy.safetensors}", "policy"),
        (
            "run.base={kind: openpi, url: 'ws://a:1', cameras: {front: prompt}, state: [tcp_pose], rate_hz: 10, "
            "action: [fr3.x, fr3.y, fr3.z, fr3.rz]}",
            "keys of the base's observation",
        ),
        ("run.base.url=ftp://elsewhere", "url"),
        ("run.base.rate_hz=0", "rate_hz"),
        ("run.base.timeout_s=.nan", "timeout_s"),
        ("run.base.kind=pickle", "kind"),
        ("run.base.noise=0", "noise"),
        ("run.base.noise=4.5", "noise"),
        (
            "run.base={kind: openpi, url: 'ws://a:1', cameras: {front: top}, state: [tcp_pose], rate_hz: 10, "
            "action: [fr3.x, fr3.y, fr3.z, fr3.rz], noise: 32}",
            "must be left out with kind openpi, whose server takes none; take lerobot or http",
        ),
        ("run.base.address=elsewhere", "address"),
        ("run.base.frame=world", "frame"),
        (
            "run.base.frame=base",
            r"'base' where fr3 moves along x, y, z, rz of its tool, must be 'tool'",
        ),
    ],
)
def test_a_mistake_in_the_section_is_named_where_it_stands(change: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as error:
        load_run("peg_insert", [PEG, change])
    assert "run.base" in str(error.value)


def test_who_corrects_a_base_needs_one() -> None:
    words = ["run.algorithm.name=residual_on_base"]
    check_settings(load_run("peg_insert", [PEG, *words]))
    with pytest.raises(ConfigError, match=r"run\.algorithm\.name.* without a base policy, must have one"):
        check_settings(load_run("peg_insert", words))


def test_the_section_is_optional_and_names_stand_for_themselves() -> None:
    assert load_run("peg_insert").run.base is None
    base: Any = load_run("peg_insert", [PEG]).run.base
    assert [entry.name for entry in base.action] == ["fr3.x", "fr3.y", "fr3.z", "fr3.rz"]
    assert [(shown.field, shown.scale) for shown in base.state] == [("tcp_pose", 1.0)]


def test_who_steers_a_base_needs_one_whose_noise_is_chosen_here() -> None:
    steered = ["run.algorithm.name=dsrl_on_base", PEG, "run.base.join_s=0"]
    check_settings(load_run("peg_insert", [*steered, "run.base.noise=2"]))
    with pytest.raises(ConfigError, match=r"run\.algorithm\.name.* without a base policy, must have one"):
        check_settings(load_run("peg_insert", steered[:1]))
    with pytest.raises(ConfigError, match=r"run\.base\.noise.*draws its own noise, must let it be chosen"):
        check_settings(load_run("peg_insert", steered))
    saved = "run.base={kind: saved, policy: /tmp/policy.safetensors}"
    with pytest.raises(ConfigError, match=r"draws its own noise, must let it be chosen"):
        check_settings(load_run("peg_insert", [steered[0], saved]))
    quick = "run.base.every_s=0.1"
    with pytest.raises(ConfigError, match=r"run\.base\.every_s.*input is 0\.1, must be at least 0\.2, the ticks of"):
        check_settings(load_run("peg_insert", [*steered, "run.base.noise=2", quick]))
    one = "run.algorithm.settings={chunk: 1}"
    check_settings(load_run("peg_insert", [*steered, "run.base.noise=2", quick, one]))
    with pytest.raises(ConfigError, match=r"run\.base\.join_s.*input is 0\.3, must be 0 where the base is steered"):
        check_settings(load_run("peg_insert", [*steered, "run.base.noise=2", "run.base.join_s=0.3"]))
    for leads in ("run.asking={hold: true}", "run.asking={base_after_s: 3}"):
        with pytest.raises(ConfigError, match=r"run\.asking.*'dsrl_on_base', where the base leads anyway, must not"):
            check_settings(load_run("peg_insert", [*steered, "run.base.noise=2", leads]))
    check_settings(load_run("peg_insert", [*steered, "run.base.noise=2", "run.asking={stall_s: 2}"]))


def test_what_a_steered_base_says_stands_at_the_end_of_the_proprio_vector() -> None:
    plain, spec = (load_run("peg_insert", [PEG, *more]).spec() for more in ([], ["run.base.noise=32"]))
    assert (plain.noise_size, spec.noise_size) == (0, 32)
    assert [(field.name, field.size) for field in spec.proprio[-3:]] == [
        ("base_noise", 32),
        ("base_ticks", 1),
        ("base", 4),
    ]
    assert spec.sensed == plain.sensed == load_run("peg_insert").spec()
