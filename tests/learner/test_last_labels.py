"""The learner waits for what is said of the last episode before it writes the episode's row."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from robot_stack.learner import online_training
from robot_stack.learner.online_training import await_last_labels
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.transition import EndReason


def account(**verdicts: Verdict) -> Any:
    return SimpleNamespace(end=EndReason.SUCCESS, verdicts={LabelSource(name): told for name, told in verdicts.items()})


def test_the_truth_that_comes_behind_an_operators_verdict_is_waited_for() -> None:
    last = account(operator=Verdict.SUCCESS)
    known: Any = SimpleNamespace(accounts=[account(operator=Verdict.SUCCESS, truth=Verdict.SUCCESS), last])
    waiting = threading.Thread(target=await_last_labels, args=(known, threading.Event()))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    last.verdicts[LabelSource.TRUTH] = Verdict.SUCCESS
    waiting.join(10.0)
    assert not waiting.is_alive()


@pytest.mark.parametrize(
    "accounts",
    [
        [],
        [account(operator=Verdict.SUCCESS), account(operator=Verdict.FAILURE)],  # a real cell knows no truth
        [account(operator=Verdict.SUCCESS, truth=Verdict.SUCCESS)],
        [account(truth=Verdict.SUCCESS), SimpleNamespace(end=None, verdicts={})],
    ],
)
def test_nothing_is_waited_for_that_will_not_come(accounts: list[Any]) -> None:
    known: Any = SimpleNamespace(accounts=accounts)
    started_s = time.monotonic()
    await_last_labels(known, threading.Event())
    assert time.monotonic() - started_s < online_training.LABELS_WITHIN_S


def test_the_wait_is_bounded_and_ends_with_the_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    silent: Any = SimpleNamespace(accounts=[account()])
    over = threading.Event()
    over.set()
    await_last_labels(silent, over)
    monkeypatch.setattr(online_training, "LABELS_WITHIN_S", 0.1)
    await_last_labels(silent, threading.Event())
