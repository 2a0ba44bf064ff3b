"""Fits between the demonstrations and online training: the trunk, and the reward model, which is fitted again later."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, cast

import numpy as np
import torch
from pydantic import BaseModel
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from policies.encoders import registry as encoders
from policies.encoders.trunk import Trunk
from policies.learner import LearnerSpec
from reward_models.live import find_live_builders
from reward_models.live_builders import Fitted
from reward_models.model_per_task import ModelPerTask, TaskModel
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import LiveRewardConfig
from robot_stack.disk.durable import disk_errors, write_durable
from robot_stack.learner.data.training_data import demo_frames
from robot_stack.learner.settings import LearningSettings
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.errors import ConfigError, ResumeError, RewardError, SpecError
from robot_stack.types.params import Params
from robot_stack.types.spec import Spec

T = TypeVar("T")
OnStep = Callable[[int, int, float], None]
"""Told (step, steps, loss) after each step of a fit; may raise `Stopped`."""
TOLD_FROM = 50
"""No time left is guessed before one in this many steps is done."""


class Stopped(Exception):
    """A phase before online training was told to end before it was done; nothing of it is kept."""


def unless(stop: threading.Event, say: OnStep = lambda step, steps, loss: None) -> OnStep:
    """Wrap `say` so that the fit ends with Stopped once `stop` is set."""

    def on_step(step: int, steps: int, loss: float) -> None:
        if stop.is_set():
            raise Stopped
        say(step, steps, loss)

    return on_step


def step_words(what: str, step: int, steps: int, elapsed_s: float, loss: float | None = None) -> str:
    """Describe the progress of a fit for an operator; its time left once a fiftieth of it is done."""
    parts = [f"{what}: step {step} of {steps}"]
    if loss is not None:
        parts.append(f"loss {loss:.4f}")
    if 0 < steps <= step * TOLD_FROM:
        parts.append(f"{elapsed_s * (steps - step) / step:.0f} s left")
    return ", ".join(parts)


def image_shapes(spec: Spec) -> dict[str, tuple[int, int, int]]:
    """Return the image shape of each camera, (H, W, 3)."""
    return {camera.name: camera.shape for camera in spec.cameras}


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Write a safetensors file, durable on return.

    Raises:
        StoreError: If the disk refuses; what was there before is untouched.
    """
    content = save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata)
    with disk_errors(f"writing {path.name}"):
        write_durable(path, content)


def write_params(path: Path, params: Params) -> None:
    """Write parameters with their metadata and version to a safetensors file, durable on return.

    Raises:
        StoreError: If the disk refuses; what was there before is untouched.
    """
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in params.tensors.items()}
    write_tensors(path, tensors, {**params.metadata, "version": str(params.version)})


