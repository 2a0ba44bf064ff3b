"""CLIP with goal-baseline projection: how much an image looks like the task done, rather than like the scene alone.

Source: VLM-RM (Rocamonde et al., 2023, arXiv:2310.12921), with `reward_models.absolute.goal_baseline`. Zero-shot, one
image, no order in time: a baseline to compare with, not a reward for manipulation. `low` and `high` make Φ of the
score; measure them at the start and the end of a demonstration.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from reward_models.absolute import between, goal_baseline
from reward_models.interface import Capabilities, ClipQuery, Score, clip_score
from reward_models.vlm.checkpoint import find_folder, fingerprint, load_network, load_processor
from reward_models.vlm.config import ClipSettings
from reward_models.vlm.licences import check_licence
from reward_models.vlm.model import LargeModel, identify
from reward_models.vlm.optional import optional_import
from robot_stack.types.errors import RewardError

CODE = "clip 2"


class ClipBaseline(LargeModel):
    """CLIP with goal-baseline projection as a `RewardModel` of progress. From `load`."""

    def __init__(self, network: Any, processor: Any, settings: ClipSettings, identity: str) -> None:
        params = settings.model_dump(include={"view", "alpha", "baseline", "low", "high"})
        super().__init__(
            "clip",
            identify(CODE, [f"{identity} {network.dtype}"], {}, params),
            Capabilities(progress=True, views=(settings.view,), max_batch=settings.weights.batch),
            [],
        )
        self._network = network
        self._processor = processor
        self._settings = settings
        self._texts: dict[str, np.ndarray] = {}

    @classmethod
    def load(cls, settings: ClipSettings) -> ClipBaseline:
        """Load the weights of a CLIP.

        Raises:
            RewardError: If they are missing, damaged or no CLIP, or their licence is not accepted.
        """
        transformers = optional_import("transformers")
        weights = settings.weights
        folder = find_folder(weights.model, weights)
        check_licence(weights.model, accepted=settings.accept_license, folder=folder)
        network = load_network(transformers.CLIPModel, folder, weights)
        return cls(network, load_processor(folder, weights), settings, fingerprint(folder))

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Score the progress of each clip by its last frame alone, in [0, 1].

        Raises:
            RewardError: If the settings have no baseline.
        """
        if not queries:
            return []
        asked = time.monotonic()
        for query in queries:
            self.capabilities.check(query.instruction, query.frames[-1:])
        if not self._settings.baseline.strip():
            raise RewardError("baseline is empty, must describe the scene without the task, like 'a robot arm'")
        images = [query.frames[-1].view(self._settings.view) for query in queries]
        values = [self._value(state, query) for state, query in zip(self._embed_images(images), queries, strict=True)]
        took = time.monotonic() - asked
        progress = between(self._settings.low, self._settings.high, np.array(values))
        return [
            replace(clip_score(float(phi), f"{value:.4f}"), latency_s=took)
            for phi, value in zip(progress, values, strict=True)
        ]

    def _value(self, state: np.ndarray, query: ClipQuery) -> float:
        goal, baseline = self._text(query.instruction.text), self._text(self._settings.baseline)
        try:
            return float(goal_baseline(state, goal, baseline, alpha=self._settings.alpha))
        except ValueError as error:
            raise RewardError(f"task {query.instruction.text!r} cannot be scored: {error}") from error

    def _embed_images(self, images: Sequence[np.ndarray]) -> np.ndarray:
        """Embed images, shape (N, D)."""
        torch = optional_import("torch")
        embedded = []
        for start in range(0, len(images), self._settings.weights.batch):
            chunk = [Image.fromarray(image) for image in images[start : start + self._settings.weights.batch]]
            inputs = self._processor(images=chunk, return_tensors="pt").to(self._network.device, self._network.dtype)
            with torch.inference_mode():
                embedded.append(self._network.get_image_features(**inputs).pooler_output.float().cpu().numpy())
        return np.concatenate(embedded)

    def _text(self, text: str) -> np.ndarray:
        """Embed a text, shape (D,); each text once."""
        if text not in self._texts:
            torch = optional_import("torch")
            inputs = self._processor(text=[text], return_tensors="pt").to(self._network.device)
            longest = self._network.config.text_config.max_position_embeddings
            if inputs["input_ids"].shape[1] > longest:
                raise RewardError(
                    f"text {text!r} has {inputs['input_ids'].shape[1]} tokens, must have at most {longest}; shorten it"
                )
            with torch.inference_mode():
                features = self._network.get_text_features(**inputs).pooler_output
            self._texts[text] = features.float().cpu().numpy()[0]
        return self._texts[text]
