"""The fast path, bf16 and on a GPU recorded updates too, gives the losses of eager float32 within a tolerance.

What needs a GPU is skipped without one.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from policies.learner import LearnerSpec
from policies.precision import FAST_BF16
from policies.registry import ALGORITHMS
from tests.policies.small_task import SPEC, through_a_file
from tests.policies.test_all_algorithms import SMALL, TWO_ARMS, batch, sized

pytestmark = pytest.mark.long

UPDATES = 50
WIDE = {"head": 32, "hidden": (64, 64), "critics": 4, "critic_subset": 2}
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


def losses(made: Any, device: str, numbers: range, spec: LearnerSpec = TWO_ARMS) -> list[dict[str, float]]:
    updates = (made.update(batch(number, sized(made.name, spec)).to(device)) for number in numbers)
    return [{name: float(value) for name, value in metrics.items()} for metrics in updates]


def learner(name: str, device: str, spec: LearnerSpec = TWO_ARMS, **settings: Any) -> Any:
    algorithm = ALGORITHMS[name]
    return algorithm.builders().learner(
        sized(name, spec), algorithm.config(**SMALL[name] | settings), seed=0, device=device
    )


def assert_close(found: list[dict[str, float]], wanted: list[dict[str, float]], **tolerance: float) -> None:
    for got, expected in zip(found, wanted, strict=True):
        assert got == pytest.approx(expected, **tolerance)


@pytest.fixture
def float32(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in FAST_BF16:
        monkeypatch.setitem(FAST_BF16, kind, False)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("spec", "tolerance"), [(SPEC, 0.01), (TWO_ARMS, 0.1)])
def test_bf16_gives_the_losses_of_float32_within_tolerance(
    spec: LearnerSpec, tolerance: float, device: str, float32: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With grippers the best of two choices that are nearly as good may be the other, which is seen among 16 rows."""
    exact = losses(learner("rlpd", "cpu", spec, **WIDE), "cpu", range(UPDATES), spec)
    monkeypatch.setitem(FAST_BF16, device, True)
    fast = losses(learner("rlpd", device, spec, **WIDE), device, range(UPDATES), spec)
    assert fast != exact
    assert_close(fast, exact, rel=tolerance, abs=tolerance)


@needs_gpu
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_gpu_in_float32_gives_the_losses_of_the_host(name: str, float32: None) -> None:
    host = losses(learner(name, "cpu"), "cpu", range(UPDATES))
    assert_close(losses(learner(name, "cuda"), "cuda", range(UPDATES)), host, rel=1e-3, abs=1e-3)


@needs_gpu
@pytest.mark.parametrize("name", sorted(ALGORITHMS.keys() - {"bc", "hg_dagger"}))
def test_recorded_updates_give_the_losses_of_eager_ones(name: str) -> None:
    recorded, eager = learner(name, "cuda"), learner(name, "cuda")
    for part in (eager, getattr(eager, "_rlpd", None)):
        if part is not None and hasattr(part, "_graphs"):
            part._graphs = None
    wanted = losses(eager, "cuda", range(UPDATES))
    assert_close(losses(recorded, "cuda", range(UPDATES)), wanted, rel=1e-5, abs=1e-6)
    parts = [part for part in (recorded, getattr(recorded, "_rlpd", None)) if hasattr(part, "_graphs")]
    assert any(part._graphs._recorded for part in parts)


@needs_gpu
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_a_resumed_learner_on_a_gpu_goes_on_with_its_losses(name: str) -> None:
    first, other = learner(name, "cuda"), learner(name, "cuda")
    losses(first, "cuda", range(20))
    losses(other, "cuda", range(100, 120))  # it has graphs already, of other optimiser states
    other.load_state_dict(through_a_file(first.state_dict()))
    wanted = losses(first, "cuda", range(20, 40))
    assert_close(losses(other, "cuda", range(20, 40)), wanted, rel=1e-5, abs=1e-6)


@needs_gpu
@pytest.mark.parametrize(("before", "after"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_checkpoint_goes_from_one_device_to_the_other(before: str, after: str, float32: None) -> None:
    first, other = learner("rlpd", before), learner("rlpd", after)
    losses(first, before, range(20))
    other.load_state_dict(through_a_file(first.state_dict()))
    wanted = losses(first, before, range(20, 40))
    assert_close(losses(other, after, range(20, 40)), wanted, rel=1e-3, abs=1e-3)


def test_rlpd_stays_in_float32_where_its_settings_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def losses_of(allowed: bool, *, bf16: bool) -> list[dict[str, float]]:
        monkeypatch.setitem(FAST_BF16, "cpu", allowed)
        return losses(learner("rlpd", "cpu", bf16=bf16, critic_actor_ratio=1), "cpu", range(3))

    exact = losses_of(False, bf16=True)
    assert losses_of(True, bf16=False) == exact
    assert losses_of(True, bf16=True) != exact


def test_options_of_optimisers_are_those_of_the_device_not_of_the_checkpoint() -> None:
    first, other = learner("rlpd", "cpu"), learner("rlpd", "cpu")
    losses(first, "cpu", range(3))
    state = through_a_file(first.state_dict())
    for optimiser in state["optimisers"].values():
        optimiser["param_groups"][0]["capturable"] = True  # as on a GPU
    other.load_state_dict(state)
    assert not any(made.param_groups[0]["capturable"] for made in other._optimisers.values())
    assert losses(other, "cpu", range(3, 9)) == losses(first, "cpu", range(3, 9))
