"""What the shells get."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from robot_stack.cli.main import VERBS, main


def test_bash_completes_verbs_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert shutil.which("bash")
    ask = 'COMP_WORDS=({words}); COMP_CWORD={index}; _shtab_robot_stack; echo "${{COMPREPLY[*]}}"'

    def completed(*words: str) -> list[str]:
        text = script + "\n" + ask.format(words=" ".join(words), index=len(words) - 1)
        done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=240, check=True)
        return done.stdout.split()

    assert set(completed("robot-stack", "re")) == {verb for verb in VERBS if verb.startswith("re")}
    assert completed("robot-stack", "doctor", "--dr") == ["--dry"]


def test_another_shell_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["completion", "fish"])
    assert end.value.code == 2
    assert "zsh" in capsys.readouterr().err
