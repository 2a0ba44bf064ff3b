"""Facts about the shipped files, their schemas, and `robot-stack show`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from policies.encoders.registry import find_encoder
from policies.registry import find_algorithm
from reward_models.live import find_live
from robot_stack.cli import show
from robot_stack.config.files.library import KINDS, config_root
from robot_stack.config.files.loader import load
from robot_stack.config.resolve import load_run
from robot_stack.config.safety import BRAKES, CAPS, LIMITS, SafetyConfig
from robot_stack.config.schema import MODELS, schema_texts, write_schemas
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.types.errors import ConfigError

FILES = sorted(path for kind in KINDS for path in (config_root() / kind).glob("*.yaml"))
PARTLY = ("cells/gymnasium", "tasks/mountain_car")
"""Files that are complete with what an environment says; the run that names them is looked at whole."""
WHOLE = [path for path in FILES if f"{path.parent.name}/{path.stem}" not in PARTLY]


def test_there_is_a_model_and_a_file_for_every_kind() -> None:
    assert set(MODELS) == set(KINDS) == {path.parent.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_shipped_file_loads_and_names_its_schema(path: Path) -> None:
    if path in WHOLE:
        load(path, MODELS[path.parent.name])
    first = path.read_text().splitlines()[0]
    assert first == f"# yaml-language-server: $schema=../schema/{path.parent.name}.schema.json"


@pytest.mark.parametrize("path", sorted((config_root() / "runs").glob("*.yaml")), ids=lambda path: path.stem)
def test_a_shipped_run_resolves(path: Path) -> None:
    assert load_run(path).spec().action_size >= 1


@pytest.mark.parametrize("path", [path for path in WHOLE if path.parent.name == "tasks"], ids=lambda path: path.stem)
def test_a_prompt_says_what_to_do_and_names_no_key(path: Path) -> None:
    """The page and each device name their own."""
    prompt = load(path, MODELS["tasks"]).model_dump()["reset"]["prompt"]
    assert "press" not in prompt
    assert not any(event in prompt for event in ("reset_done", "reset done"))


def test_the_schemas_on_disk_are_those_of_the_models() -> None:
    for name, text in schema_texts().items():
        assert (config_root() / "schema" / name).read_text() == text, "run robot_stack.config.schema.write_schemas"


@pytest.mark.long
def test_schemas_are_written_where_asked(tmp_path: Path) -> None:
    assert {path.name: path.read_text() for path in write_schemas(tmp_path)} == schema_texts()


def test_every_safety_value_but_the_rate_is_a_limit_and_only_the_yaw_range_may_be_left_out() -> None:
    assert set(LIMITS) == set(SafetyConfig.model_fields) - {"rate_hz", *BRAKES}
    optional = [name for name, field in SafetyConfig.model_fields.items() if not field.is_required()]
    assert optional == ["yaw_range_rad"]


def test_the_safety_filter_refuses_what_the_schema_forbids() -> None:
    properties = SafetyConfig.model_json_schema()["properties"]
    assert {name: properties[name]["maximum"] for name in (*LIMITS, *BRAKES)} == CAPS
    for name in set(CAPS) - {"soft_force_n"}:
        with pytest.raises(ConfigError, match=f"{name} is"):
            SafetyLimits(box_min_m=(0.0, 0.0, 0.0), box_max_m=(1.0, 1.0, 1.0), **{name: 1.01 * CAPS[name]})


def test_show_prints_each_value_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    assert show.run("peg_insert", ["seed=5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("run.seed")).split() == [
        "run.seed:", "5", "#", "--set", "seed=5"
    ]  # fmt: skip
    assert any(line.startswith("safety.soft_force_n: 15.0 ") and line.endswith("table.yaml:12") for line in lines)
    assert any(line.startswith("robot.joints.6: ") and line.endswith("fr3.yaml:14") for line in lines)
    assert lines[-1].startswith("Next: robot-stack ")


def test_show_names_the_files_that_are_not_here(
    tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It refuses nothing: an arm's calibration lies on the arm's machine, and this may be another one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (run,) = (each.stem for each in (config_root() / "runs").glob("so101*.yaml"))
    assert show.run(run, ["base={kind: saved, policy: ~/first/policy.safetensors}"]) == 0
    said = capsys.readouterr()
    assert set(re.findall(r": ([\w.]+) is '", said.err)) == {
        "robot.servos.calibration",
        "teleop.servos.calibration",
        "run.base.policy",
    }
    assert "so101_bus.yaml:" in said.err
    assert said.out.splitlines()[-1].startswith("Next: ")
    calibration = load_run(run).robot.servos.calibration
    Path(calibration).expanduser().parent.mkdir(parents=True)
    Path(calibration).expanduser().touch()
    assert show.run(run, ["cameras.wrist.reference=~nobody_here/wrist.png"]) == 0
    assert "cameras.wrist.reference is" in capsys.readouterr().err
    recorded = ["cell.cameras.wrist.model=video_file", "cell.cameras.wrist.serial=null"]
    assert show.run(run, recorded) == 0
    assert "cameras.wrist.path is" in capsys.readouterr().err
    assert show.run(run) == 0
    assert "robot.servos.calibration" not in capsys.readouterr().err


def test_show_as_json_holds_the_same_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert show.run("peg_insert", as_json=True) == 0
    document = json.loads(capsys.readouterr().out)
    resolved = load_run("peg_insert")
    assert document["spec_digest"] == resolved.spec().digest
    shown = {key: each["value"] for key, each in document["values"].items()}
    assert {key: value for key, value, _ in resolved.values() if value != {}}.items() <= shown.items()


@pytest.mark.parametrize("run", sorted(path.stem for path in (config_root() / "runs").glob("*.yaml")))
def test_show_prints_the_defaults_of_every_part(run: str) -> None:
    resolved = load_run(run)
    values = json.loads(show.as_json_text(resolved))["values"]
    chosen = {
        "algorithm": find_algorithm(resolved.run.algorithm.name).config,
        "encoder": find_encoder(resolved.run.encoder.name).config,
        "reward": find_live(resolved.run.reward.name).config,
    }
    wanted = {f"run.{part}.settings.{name}" for part, config in chosen.items() for name in config.model_fields}
    assert wanted <= {".".join(key.split(".")[:4]) for key in values}
    if resolved.simulated and not resolved.is_environment:
        assert values["task.sim.randomise.light.held_out"]["value"] == [0.7, 1.3]


def test_what_a_setting_is_by_default_or_by_the_command_line_is_told_apart() -> None:
    resolved = load_run("peg_insert", ["algorithm.settings.utd=4"])
    values = json.loads(show.as_json_text(resolved))["values"]
    assert values["run.algorithm.settings.utd"] == {"value": 4.0, "origin": "--set algorithm.settings.utd=4"}
    assert values["run.algorithm.settings.batch_size"] == {"value": 128, "origin": "default"}
    assert values["task.sim.peg_side_m"] == {"value": 0.024, "origin": "default"}


def test_show_of_a_wrong_run_fails_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert show.run("peg_insret") == 1
    captured = capsys.readouterr()
    assert "did you mean 'peg_insert'?" in captured.err
    assert captured.out == ""
