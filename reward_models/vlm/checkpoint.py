"""Checkpoints on this machine: finding them, their fingerprint, and loading them without a video library."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from reward_models.vlm.config import WeightsSettings
from reward_models.vlm.optional import optional_import
from robot_stack.types.errors import RewardError

DECIDING = (".safetensors", ".json", ".jinja", ".txt", ".model", ".py")
"""Files of a checkpoint that can change an answer."""


def find_folder(model: str, settings: WeightsSettings) -> Path:
    """Find the folder of a checkpoint or an adapter, fetched if that is allowed.

    `org/name/sub` is a subfolder of what the hub calls `org/name`.

    Raises:
        RewardError: If it is not on this machine, and may not be or cannot be fetched.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    hub = optional_import("huggingface_hub")
    parts = model.split("/")
    name, sub = "/".join(parts[:2]), parts[2:]
    try:
        root = Path(
            hub.snapshot_download(
                name,
                allow_patterns=[f"*{end}" for end in DECIDING] + ["README.md"],
                local_files_only=settings.local_files_only,
            )
        )
    except (OSError, ValueError) as error:
        raise RewardError(
            f"model is {model}, must be a checkpoint on this machine; fetch it once with `hf download {name}`, "
            f"set local_files_only: false, or give its folder ({_first_line(error)})"
        ) from error
    folder = root.joinpath(*sub)
    if not folder.is_dir():
        raise RewardError(f"model is {model}, must be a folder of {name}; there is no {'/'.join(sub)} in it")
    return folder


def fingerprint(folder: Path) -> str:
    """Hash all files that decide answers, 16 characters; the same wherever the folder lies."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix in DECIDING and path.is_file():
            with path.open("rb") as file:
                digest.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def load_network(auto: Any, folder: Path, settings: WeightsSettings) -> Any:
    """Load a whole network in evaluation mode onto its device.

    Args:
        auto: Class of transformers to load it with.

    Raises:
        RewardError: If it is of another kind, damaged, or lacks weights, which would be left at random.
    """
    torch = optional_import("torch")
    safetensors = optional_import("safetensors")
    device = settings.device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        network, loading = auto.from_pretrained(
            folder,
            dtype=settings.dtype,
            use_safetensors=True,
            output_loading_info=True,
            local_files_only=True,
            trust_remote_code=settings.trust_remote_code,
        )
        network = network.to(device)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, safetensors.SafetensorError) as error:
        raise RewardError(
            f"model {folder} cannot be loaded with {auto.__name__} on {device}, must be a whole checkpoint in "
            f"safetensors that this transformers knows ({_first_line(error)})"
        ) from error
    unfilled = sorted([*loading["missing_keys"], *(key for key, *_ in loading["mismatched_keys"])])
    if unfilled:
        raise RewardError(
            f"weights of {folder} lack {unfilled[:3]}, must fill {type(network).__name__}; fetch them again"
        )
    return network.eval().requires_grad_(False)


def load_processor(folder: Path, settings: WeightsSettings) -> Any:
    """Load tokenizer and image processor as one.

    Images go through PIL on every machine, so that scores do not depend on what else is installed; a video processor,
    which would need torchvision, is left out.

    Raises:
        RewardError: If the checkpoint has none that this transformers knows.
    """
    transformers = optional_import("transformers")
    options = {"local_files_only": True, "trust_remote_code": settings.trust_remote_code}
    try:
        kind = _processor_class(transformers, folder, settings)
        facts, _ = kind.get_processor_dict(folder, local_files_only=True)
        found = {
            "image_processor": lambda: transformers.AutoImageProcessor.from_pretrained(
                folder, backend="pil", **options
            ),
            "tokenizer": lambda: transformers.AutoTokenizer.from_pretrained(folder, **options),
            "video_processor": lambda: None,
        }
        names = kind.get_attributes()
        strange = [name for name in names if name not in found]
        if strange:
            raise RewardError(f"processor of {folder} needs {strange}, must need text and images only")
        processor = kind.from_args_and_dict([found[name]() for name in names], facts)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise RewardError(
            f"processor of {folder} cannot be loaded, must be one of transformers ({_first_line(error)}); a model "
            "with other code of its own can be asked on a server"
        ) from error
    processor.tokenizer.padding_side = "left"
    if processor.tokenizer.pad_token is None:
        processor.tokenizer.pad_token = processor.tokenizer.eos_token
    return processor


def _processor_class(transformers: Any, folder: Path, settings: WeightsSettings) -> Any:
    """Return the checkpoint's processor class, changed to do without a video processor."""
    config = transformers.AutoConfig.from_pretrained(
        folder, local_files_only=True, trust_remote_code=settings.trust_remote_code
    )
    if type(config) not in transformers.PROCESSOR_MAPPING:
        raise ValueError(f"there is none for {config.model_type}")
    known = transformers.PROCESSOR_MAPPING[type(config)]

    class WithoutVideo(known):  # type: ignore[misc, valid-type]
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            if argument_name == "video_processor" and argument is None:
                return type(None)
            return super().check_argument_for_proper_class(argument_name, argument)

    WithoutVideo.__name__ = known.__name__  # transformers looks some things up by it
    return WithoutVideo


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
