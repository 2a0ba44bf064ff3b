"""What is fitted between the demonstrations and the practice: the trunk, and the reward model, then again later."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save

from policies.encoders.embedded import EmbeddedConfig, EmbeddedTrunk, fit_trunk
from policies.learner import LearnerSpec
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig
from reward_models.progress.model import FitReport, ProgressModel
from robot_stack.replay.durable import disk_errors, write_durable
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.run.training_data import demo_frames
from robot_stack.types.errors import ResumeError
from robot_stack.types.spec import Spec

OnStep = Callable[[int, int, float], None]
"""Told (step, steps, loss) after each step of a fit; may raise `FitStopped`."""


class FitStopped(Exception):
    """A fit was told to end before it was done; nothing of it is kept."""


def unless(stop: threading.Event, say: OnStep = lambda step, steps, loss: None) -> OnStep:
    """`say`, until `stop` is set: then the fit ends with FitStopped."""

    def on_step(step: int, steps: int, loss: float) -> None:
        if stop.is_set():
            raise FitStopped
        say(step, steps, loss)

    return on_step


def image_shapes(spec: Spec) -> dict[str, tuple[int, int, int]]:
    """Camera -> shape of its images."""
    return {camera.name: camera.shape for camera in spec.cameras}


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """safetensors, durable on return.

    Raises:
        StoreError: If the disk refuses; what was there before is untouched.
    """
    content = save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata)
    with disk_errors(f"writing {path.name}"):
        write_durable(path, content)


def saved_identity(path: Path) -> str | None:
    """Identity of the trunk in a file, without loading it; None without a readable one."""
    try:
        with safe_open(path, "np") as file:
            return str(file.metadata()["identity"])
    except (OSError, KeyError, TypeError, SafetensorError):
        return None


def load_trunk(path: Path, spec: Spec) -> EmbeddedTrunk:
    """The frozen trunk of a run.

    Raises:
        ResumeError: If the file does not fit the cell's cameras.
    """
    tensors = load_file(path)
    trunk = EmbeddedTrunk(image_shapes(spec), len(tensors["to_go.bias"]))
    try:
        trunk.load_state_dict(tensors)
    except RuntimeError as error:
        raise ResumeError(f"trunk {path} does not fit the cameras of this cell: {error}") from error
    return trunk.requires_grad_(False).eval()


def fit_or_load_trunk(
    path: Path, demos: Sequence[StoredEpisode], spec: Spec, config: EmbeddedConfig, *, seed: int, on_step: OnStep
) -> EmbeddedTrunk:
    """The trunk of this run; trained once on its demonstrations, then frozen for good."""
    if path.exists():
        return load_trunk(path, spec)
    trunk = fit_trunk([demo_frames(demo) for demo in demos], image_shapes(spec), config, seed=seed, on_step=on_step)
    write_tensors(path, trunk.state_dict(), {"identity": trunk.identity})
    return trunk


def learner_spec(trunk: EmbeddedTrunk, demos: Sequence[StoredEpisode], spec: Spec) -> LearnerSpec:
    """Sizes, and the scale of proprio in the demonstrations."""
    proprio = np.concatenate([demo.arrays["proprio"] for demo in demos])
    return LearnerSpec(
        slices=trunk.slices,
        proprio_mean=torch.from_numpy(proprio.mean(axis=0)),
        proprio_std=torch.from_numpy(proprio.std(axis=0)),
        actions=spec.action_size,
    )


def save_progress(path: Path, model: ProgressModel) -> None:
    """Weights of a reward model with its version."""
    state = model.state_dict()
    tensors = {f"network.{name}": tensor for name, tensor in state["network"].items()}
    write_tensors(path, tensors | {"mean": state["mean"], "scale": state["scale"]}, {"version": state["version"]})


def load_progress(path: Path, version: str, config: ProgressConfig) -> ProgressModel:
    """Inverse of `save_progress`; refuses weights of another version."""
    tensors = load_file(path)
    mean, scale = tensors.pop("mean"), tensors.pop("scale")
    model = ProgressModel(len(mean), config)
    network = {name.removeprefix("network."): tensor for name, tensor in tensors.items()}
    model.load_state_dict({"network": network, "mean": mean, "scale": scale, "version": version})
    return model


def fit_progress(
    episodes: Sequence[ScoredEpisode], config: ProgressConfig, *, seed: int, on_step: OnStep
) -> tuple[ProgressModel, FitReport]:
    """A progress model from demonstrations and what has been judged since."""
    return ProgressModel.fit(episodes, config, seed=seed, on_step=on_step)
