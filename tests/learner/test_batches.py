"""Batches gathered on a device are those gathered on the host, to the bit, whatever arrives in between."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.tiny_run import write_run
from policies.learner import TensorBatch
from robot_stack.learner import preparation
from robot_stack.learner.data import device_rows
from robot_stack.learner.data.batches import DeviceBatches, HostBatches, make_batches
from robot_stack.learner.data.device_rows import DeviceRows
from robot_stack.replay.hindsight import Hindsight
from robot_stack.replay.replay import Replay
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.transition import EndReason
from tests.examples import examples
from tests.learner.driven import Driven
from tests.replay.recorded import header_of, small_spec, steps_of
from tests.replay.synthetic_episodes import FEATURES, arrivals, begin_all, recordings, take, two_handed_spec

pytestmark = pytest.mark.long

SPEC = two_handed_spec()
ANEW = Hindsight(share=0.5, desired=slice(0, 1), achieved=slice(1, 2), within=2.0)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


@pytest.fixture(autouse=True)
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns grow often, and few images fit."""
    monkeypatch.setattr(device_rows, "FIRST_ROWS", 4)
    monkeypatch.setattr(device_rows, "_free_bytes", lambda device: 10**9)


def assert_same(found: TensorBatch, wanted: TensorBatch) -> None:
    for field in fields(wanted):
        here, there = getattr(found, field.name), getattr(wanted, field.name)
        assert type(here) is type(there)
        pairs = {"": (here, there)} if isinstance(there, torch.Tensor) else {n: (here[n], there[n]) for n in there}
        for name, (got, expected) in pairs.items():
            got = got.cpu()
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), field.name
            np.testing.assert_array_equal(got.numpy(), expected.numpy(), err_msg=f"{field.name} {name}")


def both(replay: Replay, batches: DeviceBatches, seed: int, **options: Any) -> bool:
    """Draw with two generators of one seed; False where there is nothing to draw."""
    first, other = np.random.default_rng(seed), np.random.default_rng(seed)
    try:
        wanted = HostBatches(replay).sample(first, 32, **options)
    except StoreError:
        return False
    assert_same(batches.sample(other, 32, **options), wanted)
    assert first.bit_generator.state == other.bit_generator.state
    return True


@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_batches_are_the_same_while_episodes_features_and_labels_arrive(device: str, choose: st.DataObject) -> None:
    recorded, trunk = choose.draw(recordings(SPEC)), choose.draw(st.booleans())
    n_step = choose.draw(st.integers(1, 4))
    options = {"gamma": 0.9, "n_step": n_step, "chunk": choose.draw(st.sampled_from([1, n_step]))}
    window = choose.draw(st.integers(0, 3))
    hindsight = choose.draw(st.sampled_from([None, ANEW]))
    replay = Replay(
        SPEC, feature_size=FEATURES * trunk, keep_images=not trunk, imitation_window=window, hindsight=hindsight
    )
    begin_all(replay, recorded)
    replay.activate_scores("new")
    batches = DeviceBatches(replay, device)
    for number, item in enumerate(arrivals(choose, recorded, trunk=trunk)):
        take(replay, item)
        fraction = choose.draw(st.sampled_from([0.0, 0.5, 1.0])) if number % 3 == 0 else 0.5
        both(replay, batches, number, expert_fraction=fraction, shift=0 if trunk else number % 4, **options)


def recorded_images(replay: Replay, names: str) -> None:
    rng = np.random.default_rng(3)
    for name in names:
        replay.begin(header_of(name))
        for step in steps_of(small_spec(), name, [Source.POLICY] * 20):
            for image in step.observation.images.values():
                image[:] = rng.integers(0, 256, image.shape, np.uint8)
            replay.add_step(step)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fitting", [1, 15, 40, 1000])
def test_images_that_do_not_fit_come_from_the_host(device: str, fitting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    replay = Replay(small_spec())
    free = int(fitting * replay.frames.images.row_bytes / device_rows.MEMORY_SHARE)
    monkeypatch.setattr(device_rows, "_free_bytes", lambda device: free)
    batches = DeviceBatches(replay, device)
    for number, name in enumerate("abc"):
        recorded_images(replay, name)
        for shift in (0, 3):
            assert both(replay, batches, number, gamma=0.9, expert_fraction=0.0, shift=shift)
    assert batches._images is not None
    assert len(batches._images._rows["front"]) <= fitting
    for seed in range(8):  # and where all is there at the first draw, as after a restart
        assert both(replay, DeviceBatches(replay, device), seed, gamma=0.9, expert_fraction=0.0, shift=3)


def test_a_row_is_fetched_once() -> None:
    asked: list[int] = []

    def fetch(rows: np.ndarray) -> dict[str, np.ndarray]:
        asked.extend(rows.tolist())
        return {"twice": 2.0 * rows, "pair": np.stack([rows, -rows], axis=1)}

    rows = DeviceRows(fetch, "cpu", limit=50)
    rng = np.random.default_rng(0)
    for _ in range(40):
        chosen = rng.integers(0, 60, 8)
        rows.hold(chosen)
        here = torch.from_numpy(chosen[chosen < 50])
        assert torch.equal(rows["twice"][here], 2.0 * here)
        assert torch.equal(rows["pair"][here], torch.stack([here, -here], dim=1))
    assert sorted(asked) == sorted(set(asked))
    assert max(asked) < 50


def test_a_learner_on_the_cpu_reads_the_replay_itself() -> None:
    assert isinstance(make_batches(Replay(small_spec()), "cpu"), HostBatches)


def test_what_is_past_the_end_of_an_episode_is_any_action_and_shown_by_nobody() -> None:
    """A critic of chunks must not take it for rest: zeros there would say that an episode ends well where it stops."""
    spec = small_spec()
    replay = Replay(spec)
    replay.begin(header_of("a"))
    for step in steps_of(spec, "a", [Source.HUMAN] * 3, EndReason.SUCCESS):
        if step.action is not None:
            step.action.executed[:] = 0.1 * (step.index + 1)
        replay.add_step(step)
    batches = DeviceBatches(replay, "cpu")
    assert both(replay, batches, 0, gamma=0.9, expert_fraction=1.0, n_step=5, chunk=5)
    batch = batches.sample(np.random.default_rng(0), 64, gamma=0.9, expert_fraction=1.0, n_step=5, chunk=5)
    assert not batch.human[:, 3:].any()
    behind = slice(3 * spec.action_size, None)
    assert not batch.label[:, behind].any()
    first = batch.action[:, 0]
    assert torch.equal(batch.action[:, -1], first.roll(1)), "the first action of the row before"
    assert sorted(set(batch.action[:, behind].flatten().tolist())) == pytest.approx([0.1, 0.2, 0.3])


def test_a_run_that_keeps_its_rows_on_a_device_learns_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def train_online(run: Driven) -> None:
        run.begin("000002-online-a")
        run.send("000002-online-a", end="success")

    losses = []
    for made in (HostBatches, DeviceBatches):
        arguments = () if made is HostBatches else ("cpu",)
        monkeypatch.setattr(
            preparation, "make_batches", lambda replay, _, made=made, more=arguments: made(replay, *more)
        )
        folder = tmp_path / made.__name__
        run = Driven(folder, write_run(folder, "algorithm.settings.utd=20.0", "device=cpu"))
        run.demonstrate()
        run.start()
        run.run(60, {20: train_online})
        losses.append(run.told.losses)
        run.close()
    assert len(losses[0]) == 40
    assert losses[0] == losses[1]
