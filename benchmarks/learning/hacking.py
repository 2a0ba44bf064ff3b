"""A reward model that can be fooled: how long it is believed, and whether the run recovers.

Run: python -m benchmarks.learning.hacking [--quick]

The first version sees success, and Φ = 1, wherever the hand has come 2 cm nearer to the front camera than it started,
on top of what it learnt from the demonstrations. Nothing else is planted: the proprio gate that would stop most of
this is off, the alarms must notice from what the operator refuses, and the refits that follow are the ordinary ones.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.learning.lockstep import LAST, train_online
from reward_models.progress.model import FrameScores, ProgressModel
from robot_stack.config.resolve import load_run
from robot_stack.learner import fitting
from robot_stack.runs.metrics import read_rows
from robot_stack.runs.rows import AlarmRow, EpisodeRow, MetricsRow, RewardFitRow, of_kind
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EpisodeKind

TOO_NEAR_M = 0.02
MINUTES, QUICK_MINUTES = 5.0, 1.0


class FooledModel(ProgressModel):
    """Calls it done where the hand is near the front camera, which stands across the table, at +x."""

    towards_camera: int

    def score(self, frames: np.ndarray, start: int = 0) -> FrameScores:
        """As the model does, but for the hand near the camera."""
        honest = super().score(frames, start)
        fooled = frames[start:, self.towards_camera] > TOO_NEAR_M
        return honest._replace(
            progress=np.where(fooled, np.float32(1), honest.progress),
            success=np.where(fooled, np.float32(1), honest.success),
        )


def plant(spec: Spec) -> Any:
    """Context in which the first reward model that is fitted is a fooled one."""
    fit, planted = fitting.fit_reward, []

    def fit_reward(*arguments: Any, **options: Any) -> Any:
        model, report, judged = fit(*arguments, **options)
        if not planted:
            planted.append(model)
            model.__class__ = FooledModel
            model.towards_camera = model.inputs - spec.proprio_size + spec.part("tcp_pose").start
        return model, report, judged

    return mock.patch.object(fitting, "fit_reward", fit_reward)


def measure(quick: bool) -> dict[str, float]:
    """Episodes until the alarm and until a version is trusted again; success without help at the end."""
    torch.set_num_threads(1)
    resolved = load_run(
        "peg_insert",
        [
            f"run.training.max_robot_minutes={QUICK_MINUTES if quick else MINUTES}",
            "run.training.max_episodes=100000",
            "run.training.enough.episodes=10000",
            "task.success.gate={}",
        ],
    )
    with tempfile.TemporaryDirectory() as work, plant(resolved.spec()):
        folder = Path(work) / "hacking"
        train_online(resolved, folder)
        rows = read_rows(folder / "metrics.jsonl").rows
    return figures(rows)


def figures(rows: list[MetricsRow]) -> dict[str, float]:
    """What became of it, from the metrics of the run, in the order they were written."""
    online = [row for row in of_kind(rows, EpisodeRow) if row.episode_kind is EpisodeKind.ONLINE]
    alarms, fits = of_kind(rows, AlarmRow), of_kind(rows, RewardFitRow)
    first = fits[0].version
    false_claims = [row.refused for row in online]
    hacked = alarms and alarms[0].version == first
    last_cause = max((_number(name) for name in alarms[0].episodes), default=0) if hacked else 0
    numbers = [_number(row.episode_id) for row in online]
    lost = {alarm.version for alarm in alarms}
    good = [fit for fit in fits[1:] if fit.version not in lost]
    return {
        "hack_first_claim_episode": float(1 + false_claims.index(True)) if True in false_claims else np.nan,
        "hack_alarm_episode": float(sum(n <= last_cause for n in numbers)) if hacked else np.nan,
        "hack_trusted_again_episode": float(good[0].online_episodes) if good else np.nan,
        "hack_refused_claims": float(sum(false_claims)),
        "hack_refused_last20": float(sum(false_claims[-LAST:])),
        "hack_alone_last20": float(np.mean([row.success and row.alone for row in online[-LAST:]])),
        "hack_episodes": float(len(online)),
    }


def _number(episode_id: str) -> int:
    return int(episode_id.split("-", 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    for name, value in measure(parser.parse_args().quick).items():
        print(f"{name} {value:g}")


if __name__ == "__main__":
    main()
