"""Published backbones, frozen, in fp32: DINOv2, DINOv3 and CLIP through transformers, any other through timm.

Nothing is downloaded unless `local_files_only` is false. Patch tokens are the maps, the class token is the summary;
of a convolutional network, its last maps and what its own pooling makes of them.
"""

from __future__ import annotations

import difflib
import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor, nn

from policies.encoders.backbone import BackboneTrunk
from policies.encoders.config import TimmConfig, TransformersConfig
from policies.encoders.preprocess import Preprocess, read_processor
from policies.encoders.trunk import ImageShape
from policies.encoders.weights import check_finite, read_safetensors
from robot_stack.types.errors import ConfigError

TOWERS = ("clip", "clip_vision_model", "dinov2", "dinov2_with_registers", "dinov3_convnext", "dinov3_vit")
"""Model types, as config.json of a checkpoint names them."""
INCIDENTAL = ("_name_or_path", "architectures", "dtype", "transformers_version")
"""Settings of a checkpoint that do not change its features."""
INTERPOLATIONS = {"nearest": 0, "bilinear": 2, "bicubic": 3}


class Tower(nn.Module):
    """A vision tower of transformers, as a `Backbone`."""

    def __init__(self, network: nn.Module, preprocess: Preprocess) -> None:
        super().__init__()
        config: Any = network.config
        self.network = network
        self.preprocess = preprocess
        self._before_patches = 1 + getattr(config, "num_register_tokens", 0)
        self._options = {"interpolate_pos_encoding": True} if config.model_type == "clip_vision_model" else {}
        settings = {name: value for name, value in config.to_diff_dict().items() if name not in INCIDENTAL}
        self.facts = {"architecture": type(network).__name__, "settings": settings, **preprocess.facts}

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the maps of the patch tokens and the pooled summary of pixels; see `Backbone`."""
        seen = self.network(pixel_values=self.preprocess(pixels), **self._options)
        patches = seen.last_hidden_state[:, self._before_patches :].transpose(1, 2)
        side = math.isqrt(patches.shape[2])
        return patches.unflatten(2, (side, side)), seen.pooler_output


class TimmBackbone(nn.Module):
    """A vision network of timm without its classifier, as a `Backbone`."""

    def __init__(self, network: Any, preprocess: Preprocess) -> None:
        super().__init__()
        self.network = network
        self.preprocess = preprocess
        self.facts = {"model": network.pretrained_cfg["architecture"], **preprocess.facts}

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last maps and the pooled summary of pixels; see `Backbone`."""
        seen = self.preprocess(pixels)
        last, (maps,) = self.network.forward_intermediates(seen, indices=1, norm=True, output_fmt="NCHW")
        return maps, self.network.forward_head(last, pre_logits=True)


