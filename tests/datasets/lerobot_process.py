"""Run by an interpreter that has the published `lerobot`: reads a dataset with it and says what is in it, as JSON."""

from __future__ import annotations

import json
import sys

from lerobot.datasets.lerobot_dataset import LeRobotDataset

dataset = LeRobotDataset("local/made", root=sys.argv[1], video_backend="pyav")
items = [dataset[i] for i in range(len(dataset))]
print(
    json.dumps(
        {
            "episodes": dataset.num_episodes,
            "frames": dataset.num_frames,
            "fps": dataset.fps,
            "task": items[0]["task"],
            "keys": sorted(items[0]),
            "action": [item["action"].tolist() for item in items],
            "state": [item["observation.state"].tolist() for item in items],
            "reward": [float(item["next.reward"]) for item in items],
            "episode_index": [int(item["episode_index"]) for item in items],
            "front": [(item["observation.images.front"] * 255).round().int().tolist() for item in items],
            "mean": dataset.meta.stats["action"]["mean"].tolist(),
        }
    )
)
