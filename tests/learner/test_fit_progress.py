"""What an operator reads while encoder and reward model are fitted."""

from __future__ import annotations

import pytest

from robot_stack.learner.fitting import step_words


@pytest.mark.parametrize(
    ("step", "elapsed_s", "loss", "words"),
    [
        (1, 0.5, 0.25, "encoder: step 1 of 120, loss 0.2500"),
        (30, 20.0, 0.0123, "encoder: step 30 of 120, loss 0.0123, 60 s left"),
        (120, 80.0, None, "encoder: step 120 of 120, 0 s left"),
    ],
)
def test_a_step_says_how_long_it_still_takes(step: int, elapsed_s: float, loss: float | None, words: str) -> None:
    assert step_words("encoder", step, 120, elapsed_s, loss) == words


def test_nothing_to_do_is_no_division_by_zero() -> None:
    assert step_words("encoder", 0, 0, 0.0) == "encoder: step 0 of 0"
