"""The server of a LeRobot checkpoint, run by the Python that has the lerobot package; imports nothing of this project.

    PYTHON lerobot_server.py FOLDER [--device cpu]

Prints one line with the port that it listens on, of 127.0.0.1, speaks the protocol of docs/base-policies.md, and ends
with its standard input, and so with whoever started it.
"""

import os

if hasattr(os, "sched_setscheduler"):  # who started this may hold a real-time priority, which is not for thinking
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
os.nice(5)

import argparse
import base64
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors

STATE = "observation.state"
EMPTY = "observation.images.empty_camera_"
"""Images that SmolVLA, pi0 and others count among their own and fill with padding where they are not shown."""
QUEUED = ("diffusion", "vqbet", "tdmpc")
"""Policies that plan from a queue of observations, which only `select_action` fills; as lerobot 0.6.1 has them."""


class Checkpoint:
    """A policy with its own scaling of observations and actions.

    Args:
        folder: Of the checkpoint.
        device: Where it computes.
    """

    def __init__(self, folder: str, device: str) -> None:
        config = PreTrainedConfig.from_pretrained(folder)
        config.device = device
        self._config, self._device = config, device
        self._policy = loaded(folder, config)
        self._policy.to(device).eval()
        self._noise = noise_shape(config)
        place = {"device_processor": {"device": device}}
        self._before, self._after = make_pre_post_processors(
            config, pretrained_path=folder, preprocessor_overrides=place, postprocessor_overrides=place
        )

    def info(self) -> dict[str, Any]:
        """Return what it wants and gives."""
        state = self._config.input_features.get(STATE)
        return {
            "name": f"LeRobot's {self._config.type}",
            "cameras": sorted(name for name in self._config.image_features if not name.startswith(EMPTY)),
            "state": 0 if state is None else state.shape[0],
            "actions": self._config.action_feature.shape[0],
            **({} if self._noise is None else {"noise": self._noise[1]}),
        }

    @torch.inference_mode()
    def chunk(self, question: dict[str, Any]) -> list[list[float]]:
        """Return the actions that follow an observation, a row each."""
        state = torch.tensor(question["state"], dtype=torch.float32)[None]
        seen: dict[str, Any] = {STATE: state} if state.numel() else {}
        for name, image in question["images"].items():
            pixels = np.frombuffer(base64.b64decode(image["rgb"]), np.uint8).reshape(image["shape"])
            picture = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() / 255
            size = self._config.image_features[name].shape[-2:]
            seen[name] = torch.nn.functional.interpolate(picture, size=size, mode="bilinear", antialias=True)
        seen = {name: value.to(self._device) for name, value in seen.items()}
        batch = self._before({**seen, "task": [question["text"]]})
        start = {} if question.get("noise") is None else {"noise": self._start(question["noise"])}
        if self._config.type in QUEUED or self._config.n_obs_steps > 1:  # one observation stands for its whole history
            self._policy.reset()
            steps = getattr(self._config, "n_action_steps", None) or self._config.action_chunk_size  # VQ-BeT's name
            planned = torch.cat([self._policy.select_action(dict(batch), **start) for _ in range(steps)])
        else:
            planned = self._policy.predict_action_chunk(batch, **start)[0]
        done = [self._after(action[None])[0] for action in planned]
        return [action.float().cpu().tolist() for action in done]

    def _start(self, noise: list[float]) -> torch.Tensor:
        """Return the noise (1, T, D) in which every step of a chunk starts from the same D numbers."""
        steps, size = self._noise or (0, 0)
        one = torch.tensor(noise, dtype=torch.float32, device=self._device)
        if one.shape != (size,):
            raise ValueError(f"noise has shape {tuple(one.shape)}, must be ({size},)")
        return one.repeat(1, steps, 1)


def loaded(folder: str, config: PreTrainedConfig) -> Any:
    """Return the policy of a checkpoint, and end where its file does not have every tensor of it.

    pi0 and its kin say no more than a line in their log where they keep the random weights that they began with.
    """
    kind: Any = get_policy_class(config.type)
    filled: set[str] = set()

    class Watched(kind):
        def load_state_dict(self, state: dict[str, torch.Tensor], *args: Any, **words: Any) -> Any:
            own = self.state_dict()
            filled.update(name for name in state if name in own and own[name].shape == state[name].shape)
            return super().load_state_dict(state, *args, **words)

    policy = Watched.from_pretrained(folder, config=config)
    own = policy.state_dict()
    shared = {own[name].data_ptr() for name in filled}  # of tensors that are tied one alone is saved
    empty = [name for name, tensor in own.items() if tensor.numel() and tensor.data_ptr() not in shared]
    if empty:
        sys.exit(
            f"model.safetensors of checkpoint {folder} fits {len(own) - len(empty)} of the {len(own)} tensors of "
            f"LeRobot's {config.type} (not {empty[0]}), must fit all; take the whole folder that lerobot-train saved"
        )
    return policy


def noise_shape(config: PreTrainedConfig) -> tuple[int, int] | None:
    """Return T and D of the noise (1, T, D) by which a policy can be steered; None where it cannot be.

    A sampler of DDPM draws more noise at each of its steps, so that the first one decides little.

    As lerobot 0.6.1 has it: conditional_sample in policies/diffusion/modeling_diffusion.py, and sample_actions in
    policies/{smolvla,pi0,pi05}/modeling_*.py, which draw it in this shape where they are given none.
    """
    if config.type == "diffusion" and config.noise_scheduler_type == "DDIM":
        return config.horizon, config.action_feature.shape[0]
    if config.type in ("smolvla", "pi0", "pi05"):
        return config.chunk_size, config.max_action_dim
    return None


def handler(checkpoint: Checkpoint) -> type[BaseHTTPRequestHandler]:
    """Return a class whose instances answer one request after the other."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(checkpoint.info)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(lambda: {"actions": checkpoint.chunk(json.loads(body))})

        def _answer(self, make: Any) -> None:
            try:
                status, said = 200, make()
            except Exception as error:  # the top of a request: whoever asked is told, and may ask again
                status, said = 500, {"error": f"{type(error).__name__}: {error}"}
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def main() -> None:
    """Load, say the port, and answer until the standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    whole = (Path(options.folder) / "model.safetensors").exists()
    if not whole and (Path(options.folder) / "adapter_config.json").exists():
        sys.exit(
            f"checkpoint {options.folder} is an adapter alone, must be a whole policy; merge it into the policy that "
            "it was trained on, and save that"
        )
    for name in ("config.json", "model.safetensors"):
        if not (Path(options.folder) / name).exists():
            sys.exit(f"checkpoint {options.folder} has no {name}, must be a folder that lerobot-train saved")
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever a library prints is no port
    torch.set_num_threads(1 if options.device == "cpu" else 4)
    server = HTTPServer(("127.0.0.1", 0), handler(Checkpoint(options.folder, options.device)))
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print(server.server_port, file=told, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
