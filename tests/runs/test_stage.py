"""What a run does once its cell has stopped."""

from __future__ import annotations

import pytest

from robot_stack.runs.paths import RunPaths
from robot_stack.runs.stage import Stage, StageName


@pytest.mark.parametrize("name", list(StageName))
def test_a_stage_is_read_as_it_was_written(tmp_path, name):
    stage = Stage(name=name, text="20 held-out resets", share=0.4, result=("policy: 19 of 20",), next_step="eval sim")
    stage.write(tmp_path)
    assert Stage.read(tmp_path) == stage
    assert stage.final == (name in (StageName.ENDED, StageName.FAILED))
    Stage.begin(tmp_path)
    assert Stage.read(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "nonsense"}', '{"name": "ended"}'])
def test_a_file_that_nobody_can_read_says_nothing(tmp_path, text):
    RunPaths(tmp_path).stage.write_text(text)
    assert Stage.read(tmp_path) is None
