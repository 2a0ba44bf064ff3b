"""Recorded updates do what the update itself does, whatever Python decides in between."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from policies.graphs import WARM_UP, Graphs
from robot_stack.types.errors import ConfigError
from tests.policies.recorded_ops import OpRecorder
from tests.policies.small_task import through_a_file
from tests.policies.test_all_algorithms import TWO_ARMS, batch, make, sized

SETTINGS: dict[str, Any] = {
    "critics": 4,
    "critic_subset": 2,
    "critic_actor_ratio": 3,
    "learning_rate": 3e-3,
}


def learner(*, recorded: bool, seed: int = 0, name: str = "rlpd", **settings: Any) -> Any:
    made = make(name, TWO_ARMS, seed, **SETTINGS | settings)
    if recorded:
        made._graphs = Graphs(OpRecorder())
    return made


def assert_same(first: Any, other: Any) -> None:
    assert first.updates == other.updates
    for name, tensor in first.actor_tensors().items():
        np.testing.assert_array_equal(other.actor_tensors()[name], tensor)
    for module in ("policy", "critic", "target"):
        for a, b in zip(getattr(first, module).parameters(), getattr(other, module).parameters(), strict=True):
            assert torch.equal(a, b), module


@pytest.mark.long
def test_recorded_updates_are_the_updates_to_the_bit() -> None:
    plain, recorded = learner(recorded=False), learner(recorded=True)
    for number in range(40):
        rows = batch(number, TWO_ARMS)
        expected, got = plain.update(rows), recorded.update(rows)
        assert expected.keys() == got.keys()
        assert all(torch.equal(expected[name], got[name]) for name in expected), number
    assert recorded._graphs._recorder.recordings == 2  # with the actor, and without
    assert_same(plain, recorded)


@pytest.mark.long
def test_layers_of_rlpd_are_recorded_too() -> None:
    settings: dict[str, Any] = {"layers": "rlpd", "head": 0, "critic_subset": 4, "subset_mean": True}
    plain, recorded = (learner(recorded=each, **settings) for each in (False, True))
    for number in range(12):
        rows = batch(number, TWO_ARMS)
        expected, got = plain.update(rows), recorded.update(rows)
        assert all(torch.equal(expected[name], got[name]) for name in expected), number
    assert_same(plain, recorded)


@pytest.mark.long
def test_contrast_is_part_of_a_recording_for_each_weight_and_a_fading_imitation_of_each() -> None:
    settings: dict[str, Any] = {
        "cql_weight_offline": 1.0,
        "cql_weight": 0.2,
        "pretrain_updates": 20,
        "bc_weight": 30.0,
        "bc_half_life": 3,
        "correction_margin": 0.2,
    }
    plain, recorded = (learner(recorded=flag, name="cal_ql", **settings) for flag in (False, True))
    for number in range(40):
        rows = batch(number, TWO_ARMS)
        expected, got = plain.update(rows), recorded.update(rows)
        assert expected.keys() == got.keys()
        assert all(torch.equal(expected[name], got[name]) for name in expected), number
    assert recorded._graphs._recorder.recordings == 4  # with the actor and without, offline and online
    assert_same(plain, recorded)


@pytest.mark.long
def test_metrics_stay_as_they_are_when_the_next_update_runs() -> None:
    made = learner(recorded=True, critic_actor_ratio=1)
    for number in range(WARM_UP + 1):
        made.update(batch(number, TWO_ARMS))
    metrics = made.update(batch(7, TWO_ARMS))
    before = {name: float(value) for name, value in metrics.items()}
    made.update(batch(8, TWO_ARMS))
    assert {name: float(value) for name, value in metrics.items()} == before


@pytest.mark.long
def test_batches_of_another_size_get_a_recording_of_their_own() -> None:
    plain, recorded = (learner(recorded=flag, critic_actor_ratio=20) for flag in (False, True))
    for number in range(16):
        rows = batch(number, TWO_ARMS)
        if number % 2:
            columns = {name: getattr(rows, name)[:10] for name in rows.__slots__ if "images" not in name}
            rows = replace(rows, **columns)
        for made in (plain, recorded):
            made.update(rows)
    assert recorded._graphs._recorder.recordings == 2
    assert_same(plain, recorded)


@pytest.mark.long
def test_loaded_state_is_what_recorded_updates_go_on_from() -> None:
    plain, recorded = learner(recorded=False), learner(recorded=True, seed=5)
    for number in range(12):
        plain.update(batch(number, TWO_ARMS))
        recorded.update(batch(number + 50, TWO_ARMS))
    recorded.load_state_dict(through_a_file(plain.state_dict()))
    for number in range(12, 30):
        expected, got = plain.update(batch(number, TWO_ARMS)), recorded.update(batch(number, TWO_ARMS))
        assert all(torch.equal(expected[name], got[name]) for name in expected), number
    assert_same(plain, recorded)


@pytest.mark.long
def test_noise_that_python_reads_while_recording_would_be_noticed() -> None:
    made = learner(recorded=True, critic_actor_ratio=1)
    compute = made._compute
    made._compute = lambda rows, chance: compute(rows, chance) | {"noise": torch.tensor(float(chance.next_noise[0, 0]))}
    for number in range(WARM_UP):
        made.update(batch(number, TWO_ARMS))
    with pytest.raises(AssertionError, match="cannot be part of a graph"):
        made.update(batch(WARM_UP, TWO_ARMS))


class Refusing(OpRecorder):
    """A device that cannot record; what it says last is not what was wrong, as with CUDA."""

    def record(self, compute: Any, *parts: Any) -> Any:
        try:
            raise RuntimeError("operation not permitted when stream is capturing")
        finally:
            raise RuntimeError("capture was invalidated")


@pytest.mark.long
def test_a_device_that_cannot_record_ends_the_run_with_what_was_wrong_and_what_to_do() -> None:
    made = learner(recorded=False, critic_actor_ratio=1)
    made._graphs = Graphs(Refusing())
    for number in range(WARM_UP):
        made.update(batch(number, TWO_ARMS))
    with pytest.raises(ConfigError, match=r"\(operation not permitted when stream .*set device: cpu in the run"):
        made.update(batch(WARM_UP, TWO_ARMS))


CHUNKED = ("act", "flow_bc", "qc", "qc_fql", "cqn", "cqn_as", "dsrl", "dsrl_on_base", "recap")
BEGUN: dict[str, dict[str, int]] = {"dsrl": {"base_updates": 8, "pretrain_updates": 8}}


@pytest.mark.long
@pytest.mark.parametrize("name", CHUNKED)
def test_recorded_updates_of_chunks_are_the_updates_to_the_bit_also_from_a_checkpoint(name: str) -> None:
    plain, recorded, other = (make(name, TWO_ARMS, seed, **BEGUN.get(name, {})) for seed in (0, 0, 5))
    for made in (recorded, other):
        made._graphs = Graphs(OpRecorder())
    for number in range(30):
        if number == 15:
            other.load_state_dict(through_a_file(plain.state_dict()))
        rows = batch(number, sized(name, TWO_ARMS))
        expected = plain.update(rows)
        for made in (recorded, other) if number >= 15 else (recorded,):
            got = made.update(rows)
            assert expected.keys() == got.keys()
            assert all(torch.equal(expected[each], got[each]) for each in expected), number
        if number < 15:
            other.update(batch(number + 50, sized(name, TWO_ARMS)))
    assert recorded._graphs._recorder.recordings == (2 if name == "dsrl" else 1)
    for made in (recorded, other):
        for tensor, wanted in zip(made.actor_tensors().values(), plain.actor_tensors().values(), strict=True):
            np.testing.assert_array_equal(tensor, wanted)
