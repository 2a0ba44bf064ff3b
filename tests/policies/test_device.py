"""Which device is chosen, and that every operation of an update stays on it, without a GPU to try it on."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from typing import Any

import pytest
import torch

from policies import precision
from policies.device import find_device
from policies.optimiser import make_adam
from policies.precision import FAST_BF16
from policies.registry import ALGORITHMS
from robot_stack.types.errors import ConfigError
from tests.policies.test_all_algorithms import CASES, SMALL, Case

pytestmark = pytest.mark.long

GRIPPERS = "two arms with grippers"
"""The only case with discrete grippers."""
SHOWN = ("hg_dagger", "qc", "residual", "rlpd")
"""Of those with grippers, one for each way in which a learner handles them."""


def rare(name: str) -> bool:
    algorithm, _, arms = name.partition(", ")
    return arms == GRIPPERS and algorithm not in SHOWN


def plain_adam(parameters: Any, learning_rate: float) -> torch.optim.Adam:
    return torch.optim.Adam(list(parameters), learning_rate)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> str:
    """A device other than the host's, of shapes alone, on which most operations refuse tensors of the host."""
    for module in [each for each in sys.modules.values() if getattr(each, "make_adam", None) is make_adam]:
        monkeypatch.setattr(module, "make_adam", plain_adam)
    monkeypatch.setitem(FAST_BF16, "meta", False)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    return "meta"


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if rare(name) else []) for name in CASES])
def test_updates_run_on_the_device_alone(name: str, elsewhere: str) -> None:
    case: Case = CASES[name]
    algorithm = ALGORITHMS[case.name]
    settings = {"head": 8, "hidden": (16,), **SMALL[case.name], **({"chunk": case.chunk} if case.chunk > 1 else {})}
    made = algorithm.builders().learner(case.sizes, algorithm.config(**settings), seed=0, device=elsewhere)
    for number in range(8):
        metrics = made.update(case.batch(number).to(elsewhere))
        assert {value.device.type for key, value in metrics.items() if key != "guide_steps"} == {elsewhere}


def test_host_tensors_among_others_are_noticed(elsewhere: str) -> None:
    case = CASES["rlpd, one arm"]
    algorithm = ALGORITHMS["rlpd"]
    made = algorithm.builders().learner(case.spec, algorithm.config(head=8, hidden=(16,)), seed=0, device=elsewhere)
    with pytest.raises(RuntimeError, match="is not on the expected device"):
        made.update(case.batch(0))


def test_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == find_device("cpu") == "cpu"
    with pytest.raises(ConfigError, match=r"run\.device is 'cuda', must be 'auto' or 'cpu' where torch finds no GPU"):
        find_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [find_device(wanted) for wanted in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]


def test_a_torch_that_does_not_tell_the_processors_capabilities_makes_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    found = importlib.util.spec_from_file_location("precision_of_an_older_torch", precision.__file__)
    assert found is not None
    assert found.loader is not None
    older = importlib.util.module_from_spec(found)
    found.loader.exec_module(older)
    assert older.FAST_BF16 == {"cpu": False, "cuda": True}
