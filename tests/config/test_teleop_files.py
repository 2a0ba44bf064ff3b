"""Facts about the files of teleop devices: what may stand together and what is refused, and where."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import TELEOPS
from robot_stack.config.teleop import RealTeleop
from robot_stack.config.teleop_parts import Action
from robot_stack.teleop.bindings import CONTROLS
from robot_stack.types.errors import ConfigError
from robot_stack.types.robot import EVENTS

FOLDER = config_root() / "teleop"


def refusal(name: str, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(FOLDER / f"{name}.yaml", TELEOPS, overrides)
    return str(caught.value)


def test_every_kind_of_device_has_a_shipped_file() -> None:
    shipped = {load(path, TELEOPS).device for path in FOLDER.glob("*.yaml")}
    assert shipped == set(TELEOPS.builtin) - set(TELEOPS.unsaid)


def test_every_device_but_the_scripted_person_is_a_real_one() -> None:
    real = {name for name, kind in TELEOPS.builtin.items() if issubclass(kind, RealTeleop)}
    assert real == set(TELEOPS.builtin) - {"scripted", "expert"}


def test_buttons_can_mean_everything_that_keys_can() -> None:
    assert set(get_args(Action)) == {*EVENTS, *CONTROLS}


def test_an_unknown_device_lists_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("device: spacemous\n")
    with pytest.raises(ConfigError, match=r"mine.yaml:1:9: device: .*'keyboard'.*did you mean 'spacemouse'\?"):
        load(path, TELEOPS)


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("spacemouse", ["deadman=pedal"], "deadman is 'pedal', must be on something that is there; add 'pedal:'"),
        ("spacemouse", ["motion.leave=0.2"], "leave is 0.2, must be below enter (0.15)"),
        ("joy", ["triggers={fine: {axis: 2}}"], "triggers.fine.released"),
        ("joy", ["triggers={fine: {axis: 2, released: 1, pulled: 0.9}}"], "must differ from released (1.0) by 0.2"),
        ("joy", ["triggers={fine: {axis: 2, above: 0.5}}"], "above is 0.5, must be released and pulled"),
        ("joy", ["alive={topic: pose, freeze_s: 0}"], "alive.freeze_s"),
        ("joy", ["stamps=arrival"], "stamps: input should be 'wall' or 'own'"),
        ("spacemouse", ["operator={}"], "operator: extra inputs are not permitted"),
        ("spacemouse", ["gains=[1, 1, 1]"], "gains.3"),
        ("spacemouse", ["gains=[2, 1, 1, 1, 1, 1]"], "gains.0: input should be less than or equal to 1"),
        ("spacemouse", ["frame=viewer"], "viewer_yaw_rad is absent with frame 'viewer'"),
        ("spacemouse", ["match={usb: '256F:C635'}"], "match.usb"),
        ("spacemouse_pedal", ["pedal.keys={left: KEY_A}"], "must be the middle one"),
        ("spacemouse_pedal", ["pedal.match={}"], "pedal.match"),
        ("keyboard", ["match={}"], "match has neither name nor usb nor serial"),
        ("gamepad", ["axes={x: BTN_TL}"], "axes.x"),
        ("gamepad", ["axes={w: ABS_X}"], "axes"),
        ("keyboard", ["viewer_yaw_rad=null"], "viewer_yaw_rad is absent"),
        ("keyboard", ["keyboard={match: {name: x}}"], "keyboard is given with device 'keyboard', must be absent"),
        ("keyboard", ["ramp_s=0"], "ramp_s: input should be greater than 0"),
        ("joy", ["buttons={stop: 5}"], "buttons have no 'deadman'"),
        ("joy", ["buttons={deadman: 1, fire: 2}"], "buttons.fire"),
        ("joy", ["buttons={deadman: 1, stop: 2, hold: 2}"], "buttons: 2 stands for more than one thing"),
        ("joy", ["axes={x: 1, y: 1}"], "axes: 1 stands for more than one thing"),
        ("spacemouse_pedal", ["pedal.keys={left: KEY_B, middle: KEY_B}"], "keys: KEY_B stands for more than one thing"),
        ("joy", ["topic=joy!"], "topic"),
        ("joy", ["timeout_s=0"], "timeout_s"),
        ("joy", ["axes={}"], "axes"),
        ("leader", ["follow=pose"], "joints has 7 entries with follow 'pose'"),
        ("leader", ["joints=[]"], "joints has 0 entries with follow 'joints'"),
        ("leader", ["joints=[{name: a}, {name: a}]"], "must be unique"),
        ("leader", ["deadman=joy"], "joy has no button 'deadman'"),
        ("leader", ["gripper.open_rad=0.0"], "open_rad is 0.0, must differ from closed_rad"),
        ("leader", ["follow=pose", "joints=[]"], "gripper is given with follow 'pose'"),
        ("scripted", ["match={name: x}"], "match: extra inputs are not permitted"),
    ],
)
def test_what_cannot_stand_together_is_refused_in_words(name: str, overrides: list[str], message: str) -> None:
    assert message in refusal(name, *overrides)


def test_the_scripted_person_is_required_where_it_is_the_device(tmp_path: Path) -> None:
    text = (FOLDER / "scripted.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text[: text.index("operator:")])
    with pytest.raises(ConfigError, match="operator: field required; add 'operator'"):
        load(path, TELEOPS)
