"""Prompts: ours word by word, and those that a file puts in their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reward_models.vlm import grm, lrm, vlac
from reward_models.vlm.wording import Wording, read_prompt_file
from robot_stack.types.errors import RewardError
from tests.reward_models.spoken import image, words

OWN = {
    "pair": Wording(system="You judge.", user="{task}: {before} then {after}"),
    "done": Wording(user="{task} {image}"),
}


def written(folder: Path, text: str) -> str:
    path = folder / "prompts.txt"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_images_stand_where_their_placeholders_stood() -> None:
    before, after = image(0.0), image(1.0)
    prompt = OWN["pair"].fill(task="pour", before=before, after=after)
    assert prompt.system == "You judge."
    assert [part if isinstance(part, str) else part.mean() for part in prompt.user] == ["pour: ", 20.0, " then ", 220.0]


def test_a_task_text_is_not_searched_for_placeholders() -> None:
    prompt = OWN["done"].fill(task="write {image} on it", image=image(0.0))
    assert prompt.user[0] == "write {image} on it "
    assert len(prompt.user) == 2


def test_other_braces_stand_for_themselves() -> None:
    wording = Wording(user='{task} {"progress": 0.0} {} {A}')
    assert wording.placeholders == {"task"}
    assert wording.fill(task="x").user == ('x {"progress": 0.0} {} {A}',)


def test_an_image_in_the_system_text_is_refused() -> None:
    with pytest.raises(RewardError, match="system text has an image, must have text only"):
        Wording(user="{task}", system="{image}").fill(task="x", image=image(0.0))


def test_a_file_replaces_the_questions_it_has(tmp_path: Path) -> None:
    path = written(tmp_path, "[done.system]\nBe strict.\n\n[done]\nIs {task} done?\n{image}\n")
    wordings = read_prompt_file(path, OWN)
    assert wordings["pair"] is OWN["pair"]
    assert wordings["done"].user == "Is {task} done?\n{image}"
    assert wordings["done"].system == "Be strict."


def test_a_file_may_leave_out_what_is_optional(tmp_path: Path) -> None:
    path = written(tmp_path, "[done_goal]\n{goal} {image} same?\n")
    assert read_prompt_file(path, vlac.WORDINGS)["done_goal"].user == "{goal} {image} same?"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[done]\n{task}",
            r"\[done\] of prompt_file .* lacks the placeholder \{image\}, must have \{image\}, \{task\}",
        ),
        ("[done]\n{task} {image} {imgae}", r"has the placeholder \{imgae\}, must have \{image\}, \{task\}"),
        ("[dnoe]\n{task}", r"has the section '\[dnoe\]', must be one of \['\[pair\]', '\[done\]'\]"),
        ("Is it done?", r"begins with text, must begin with one of"),
        ("", r"has no section, must have at least one of"),
        ("[done.system]\nBe strict.", r"has \[done.system\] alone, must have \[done\] too"),
        ("[done]\n{task} {image}\n[done]\nagain", r"has the section '\[done\]' twice"),
    ],
)
def test_a_wrong_file_is_refused_in_words(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(RewardError, match=told):
        read_prompt_file(written(tmp_path, text), OWN)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("absent", "binary"):
        with pytest.raises(RewardError, match=f"prompt_file is .*{name}, must be a text file"):
            read_prompt_file(str(tmp_path / name), OWN)


@pytest.mark.parametrize("own", [vlac.WORDINGS, grm.WORDINGS, lrm.WORDINGS], ids=["vlac", "grm", "lrm"])
def test_our_own_wordings_can_be_written_to_a_file_and_read_back(tmp_path: Path, own: dict[str, Wording]) -> None:
    text = "\n".join(f"[{name}.system]\n{w.system}\n[{name}]\n{w.user}" for name, w in own.items())
    assert read_prompt_file(written(tmp_path, text), own) == own


def test_words_shows_images_by_size_and_brightness() -> None:
    prompt = Wording(user="a {x}").fill(x=np.zeros((2, 3, 3), np.uint8))
    assert words(prompt) == "[system]\n\n[user]\na <image 3x2 0>\n"