def _read_tensors(path: Path, what: str) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read the tensors and the metadata of a safetensors file.

    Raises:
        ResumeError: If it is damaged or no such file.
    """
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
            return tensors, file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise ResumeError(
            f"{path} is unreadable ({error}), must be {what}; restore it, or start under a new name"
        ) from error


def saved_metadata(path: Path) -> dict[str, str]:
    """Return what the file of a trunk says of it, without loading it; nothing without a readable one."""
    try:
        with safe_open(path, "np") as file:
            return dict(file.metadata())
    except (OSError, TypeError, SafetensorError):
        return {}


def saved_identity(path: Path) -> str | None:
    """Return the identity of the trunk in a file, without loading it; None without a readable one."""
    return saved_metadata(path).get("identity")


def load_trunk(path: Path, spec: Spec, device: str) -> Trunk:
    """Load the encoder of a run onto a device, at its first weights if it is trained.

    Raises:
        ResumeError: If the file is damaged, or what it names does not fit the cell's cameras or has changed since.
    """
    tensors, metadata = _read_tensors(path, "the encoder of this run")
    try:
        trunk = encoders.load_trunk(json.loads(metadata["reference"]), image_shapes(spec), tensors)
    except (ConfigError, SpecError) as error:
        raise ResumeError(f"encoder {path} of this run cannot be had again: {error}") from error
    return _moved(trunk, device)


def fit_or_load_trunk(
    path: Path, demos: Sequence[StoredEpisode], spec: Spec, settings: LearningSettings, *, seed: int, on_step: OnStep
) -> Trunk:
    """Load the encoder of this run, or make it: embedded, trained on the demonstrations, or another as configured."""
    if path.exists():
        return load_trunk(path, spec, settings.device)
    trunk = fit_trunk(path, demos, spec, settings.encoder, settings.encoder_config, seed=seed, on_step=on_step)
    return _moved(trunk, settings.device)


def fit_trunk(
    path: Path,
    demos: Sequence[StoredEpisode],
    spec: Spec,
    encoder: str,
    config: BaseModel,
    *,
    seed: int,
    on_step: OnStep,
    about: Mapping[str, str] = MappingProxyType({}),
) -> Trunk:
    """Make an encoder and write it, durable on return.

    Args:
        path: Of the file.
        demos: That it is trained on, if it is.
        spec: Of the cell.
        encoder: Name in the registry.
        config: Its settings, a model of its own.
        seed: Of its training.
        on_step: Told how far that is.
        about: What else the file says of it.

    Raises:
        StoreError: If the disk refuses.
    """
    trunk = encoders.make_trunk(
        encoder, image_shapes(spec), config, demos=demo_frames(demos), seed=seed, on_step=on_step
    )
    travels = trunk.travels or bool(getattr(config, "trained", False))
    write_tensors(
        path,
        trunk.state_dict() if travels else {},
        {"identity": trunk.identity, "reference": json.dumps(trunk.reference), **about},
    )
    return trunk


def _moved(trunk: Trunk, device: str) -> Trunk:
    """Move a trunk to a device and keep its convolutions there in float32, as on an actor's CPU.

    The default of cuDNN would be TF32.
    """
    torch.backends.cudnn.allow_tf32 = False  # of the process: what may be less exact is in bf16 anyway
    cast(nn.Module, trunk).to(device)
    return trunk


def learner_spec(trunk: Trunk, demos: Sequence[StoredEpisode], spec: Spec, *, trained: bool) -> LearnerSpec:
    """Return the sizes of a learner, with the scale of proprio in the demonstrations."""
    proprio = np.concatenate([demo.arrays["proprio"] for demo in demos])
    mean, std = (torch.from_numpy(statistic(axis=0)) for statistic in (proprio.mean, proprio.std))
    sensed = spec.sensed.proprio_size
    mean[sensed:], std[sensed:] = 0.0, 1.0  # what a base proposes is scaled already, whatever it said in demonstrations
    return sizes_of(trunk, spec, proprio_mean=mean, proprio_std=std, trained=trained)


def sizes_of(
    trunk: Trunk, spec: Spec, *, proprio_mean: torch.Tensor, proprio_std: torch.Tensor, trained: bool
) -> LearnerSpec:
    """Return the sizes of a learner on that encoder and cell; statistics float32, shape (P,), SI units."""
    return LearnerSpec(
        parts=trunk.parts,
        proprio_mean=proprio_mean,
        proprio_std=proprio_std,
        actions=spec.action_size,
        grippers=spec.discrete_gripper_indices,
        trunk=cast(nn.Module, trunk) if trained else None,
        noise=spec.noise_size,
    )


RewardNetwork = TaskModel | ModelPerTask
"""What the scorer scores with."""
_UNNAMED = {"forward": 1.0, "backward": -1.0}
"""The two models in a file of before tasks had ids."""


def save_reward(path: Path, model: RewardNetwork) -> None:
    """Write the weights of a reward model with its version."""
    if not isinstance(model, ModelPerTask):
        write_tensors(path, *model.stored())
        return
    tensors: dict[str, torch.Tensor] = {}
    metadata = {"column": str(model.column), "told": json.dumps(model.told)}
    for task_id, one in model.models.items():
        own, said = one.stored()
        tensors |= {f"{task_id}.{name}": tensor for name, tensor in own.items()}
        metadata |= {f"{task_id}.{name}": value for name, value in said.items()}
    write_tensors(path, tensors, metadata)


def load_reward(path: Path, version: str, config: LiveRewardConfig) -> RewardNetwork:
    """Load a reward model that `save_reward` wrote.

    Raises:
        RewardError: If its weights are of another version or of other settings.
        ResumeError: If the file is damaged.
    """
    restore = find_live_builders(config.part).restore
    tensors, metadata = _read_tensors(path, f"reward model {version} of this run")
    model: RewardNetwork
    if "column" in metadata:
        told = _told(metadata)
        models = {
            task_id: restore(_under(f"{task_id}.", tensors), _under(f"{task_id}.", metadata), config)
            for task_id in told
        }
        model = ModelPerTask(models, told, int(metadata["column"]))
    else:
        model = restore(tensors, metadata, config)
    if model.version != version:
        raise RewardError(f"reward model in {path.name} is {model.version}, must be {version}; restore its settings")
    return model


def _told(metadata: Mapping[str, str]) -> dict[str, list[float]]:
    """Return by task id what tells the task of an episode; files of before several tasks hold one number each."""
    if "told" in metadata:
        return cast(dict[str, list[float]], json.loads(metadata["told"]))
    numbers = json.loads(metadata["directions"]) if "directions" in metadata else _UNNAMED
    return {task_id: [number] for task_id, number in numbers.items()}


def _under(prefix: str, named: Mapping[str, T]) -> dict[str, T]:
    return {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}


def fit_reward(
    episodes: Sequence[ScoredEpisode], config: LiveRewardConfig, *, text: str, seed: int, on_step: OnStep
) -> Fitted:
    """Fit the reward model of these settings on demonstrations and verdicts."""
    return find_live_builders(config.part).fit(episodes, config, text=text, seed=seed, on_step=on_step)
