"""Settings in, model out: names, mistakes, tokens and licences."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from reward_models.vlm.config import GrmSettings, WeightsSettings
from reward_models.vlm.licences import check_licence, licence_of
from reward_models.vlm.optional import optional_import
from reward_models.vlm.registry import FAMILIES, make_reward_model
from robot_stack.types.errors import ConfigError, RewardError

pytest.importorskip("httpx")

SERVER: dict[str, Any] = {"url": "http://127.0.0.1:8000/v1", "model": "org/any"}


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"reward model is 'vlca', must be one of clip, grm, .*; did you mean 'vlac'"):
        make_reward_model("vlca", {})


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - {"clip"}))
def test_every_family_can_be_behind_a_server(name: str) -> None:
    more = {"lrm": {"adapters": {"progress": "served"}}, "vlac": {"accept_license": "cc-by-nc-sa-4.0"}}
    model = make_reward_model(name, {"server": SERVER, **more.get(name, {})})
    assert model.name == name
    assert len(model.version) == 16
    can = model.capabilities
    assert can.pair or can.progress or can.done


def test_settings_may_be_a_model_of_their_own() -> None:
    settings = GrmSettings(server=FAMILIES["grm"].config.model_validate({"server": SERVER}).server)  # type: ignore[attr-defined]
    assert make_reward_model("grm", settings).version == make_reward_model("grm", {"server": SERVER}).version


def test_a_list_in_the_settings_will_do() -> None:
    model = make_reward_model("grm", {"server": SERVER, "views": ["front", "wrist"]})
    assert model.capabilities.views == ("front", "wrist")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "one of weights"),
        ({"server": SERVER, "weights": {"model": "x"}}, "one of weights"),
        ({"server": SERVER, "veiw": "front"}, "veiw: Extra inputs are not permitted"),
        ({"server": SERVER | {"timeout_s": 0}}, "server.timeout_s"),
        ({"server": SERVER | {"url": "127.0.0.1:8000"}}, "must be like http://127.0.0.1:8000/v1"),
        ({"server": SERVER | {"url": "http://host:port/v1"}}, "must be like http://127.0.0.1:8000/v1"),
        ({"server": SERVER | {"url": "ftp://host/v1"}}, "must be like http://127.0.0.1:8000/v1"),
        ({"server": SERVER | {"url": "http://me:secret@host/v1"}}, "must have none; name a token with token_env"),
        ({"server": SERVER | {"url": "http://host/v1", "token_env": "T"}}, "must be https where a token is sent"),
        ({"server": object()}, "not JSON serializable"),
    ],
)
def test_wrong_settings_are_told_with_their_place(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(RewardError, match=f"settings of reward model vlac are wrong: .*{told}") as error:
        make_reward_model("vlac", settings)
    assert "secret" not in str(error.value)


def test_a_token_comes_from_the_environment_and_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"server": SERVER | {"token_env": "REWARD_TOKEN"}}
    for value in ("", "  ", "new\nline", "ümlaut"):
        monkeypatch.setenv("REWARD_TOKEN", value)
        with pytest.raises(RewardError, match="environment variable REWARD_TOKEN is empty or no plain text") as error:
            make_reward_model("roboreward", settings)
        assert not value.strip() or value not in str(error.value)
    monkeypatch.setenv("REWARD_TOKEN", "s3cret\n")
    version = make_reward_model("roboreward", settings).version
    assert version == make_reward_model("roboreward", {"server": SERVER}).version


def test_revision_of_a_served_model_is_part_of_the_version_and_its_address_is_not() -> None:
    first = make_reward_model("roboreward", {"server": SERVER}).version
    elsewhere = make_reward_model("roboreward", {"server": SERVER | {"url": "https://gpu.lab:8000/v1"}}).version
    newer = make_reward_model("roboreward", {"server": SERVER | {"revision": "2"}}).version
    assert first == elsewhere != newer


def test_certificates_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    for name in ("ca.pem", "absent.pem"):
        path = str(tmp_path / name)
        with pytest.raises(RewardError, match=f"ca_file is .*{name}, must be certificates in PEM"):
            make_reward_model("roboreward", {"server": SERVER | {"url": "https://gpu.lab/v1", "ca_file": path}})


def test_a_prompt_file_is_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "prompts.txt"
    path.write_text("[done]\n{task}? {image}")
    settings = {"server": SERVER, "prompt_file": str(path)}
    assert make_reward_model("yesno", settings).version != make_reward_model("yesno", {"server": SERVER}).version
    path.write_text("[done]\n{task}?")
    with pytest.raises(RewardError, match=r"lacks the placeholder \{image\}"):
        make_reward_model("yesno", settings)


def documented() -> list[tuple[str, dict[str, Any]]]:
    """Name and settings of every example in the documentation."""
    text = (Path(__file__).parents[2] / "docs" / "reward-models-large.md").read_text(encoding="utf-8")
    examples = [YAML(typ="safe").load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]
    return [(example["rescore"]["name"], example["rescore"]["settings"]) for example in examples]


def test_examples_in_the_documentation_are_settings() -> None:
    assert {name for name, _ in documented()} == {"clip", "grm", "lrm", "roboreward", "vlac"}
    for name, settings in documented():
        FAMILIES[name].config.model_validate_json(json.dumps(settings))


# Licences


def test_a_non_commercial_licence_must_be_accepted_in_so_many_words() -> None:
    settings: dict[str, Any] = {"server": SERVER | {"model": "InternRobotics/VLAC"}}
    for accepted in (None, "yes", "cc-by-4.0"):
        with pytest.raises(
            RewardError,
            match=r"licence of InternRobotics/VLAC is cc-by-nc-sa-4.0, .* set accept_license: \"cc-by-nc-sa-4.0\"",
        ):
            make_reward_model("vlac", settings | {"accept_license": accepted})
    assert make_reward_model("vlac", settings | {"accept_license": "cc-by-nc-sa-4.0"}).name == "vlac"


def test_what_a_server_calls_the_weights_is_no_way_around_their_licence(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"server": SERVER | {"model": "judge"}}
    said = r"licence of judge is not known here, and the published weights of vlac have cc-by-nc-sa-4.0, .* accepted"
    for accepted in (None, "yes", "apache-2.0"):
        with pytest.raises(RewardError, match=said):
            make_reward_model("vlac", settings | {"accept_license": accepted})
    assert make_reward_model("vlac", settings | {"accept_license": "cc-by-nc-sa-4.0"}).name == "vlac"
    with pytest.raises(RewardError, match=r"published weights of vlac have cc-by-nc-sa-4\.0"):
        make_reward_model("vlac", {"weights": {"model": str(tmp_path)}})


def test_a_licence_is_said_when_a_model_is_loaded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    make_reward_model("grm", {"server": SERVER | {"model": "tanhuajie2001/Robo-Dopamine-GRM-3B"}})
    assert "reward model tanhuajie2001/Robo-Dopamine-GRM-3B: licence apache-2.0" in caplog.text
    caplog.clear()
    make_reward_model("grm", {"server": SERVER})
    assert "reward model org/any: licence unknown, read its card" in caplog.text


def test_the_card_beside_the_weights_comes_first(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    assert licence_of("InternRobotics/VLAC", tmp_path) == "cc-by-nc-sa-4.0"
    card.write_text("---\nlibrary_name: x\nlicense: MIT\n---\n# A model\nlicense: cc-by-nc-4.0\n")
    assert licence_of("InternRobotics/VLAC", tmp_path) == "mit"
    card.write_text('---\nlicense: "cc-by-nc-4.0"\n---\n')
    with pytest.raises(RewardError, match=r'set accept_license: "cc-by-nc-4.0"'):
        check_licence(str(tmp_path), accepted=None, folder=tmp_path)
    assert licence_of("own", tmp_path / "adapter") == "cc-by-nc-4.0"
    for text in ("license: cc-by-nc-4.0\n", "---\nlicense: [a, b]\n---\n", "", "\x00\xff---"):
        card.write_text(text)
        assert licence_of("own", tmp_path) == "unknown"


def test_a_subfolder_of_a_repository_has_its_licence() -> None:
    assert licence_of("USC-PSI-Lab/LRM-models/progress", None) == "apache-2.0"


def test_a_missing_package_says_what_to_install() -> None:
    with pytest.raises(RewardError, match=r"need the package surely_absent, .*pip install 'robot-stack\[vlm\]'"):
        optional_import("surely_absent")


def test_weights_that_are_not_here_are_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(RewardError, match=r"model is org/absent, must be a checkpoint on this machine; fetch it once"):
        make_reward_model("grm", {"weights": WeightsSettings(model="org/absent").model_dump()})
