"""The published `lerobot` package reads what is exported. It has an environment of its own: LEROBOT_PYTHON names it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from robot_stack.datasets.store_view import StoreView

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'robot-stack[export]'")
pytest.importorskip("av", reason="PyAV is not installed: pip install 'robot-stack[export]'")
PYTHON = os.environ.get("LEROBOT_PYTHON", "")


@pytest.mark.skipif(not PYTHON, reason="LEROBOT_PYTHON is not set, must name a Python with the lerobot package")
def test_published_reader_finds_every_row_and_frame(view: StoreView, tmp_path: Path) -> None:
    from robot_stack.datasets.lerobot.export import export_lerobot

    out = tmp_path / "out"
    export_lerobot(view, view.episodes, out, codec="h264", on_episode=lambda *_: None)
    script = Path(__file__).with_name("lerobot_process.py")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub"), "PYTHONPATH": ""}
    result = subprocess.run(
        [PYTHON, str(script), str(out)], env=environment, capture_output=True, text=True, timeout=240, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    episodes = [view.read(episode_id) for episode_id in view.episodes]
    assert (found["episodes"], found["frames"], found["fps"], found["task"]) == (5, 97, 10, view.text)
    actions = np.concatenate([episode.arrays["executed"] for episode in episodes])
    np.testing.assert_array_equal(np.array(found["action"], np.float32), actions)
    states = np.concatenate([episode.arrays["proprio"][:-1] for episode in episodes])
    np.testing.assert_array_equal(np.array(found["state"], np.float32), states)
    assert sum(found["reward"]) == 3
    np.testing.assert_allclose(found["mean"], actions.mean(axis=0), atol=1e-6)
    images = np.moveaxis(np.array(found["front"]), 1, -1)
    wanted = np.concatenate([episode.arrays["image_front"][:-1] for episode in episodes])
    per_frame = np.abs(images - wanted.astype(int)).mean(axis=(1, 2, 3))
    assert per_frame.max() < 6  # a neighbouring frame differs by 12
