"""A checkpoint of LeRobot in a process of its own: the real package where LEROBOT_PYTHON names a Python that has it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from robot_stack.config.base import LeRobotBase
from robot_stack.rollout.base.lerobot import LeRobotConnection
from robot_stack.types.errors import ConfigError, RobotError, SpecError
from tests.base.small_base import mapping, section, seen

pytestmark = pytest.mark.long

PYTHON = os.environ.get("LEROBOT_PYTHON", "")
needs_lerobot = pytest.mark.skipif(not PYTHON, reason="LEROBOT_PYTHON names no Python that has the lerobot package")
CAMERA = "observation.images.top"
OTHERS = {"diffusion_of_now": 8, "vqbet": 5, "tdmpc": 1}
"""Checkpoint of another kind: the actions of its chunk."""
MAKE = Path(__file__).with_name("make_lerobot.py")
STUB = Path(__file__).with_name("stub")
"""A package that loads weights as carelessly as some policies of the real one do."""
WEIGHTS = {
    "head.weight": np.full((4, 7), 0.5, np.float32),
    "head.bias": np.zeros(4, np.float32),
    "tied.bias": np.zeros(4, np.float32),
}
"""Of its policy, as they are saved: `tied.weight` is `head.weight`."""


def connection(
    checkpoint: Path, python: str | Path = PYTHON, stopping: Callable[[], bool] = lambda: False, **change: Any
) -> LeRobotConnection:
    words: dict[str, Any] = {"start_s": 120.0, "timeout_s": 10.0} | change
    base = section(kind="lerobot", checkpoint=str(checkpoint), python=str(python), **words)
    assert isinstance(base, LeRobotBase)
    return LeRobotConnection(base, stopping)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lerobot")
    subprocess.run([PYTHON, str(MAKE), str(folder), "act", "diffusion", *OTHERS], check=True, timeout=300)
    return folder


@pytest.fixture(scope="module", params=["act", "diffusion"])
def served(request: pytest.FixtureRequest, checkpoints: Path) -> Iterator[LeRobotConnection]:
    talk = connection(checkpoints / request.param)
    talk.open()
    yield talk
    talk.close()


@needs_lerobot
def test_a_checkpoint_says_what_it_wants_and_that_is_held_against_the_run(served: LeRobotConnection) -> None:
    told = served.open()
    mapping().check(told)
    assert (told.cameras, told.state, told.actions) == (frozenset({"observation.images.top"}), 7, 4)
    with pytest.raises(ConfigError, match=r"must show \['observation.images.top'\]"):
        mapping(cameras={"front": "observation.images.front"}).check(told)
    with pytest.raises(ConfigError, match=r"base.state has 6 numbers, must have 7"):
        mapping(state=["tcp_pose"]).check(told)


@needs_lerobot
def test_it_plans_a_chunk_from_what_it_is_shown(served: LeRobotConnection) -> None:
    planned = served.ask(mapping().question(seen(1)))
    assert planned.shape[1] == 4
    assert len(planned) in (8, 12)
    assert np.isfinite(planned).all()
    assert planned.std() > 0
    assert mapping().chunk(planned).shape == (len(planned), 3)


@needs_lerobot
@pytest.mark.parametrize(("kind", "steps"), OTHERS.items())
def test_policies_that_plan_from_a_queue_of_observations_plan_too(checkpoints: Path, kind: str, steps: int) -> None:
    shown = mapping(cameras={"front": "observation.image"}) if kind == "tdmpc" else mapping()
    talk = connection(checkpoints / kind)
    try:
        shown.check(talk.open())
        planned = talk.ask(shown.question(seen(1)))
        assert planned.shape == (steps, 4)
        assert np.isfinite(planned).all()
    finally:
        talk.close()


@needs_lerobot
def test_images_that_are_padded_where_they_are_not_shown_are_not_asked_for(checkpoints: Path, tmp_path: Path) -> None:
    shutil.copytree(checkpoints / "act", tmp_path / "act")
    path = tmp_path / "act" / "config.json"
    config = json.loads(path.read_text())
    config["input_features"]["observation.images.empty_camera_0"] = config["input_features"][CAMERA]
    path.write_text(json.dumps(config))
    talk = connection(tmp_path / "act")
    try:
        told = talk.open()
        mapping().check(told)
        assert told.cameras == frozenset({CAMERA})
    finally:
        talk.close()


@needs_lerobot
def test_a_diffusion_policy_starts_from_the_noise_that_it_is_asked_with(checkpoints: Path) -> None:
    talk = connection(checkpoints / "diffusion", noise=4)
    try:
        mapping(noise=4).check(talk.open())
        noises = [np.array(noise, np.float32) for noise in ([0.5, -1, 0, 1], [0.5, -1, 0, 1], [-0.5, 1, 0, -1])]
        first, again, other = (talk.ask(mapping().question(seen(1), noise)) for noise in noises)
        np.testing.assert_array_equal(first, again)
        assert np.abs(first - other).max() > 0.01
        with pytest.raises(SpecError, match=r"noise has shape \(3,\), must be \(4,\)"):
            talk.ask(mapping().question(seen(1), np.zeros(3, np.float32)))
    finally:
        talk.close()


@needs_lerobot
@pytest.mark.parametrize("kind", ["act", "diffusion of DDPM"])
def test_a_policy_that_its_first_noise_does_not_decide_says_so(kind: str, checkpoints: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(checkpoints / kind.split()[0], folder)
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"DDIM"', '"DDPM"'))
    talk = connection(folder)
    try:
        with pytest.raises(ConfigError, match=r"base.noise is 4, must be left out, as it takes none"):
            mapping(noise=4).check(talk.open())
    finally:
        talk.close()


@needs_lerobot
def test_its_actions_are_in_the_units_it_was_trained_in(checkpoints: Path) -> None:
    talk = connection(checkpoints / "act")
    talk.open()
    try:
        one, other = (talk.ask(mapping().question(seen(index))) for index in (1, 2))
    finally:
        talk.close()
    assert not np.allclose(one, other)  # it looks at what it is shown
    assert np.abs(one).max() < 2.0  # 0.2 standard deviations each, not raw outputs


@needs_lerobot
def test_one_that_is_killed_is_started_anew(checkpoints: Path) -> None:
    talk = connection(checkpoints / "act")
    talk.open()
    try:
        assert talk._process is not None
        talk._process.kill()
        talk._process.wait()
        with pytest.raises(RobotError, match="does not answer"):
            talk.ask(mapping().question(seen()))
        talk.open()  # as the source does after a failure
        assert talk.ask(mapping().question(seen())).shape == (12, 4)
    finally:
        talk.close()


@needs_lerobot
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "cannot be served"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\x00" * 100), "cannot be served"),
        (lambda folder: (folder / "model.safetensors").unlink(), "cannot be served"),
        (lambda folder: (folder / "policy_preprocessor.json").unlink(), "cannot be served"),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_name(checkpoints: Path, tmp_path: Path, damage: Any, said: str) -> None:
    shutil.copytree(checkpoints / "act", tmp_path / "act")
    damage(tmp_path / "act")
    talk = connection(tmp_path / "act")
    with pytest.raises(ConfigError, match=said):
        talk.open()
    talk.close()


def stubbed(folder: Path, weights: dict[str, np.ndarray] | bytes | None, *others: str) -> LeRobotConnection:
    """Connect to a checkpoint of the stub, which this Python serves."""
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    for name in ("config.json", *others):
        (checkpoint / name).write_text("{}")
    if isinstance(weights, bytes):
        (checkpoint / "model.safetensors").write_bytes(weights)
    elif weights is not None:
        save_file(weights, checkpoint / "model.safetensors")
    python = folder / "python"
    python.write_text(f"#!/bin/sh\nPYTHONPATH='{STUB}' exec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    return connection(checkpoint, python)


@pytest.mark.parametrize("others", [[], ["adapter_config.json"]], ids=["alone", "beside the adapter that it has in it"])
def test_a_checkpoint_acts_by_the_weights_of_its_file(tmp_path: Path, others: list[str]) -> None:
    talk = stubbed(tmp_path, WEIGHTS, *others)
    try:
        mapping().check(talk.open())
        question = mapping().question(seen(1))
        np.testing.assert_allclose(talk.ask(question), np.full((1, 4), question.state.sum() / 2), rtol=1e-5)
    finally:
        talk.close()


@pytest.mark.parametrize(
    ("weights", "others", "said"),
    [
        (None, ["adapter_config.json"], r"checkpoint is an adapter alone, must be a whole policy; merge it into"),
        (None, [], r"checkpoint has no model\.safetensors, must be a folder that lerobot-train saved"),
        (b"\x00" * 100, [], r"fits 0 of the 4 tensors of LeRobot's pi0 .*, must fit all; take the whole folder"),
        ({"other.weight": WEIGHTS["head.weight"]}, [], r"fits 0 of the 4 tensors"),
        (WEIGHTS | {"head.weight": np.zeros((4, 8), np.float32)}, [], r"fits 2 of the 4 .*not head\.weight"),
        ({name: WEIGHTS[name] for name in ("head.weight", "tied.bias")}, [], r"fits 3 of the 4 .*not head\.bias"),
    ],
    ids=["an adapter", "no file", "a broken file", "other names", "another shape", "one missing"],
)
def test_weights_that_are_missing_or_of_another_policy_are_refused(
    tmp_path: Path, weights: Any, others: list[str], said: str
) -> None:
    talk = stubbed(tmp_path, weights, *others)
    with pytest.raises(ConfigError, match=said):
        talk.open()
    talk.close()


def test_a_python_that_is_not_there_is_named(tmp_path: Path) -> None:
    talk = connection(tmp_path, tmp_path / "python")
    with pytest.raises(ConfigError, match=rf"base\.python is {tmp_path}/python, which does not start"):
        talk.open()
    talk.close()


def test_a_python_without_lerobot_says_so(tmp_path: Path) -> None:
    bare = Path(sys.prefix, "bin", "python")
    talk = connection(tmp_path, bare)
    with pytest.raises(ConfigError, match=r"cannot be served: .*No module named 'lerobot'"):
        talk.open()
    talk.close()


def slow_python(folder: Path) -> Path:
    slow = folder / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    return slow


def test_a_run_that_ends_does_not_wait_for_a_checkpoint(tmp_path: Path) -> None:
    began_s = time.monotonic()
    talk = connection(tmp_path, slow_python(tmp_path), lambda: time.monotonic() > began_s + 0.3)
    with pytest.raises(RobotError, match="is not loaded and the run ends"):
        talk.open()
    talk.close()
    other = connection(tmp_path, slow_python(tmp_path))
    raised: list[BaseException] = []

    def load() -> None:
        try:
            other.open()
        except (RobotError, ConfigError) as error:
            raised.append(error)

    loading = threading.Thread(target=load)
    loading.start()
    time.sleep(0.3)
    other.close()  # from another thread, as at the end of a run
    loading.join(20)
    assert not loading.is_alive()
    assert re.search("the run ends|cannot be served", str(raised[0]))
    assert time.monotonic() - began_s < 40


def test_one_that_never_comes_up_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    talk = connection(tmp_path, slow_python(tmp_path), start_s=0.5)
    with pytest.raises(RobotError, match=r"is not loaded after 0\.5 s; raise base\.start_s"):
        talk.open()
    talk.close()
