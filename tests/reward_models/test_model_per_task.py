"""Which of several progress models is asked is read from the frames, however many tasks there are."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from reward_models.model_per_task import ModelPerTask, nearest


@pytest.mark.parametrize("column", [-3, -5])
@pytest.mark.parametrize("task", [0, 1, 2])
def test_the_model_of_the_task_that_the_frames_tell_is_asked(column: int, task: int) -> None:
    codes = {name: tuple(np.eye(3)[place]) for place, name in enumerate("abc")}
    models = {name: SimpleNamespace(version=name, text=name) for name in codes}
    frames = np.full((4, 9), 7.0, np.float32)
    frames[:, np.arange(column, column + 3)] = np.eye(3)[task]
    assert ModelPerTask(models, codes, column).of(frames).text == "abc"[task]  # type: ignore[arg-type]


def test_a_code_that_was_rounded_is_still_that_of_its_task() -> None:
    assert nearest([(1.0,), (-1.0,)], [-0.9]) == (-1.0,)
    assert nearest([(1.0, 0.0), (0.0, 1.0)], np.array([0.2, 0.9])) == (0.0, 1.0)