def make_tower(shapes: Mapping[str, ImageShape], config: TransformersConfig) -> BackboneTrunk:
    """Load a vision tower of transformers as a frozen trunk.

    Raises:
        ConfigError: If transformers is not installed, or the checkpoint is missing, damaged or no vision tower.
    """
    transformers = _import("transformers", "transformers")
    folder = _folder(config)
    try:
        found = transformers.AutoConfig.from_pretrained(folder)
        if found.model_type not in TOWERS:
            raise ConfigError(f"model type of {config.model} is {found.model_type!r}, must be one of {list(TOWERS)}")
        tower = transformers.CLIPVisionModel if found.model_type == "clip" else transformers.AutoModel
        network, loading = tower.from_pretrained(
            folder, dtype="float32", use_safetensors=True, output_loading_info=True, local_files_only=True
        )
        processor, _ = transformers.ImageProcessingMixin.get_image_processor_dict(folder, local_files_only=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise ConfigError(_unreadable("transformers", config.model, error)) from error
    unfilled = sorted([*loading["missing_keys"], *(key for key, *_ in loading["mismatched_keys"])])
    if unfilled:
        raise ConfigError(
            f"weights of {config.model} lack {unfilled[:3]}, must fill {type(network).__name__}; fetch it again"
        )
    check_finite(network.state_dict(), config.model)
    backbone = Tower(network, read_processor(processor, config.input_px, config.model))
    return BackboneTrunk("transformers", backbone, shapes, config, pool=config.pool, trained=False)


def make_timm(shapes: Mapping[str, ImageShape], config: TimmConfig) -> BackboneTrunk:
    """Load a backbone of timm as a frozen trunk.

    Raises:
        ConfigError: If timm is not installed, knows no such model, or the weights are missing or of another model.
    """
    timm = _import("timm", "timm")
    name = config.model
    try:
        known = timm.models.get_pretrained_cfg(name)
    except RuntimeError:
        known = None
    if known is None:
        names = timm.list_models() + timm.list_pretrained()
        close = difflib.get_close_matches(name, names, n=3)
        raise ConfigError(f"model is {name!r}, must be a name of timm; did you mean one of {close}?")
    path = Path(config.weights).expanduser() if config.weights is not None else _timm_file(known, config)
    check_finite(read_safetensors(path, f"weights of timm model {name}"), str(path))
    resized = {"img_size": config.input_px} if known.fixed_input_size and config.input_px is not None else {}
    try:
        # with its classifier, so that timm loads strictly: without, it leaves what is missing at random
        network = timm.create_model(name, pretrained=True, pretrained_cfg_overlay={"file": str(path)}, **resized)
    except (RuntimeError, KeyError) as error:
        raise ConfigError(f"weights are {path}, must be of timm model {name}; they do not fit: {error}") from error
    network.reset_classifier(0)
    processor = {
        "size": known.input_size[-1],
        "image_mean": known.mean,
        "image_std": known.std,
        "resample": INTERPOLATIONS.get(known.interpolation),
    }
    backbone = TimmBackbone(network, read_processor(processor, config.input_px, name))
    return BackboneTrunk("timm", backbone, shapes, config, pool=config.pool, trained=False)


def _folder(config: TransformersConfig) -> Path:
    """Find the folder of a checkpoint: the one given, or the hub's on this disk, fetched if that is allowed."""
    folder = Path(config.model).expanduser()
    if folder.is_dir():
        return folder
    hub = _import("huggingface_hub", "transformers")
    try:
        if not config.local_files_only:
            return Path(hub.snapshot_download(config.model, allow_patterns=["*.json", "*.safetensors"]))
        return _cached(hub, config.model, "config.json").parent
    except (OSError, ValueError) as error:
        raise ConfigError(_unreadable("transformers", config.model, error)) from error


def _timm_file(known: Any, config: TimmConfig) -> Path:
    """Find the hub's weights file of a timm model on this disk, fetched if that is allowed."""
    hub = _import("huggingface_hub", "timm")
    if known.hf_hub_id is None or known.custom_load:
        raise ConfigError(
            f"timm model {config.model} has no plain weights on the hub, must have; name a file in weights"
        )
    name = known.hf_hub_filename or "model.safetensors"
    try:
        if not config.local_files_only:
            return Path(hub.hf_hub_download(known.hf_hub_id, name))
        return _cached(hub, known.hf_hub_id, name)
    except (OSError, ValueError) as error:
        raise ConfigError(_unreadable("timm", known.hf_hub_id, error)) from error


def _cached(hub: Any, model: str, name: str) -> Path:
    """Find a file in the hub's cache without asking the network, which the hub's own loaders do even then."""
    found = hub.try_to_load_from_cache(model, name)
    if not isinstance(found, str):
        raise FileNotFoundError(f"{name} is not in the hub's cache")
    return Path(found)


def _unreadable(kind: str, model: str, error: Exception) -> str:
    reason = str(error).strip().split("\n")[0]
    return (
        f"model of encoder {kind} is {model}, must be a whole checkpoint on this machine; fetch it once with "
        f"`hf download {model}`, set local_files_only: false, or give its folder ({reason})"
    )


def _import(package: str, kind: str) -> Any:
    try:
        return importlib.import_module(package)
    except (ImportError, RuntimeError) as error:  # RuntimeError: a torchvision that is not built for this torch
        raise ConfigError(
            f"encoder {kind} needs the package {package}, which cannot be imported here ({error}); "
            "pip install 'robot-stack[vlm]'"
        ) from error
