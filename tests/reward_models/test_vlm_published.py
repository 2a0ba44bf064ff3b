"""The published wording is found in files of the shape in which authors publish it, and fits our placeholders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reward_models.interface import ClipQuery, PairQuery
from reward_models.vlm import grm, roboreward, vlac
from reward_models.vlm.config import GrmSettings, RoboRewardSettings, ServerSettings, VlacSettings
from reward_models.vlm.published import published_prompt
from reward_models.vlm.wording import read_prompt_file
from robot_stack.cli.main import main
from robot_stack.types.errors import RewardError
from tests.reward_models.spoken import Spoken, frame, instruction, seen, words

SERVER = ServerSettings(url="http://127.0.0.1:8000/v1", model="any")
SOURCE = '''
import a_package_that_is_not_there
OTHER = "no task <image>"
SYSTEM_PROMPT = """
Judge `{task}`.
first <image> last <image>
before <image> <image> <image>
after <image> <image> <image>
{"braces": 1} <score>+NN%</score>
"""
raise SystemExit("never run")
'''
CARD = """---
license: cc-by-4.0
---
## Usage
- 1: none
## Inference
Use a prompt like this:

Give a score, as ANSWER: <score>
1 - nothing
5 - all

Task: <INSTRUCTION>

## More
"""


def test_the_question_of_grm_is_found_in_its_source_and_asked_in_its_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "inference.py").write_text(SOURCE)
    beside = tmp_path / "examples" / "inference.py" / "grm.txt"
    assert main(["reward", "prompt", "grm", str(tmp_path), "--out", str(beside)]) == 1
    assert "reward failed: Not a directory" in capsys.readouterr().err
    out = tmp_path / "grm.txt"
    assert main(["reward", "prompt", "grm", str(tmp_path), "--out", str(out)]) == 0
    wordings = read_prompt_file(str(out), grm.WORDINGS)
    backend = Spoken(lambda prompt: "<score>+5%</score>")
    model = grm.Grm(backend, GrmSettings(server=SERVER), wordings)
    task = instruction(goal=True)
    model.score_pairs([PairQuery(instruction=task, start=frame(0.1), before=frame(0.3), after=frame(0.6))])
    (prompt,) = backend.prompts
    assert seen(prompt) == pytest.approx([0.1, 1.0, 0.3, 0.3, 0.3, 0.6, 0.6, 0.6], abs=0.01)
    assert "Judge `put the peg into the socket`." in words(prompt)
    assert '{"braces": 1} <score>+NN%</score>' in words(prompt)


@pytest.mark.parametrize("as_folder", [True, False])
def test_the_question_of_roboreward_is_found_in_its_card(tmp_path: Path, as_folder: bool) -> None:
    (tmp_path / "README.md").write_text(CARD)
    text = published_prompt("roboreward", tmp_path if as_folder else tmp_path / "README.md")
    path = tmp_path / "roboreward.txt"
    path.write_text(text)
    backend = Spoken(lambda prompt: "ANSWER: 5")
    model = roboreward.RoboReward(
        backend, RoboRewardSettings(server=SERVER), read_prompt_file(str(path), roboreward.WORDINGS)
    )
    model.score_progress([ClipQuery(instruction=instruction(), frames=(frame(0.0), frame(1.0)))])
    assert seen(backend.prompts[0]) == pytest.approx([0.0, 1.0], abs=0.01)
    asked = words(backend.prompts[0])
    assert asked.endswith(
        "Give a score, as ANSWER: <score>\n1 - nothing\n5 - all\n\nTask: put the peg into the socket\n"
    )


@pytest.mark.parametrize(
    ("family", "content", "why"),
    [
        ("grm", "x = 1", "source has no text with {task} and 8 <image>"),
        ("grm", "def (", "source is no Python"),
        ("grm", SOURCE.replace("after <image>", "after"), "source has no text with {task} and 8 <image>"),
        ("roboreward", "# card", "card has no question that asks for ANSWER:"),
        ("vlac", "x", "published wording of 'vlac' cannot be read, must be of one of grm, roboreward"),
    ],
)
def test_a_file_without_it_is_refused(tmp_path: Path, family: str, content: str, why: str) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    with pytest.raises(RewardError, match=re.escape(why)):
        published_prompt(family, path)
    with pytest.raises(RewardError, match=r"published wording of 'vlac'|must be a text file that can be read"):
        published_prompt(family, tmp_path / "nowhere")


def test_what_is_there_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "README.md").write_text(CARD)
    assert main(["reward", "prompt", "roboreward", str(tmp_path), "--out", str(tmp_path / "README.md")]) == 1
    assert "must be a new one" in capsys.readouterr().err
    assert (tmp_path / "README.md").read_text() == CARD


def test_the_one_shot_text_of_vlac_can_be_written_with_a_prompt_file(tmp_path: Path) -> None:
    path = tmp_path / "vlac.txt"
    path.write_text(
        "[reference]\nStep {number} ({percent} %) {image};\n[pair_reference]\n{reference}Then {first}.\n"
        "{before} or {after} for {task}?"
    )
    backend = Spoken(lambda prompt: "+10")
    model = vlac.Vlac(backend, VlacSettings(server=SERVER, references=3), read_prompt_file(str(path), vlac.WORDINGS))
    task = instruction(reference=5)
    model.score_pairs([PairQuery(instruction=task, start=frame(0.0), before=frame(0.2), after=frame(0.4))])
    (prompt,) = backend.prompts
    said = re.sub(r"<image [^>]*>", "IMAGE", words(prompt))
    assert said.endswith(
        "Step 1 (0 %) IMAGE;\nStep 2 (50 %) IMAGE;\nStep 3 (100 %) IMAGE;\nThen IMAGE.\n"
        "IMAGE or IMAGE for put the peg into the socket?\n"
    )
    path.write_text("[reference]\n{percent}")
    with pytest.raises(RewardError, match=r"lacks the placeholder \{image\}"):
        read_prompt_file(str(path), vlac.WORDINGS)
