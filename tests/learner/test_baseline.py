"""The imitation baseline of a run learns what was demonstrated, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from benchmarks import tiny_run
from policies.bc.config import BCConfig
from policies.encoders.embedded import EmbeddedTrunk
from robot_stack.config.resolve import load_run
from robot_stack.learner.baseline import train_bc
from robot_stack.learner.fitting import image_shapes, write_tensors
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.rows import FitRow
from robot_stack.types.command import Source
from robot_stack.types.observation import Observation
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step
from tests.learner.driven import Driven

RESOLVED = load_run("peg_insert", ["task.arm.gripper=discrete"])
SPEC = RESOLVED.spec()
DEMO = "000001-demo-a"
TINY = BCConfig(pretrain_updates=4, batch_size=8, hidden=(16,), head=8)


def learned(
    folder: Path, *, pressed: bool, entry: float, tail: Source = Source.HUMAN, last: float = 0.0
) -> dict[str, torch.Tensor]:
    """Weights after a demonstration whose gripper entries are all `entry`, and whose last two actions are `last`."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    with EpisodeStore(folder / "store", SPEC, "peg_insert") as store:
        store.begin(
            EpisodeHeader(episode_id=DEMO, kind=EpisodeKind.DEMO, task="peg_insert", actor="a", started_unix_s=1.0)
        )
        for t in range(7):
            executed = rng.uniform(-1, 1, SPEC.action_size).astype(np.float32)
            executed[list(SPEC.gripper_indices)] = entry
            executed[:2] += last * (t >= 4)
            row = ActionRow(
                executed=executed, proposed=executed, human=executed, source=Source.HUMAN if t < 4 else tail,
                gripper_pressed=pressed,
                params_version=0,
            )  # fmt: skip
            observation = Observation(
                images={c.name: rng.integers(0, 256, c.shape, np.uint8) for c in SPEC.cameras},
                proprio=rng.uniform(-1, 1, SPEC.proprio_size).astype(np.float32),
                stamp_ns=t * 100_000_000,
            )
            at_end = t == 6
            store.append(
                Step(
                    episode_id=DEMO, index=t, observation=observation, action=None if at_end else row,
                    end=EndReason.SUCCESS if at_end else None,
                )
            )  # fmt: skip
    torch.manual_seed(0)
    trunk = EmbeddedTrunk(image_shapes(SPEC), SPEC.action_size)
    write_tensors(
        folder / "trunk.safetensors",
        trunk.state_dict(),
        {"identity": trunk.identity, "reference": json.dumps(trunk.reference)},
    )
    metrics = MetricsLog(folder / "metrics.jsonl")
    metrics.log(FitRow(demo_ids=[DEMO]))
    metrics.close()
    return load_file(train_bc(RESOLVED, folder, TINY))


@pytest.mark.parametrize("pressed", [True, False])
def test_what_the_gripper_did_in_a_demonstration_is_imitated_pressed_or_not(pressed: bool, tmp_path: Path) -> None:
    closed, opened = (learned(tmp_path / str(entry), pressed=pressed, entry=entry) for entry in (-1.0, 1.0))
    assert not all(torch.equal(closed[name], opened[name]) for name in closed)


@pytest.mark.long
@pytest.mark.parametrize(("tail", "imitated"), [(Source.HUMAN, True), (Source.IDLE, False), (Source.HOLD, False)])
def test_steps_without_an_operators_motion_are_not_imitated(tail: Source, imitated: bool, tmp_path: Path) -> None:
    one, other = (learned(tmp_path / str(last), pressed=True, entry=1.0, tail=tail, last=last) for last in (0.0, 0.25))
    assert all(torch.equal(one[name], other[name]) for name in one) is not imitated


@pytest.mark.long
def test_the_baseline_is_what_a_run_of_behaviour_cloning_learns_from_the_same_demonstrations(tmp_path: Path) -> None:
    sizes = [f"cameras.{name}.policy_{side}_px=16" for name in ("wrist", "front") for side in ("width", "height")]
    around = [each for each in tiny_run.TINY if not each.startswith("algorithm.")]
    settings = {"pretrain_updates": 4, "batch_size": 8, "hidden": "[16]", "head": 8}
    chosen = ["algorithm.name=bc", *(f"algorithm.settings.{name}={value}" for name, value in settings.items())]
    resolved = load_run("peg_insert", [*around, *sizes, *chosen])
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.yaml").write_text(resolved.to_yaml())
    run = Driven(folder, resolved)
    run.demonstrate()
    run.start()
    wanted = run.loop.publisher.seal().tensors
    run.close()
    found = load_file(train_bc(resolved, folder, TINY))
    assert set(found) == set(wanted)
    for name, tensor in wanted.items():
        np.testing.assert_array_equal(found[name].numpy(), tensor, err_msg=name)
