"""Run by an interpreter that has the published `lerobot`: weights the rows of a dataset by RA-BC, and trains ACT on it.

Prints as JSON what it read, the weight of each row, and whether its trainer went on to its end. ACT is trained without
the weights: lerobot 0.6.1 takes them for policies on large pretrained models only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.rewards.sarm.rabc import RABCWeights

ROOT = Path(sys.argv[1])
CHUNK = 6
TRAIN = [
    "--dataset.repo_id=local/made", f"--dataset.root={ROOT}", "--dataset.video_backend=pyav", "--policy.type=act",
    f"--policy.chunk_size={CHUNK}", f"--policy.n_action_steps={CHUNK}", "--policy.dim_model=32", "--policy.n_heads=2",
    "--policy.dim_feedforward=32", "--policy.n_encoder_layers=1", "--policy.n_vae_encoder_layers=1",
    "--policy.latent_dim=8", "--policy.pretrained_backbone_weights=null", "--policy.device=cpu",
    "--policy.push_to_hub=false", "--steps=2", "--batch_size=4", "--num_workers=0",
    f"--output_dir={ROOT.parent / 'trained'}", "--wandb.enable=false", "--log_freq=1",
]  # fmt: skip

dataset = LeRobotDataset("local/made", root=ROOT, video_backend="pyav")
weigher = RABCWeights(ROOT / "sarm_progress.parquet", chunk_size=CHUNK, device=torch.device("cpu"))
rows = torch.arange(len(dataset))
weights = weigher._compute_weights(np.array([weigher._compute_delta(int(row)) for row in rows]))
trained = subprocess.run(
    [sys.executable, "-m", "lerobot.scripts.lerobot_train", *TRAIN], capture_output=True, text=True, check=False
)
sys.stderr.write(trained.stderr)
print(
    json.dumps(
        {
            "progress": [float(item["progress"]) for item in (dataset[i] for i in range(len(dataset)))],
            "advantage": [float(item["advantage"]) for item in (dataset[i] for i in range(len(dataset)))],
            "weights": weights.tolist(),
            "trained": trained.returncode == 0 and any((ROOT.parent / "trained").rglob("model.safetensors")),
        }
    )
)
