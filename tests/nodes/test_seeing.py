"""What an operator sees crosses the wire whole, of one arm or of two."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.nodes.seeing import seen_from_vector, seen_to_vector
from robot_stack.types.errors import SpecError
from sim.hands import Seen


@pytest.mark.parametrize("arms", [1, 2])
def test_what_is_seen_crosses_the_wire_whole(arms: int) -> None:
    rng = np.random.default_rng(0)
    tcp, goal, grasp = rng.normal(size=(3, arms, 4))
    sent = Seen(
        stamp_ns=5, tcp=tcp, goal=goal, grasp=grasp, opening=rng.random(arms), force_n=3.5, done=True, lost=False,
        stage=2,
    )  # fmt: skip
    heard = seen_from_vector(seen_to_vector(sent), 5)
    for name in ("tcp", "goal", "grasp", "opening"):
        np.testing.assert_array_equal(getattr(heard, name), getattr(sent, name))
    assert (heard.stamp_ns, heard.force_n, heard.done, heard.lost, heard.stage) == (5, 3.5, True, False, 2)


@pytest.mark.parametrize("size", [4, 12, 16, 18])
def test_a_view_of_another_length_is_refused(size: int) -> None:
    with pytest.raises(SpecError, match="start all processes alike"):
        seen_from_vector(np.zeros(size), 0)
