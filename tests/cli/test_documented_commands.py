"""Commands in README and docs/: each is one that the parser takes, and those that need nothing are run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from robot_stack.cli.main import main, parser

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
"""Pages whose commands need each other; test_tutorials.py runs them in order."""
PAGES = [ROOT / "README.md", *sorted(set((ROOT / "docs").rglob("*.md")) - set(TUTORIALS.glob("*.md")))]
NEEDS_NOTHING = ("show", "init", "foxglove", "rviz", "completion", "certs")
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b|…|\[")


def commands() -> list[tuple[str, tuple[str, ...]]]:
    """Page and words after `robot-stack` of every command in a block of shell or between backticks."""
    found = []
    for page in PAGES:
        text = page.read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
        lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
        for line in [*lines, *re.findall(r"`([^`\n]+)`", text)]:
            match = re.match(r"(?:\S*/)?robot-stack (.*)", line)
            if match:
                words = shlex.split(re.split(r"\s[|>&]", match[1])[0], comments=True)
                found.append((page.relative_to(ROOT).as_posix(), tuple(words)))
    return list(dict.fromkeys(found))


COMMANDS = commands()
RUNNABLE = sorted(
    {words for _, words in COMMANDS if words[0] in NEEDS_NOTHING and words[1:] and not PLACEHOLDER.search(str(words))}
)


def test_there_are_commands_and_some_can_be_run() -> None:
    assert len(COMMANDS) > 20
    assert len({words[0] for words in RUNNABLE}) >= 2


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=lambda value: " ".join(value) if value else "")
def test_the_parser_takes_it(page: str, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Without options it may be a mere name, as in "start it with `robot-stack up`"."""
    ended = ""
    try:
        parser().parse_args(words)
    except SystemExit as end:
        ended = f"{end.code}: {capsys.readouterr().err}" if end.code else ""
    assert not ended or ("required" in ended and not any(word.startswith("-") for word in words)), (page, ended)


@pytest.mark.parametrize("words", RUNNABLE, ids=" ".join)
def test_it_runs(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(list(words)) == 0
