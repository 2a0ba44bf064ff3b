"""CLIP with goal-baseline projection, on a small random checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reward_models.absolute import goal_baseline
from reward_models.interface import ClipQuery, Frame, Instruction, Unsupported
from reward_models.vlm.registry import make_reward_model
from robot_stack.types.errors import RewardError
from tests.reward_models import tiny_vlms
from tests.reward_models.tiny_vlms import torch, transformers

TASK = Instruction(text="a peg in a socket")
BASELINE = "a peg beside a socket"


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return tiny_vlms.write_clip(tmp_path_factory.mktemp("clip"))


def make(folder: Path, **settings: Any) -> Any:
    return make_reward_model(
        "clip", {"weights": {"model": str(folder), "device": "cpu"}, "baseline": BASELINE, "low": -1.0} | settings
    )


def pictures(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return list(rng.integers(0, 256, (count, 40, 50, 3), dtype=np.uint8))


def clips(count: int, task: Instruction = TASK) -> list[ClipQuery]:
    return [ClipQuery(instruction=task, frames=(Frame(images={"front": picture}),)) for picture in pictures(count)]


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_progress_is_the_goal_baseline_reward_of_the_embeddings(checkpoint: Path, alpha: float) -> None:
    scores = make(checkpoint, alpha=alpha).score_progress(clips(3))
    network = transformers.CLIPModel.from_pretrained(checkpoint)
    processor = transformers.AutoProcessor.from_pretrained(checkpoint, backend="pil")
    with torch.no_grad():
        images = network.get_image_features(**processor(images=pictures(3), return_tensors="pt")).pooler_output.numpy()
        texts = [
            network.get_text_features(**processor(text=[text], return_tensors="pt")).pooler_output.numpy()[0]
            for text in (TASK.text, BASELINE)
        ]
    expected = goal_baseline(images, *texts, alpha=alpha)
    np.testing.assert_allclose([score.value for score in scores], np.clip((expected + 1) / 2, 0, 1), atol=1e-4)
    assert len({score.value for score in scores}) == 3


def test_low_and_high_make_progress_of_the_score(checkpoint: Path) -> None:
    raw = float(make(checkpoint, alpha=0.0).score_progress(clips(1))[0].raw)
    near = make(checkpoint, alpha=0.0, low=raw - 0.1, high=raw + 0.1).score_progress(clips(1))[0].value
    above = make(checkpoint, alpha=0.0, low=raw + 0.1, high=raw + 0.2).score_progress(clips(1))[0].value
    assert near == pytest.approx(0.5, abs=0.01)
    assert above == 0.0


def test_it_asks_for_a_baseline_and_for_short_texts(checkpoint: Path) -> None:
    with pytest.raises(RewardError, match="baseline is empty, must describe the scene without the task"):
        make(checkpoint, baseline=" ").score_progress(clips(1))
    with pytest.raises(RewardError, match="tokens, must have at most 77; shorten it"):
        make(checkpoint).score_progress(clips(1, Instruction(text="pour " * 50)))
    with pytest.raises(RewardError, match="cannot be scored: goal and baseline texts have the same embedding"):
        make(checkpoint, baseline="pour").score_progress(clips(1, Instruction(text="pour")))


def test_it_knows_progress_and_nothing_else(checkpoint: Path) -> None:
    model = make(checkpoint)
    assert model.score_progress([]) == []
    with pytest.raises(Unsupported, match=r"done question to clip has no answer, must be one of \['progress'\]"):
        model.score_done(clips(1))


@pytest.mark.parametrize(
    "change", [{"alpha": 0.7}, {"baseline": "a table"}, {"low": 0.1}, {"high": 0.9}, {"view": "side"}]
)
def test_a_setting_that_changes_scores_changes_the_version(checkpoint: Path, change: dict[str, Any]) -> None:
    assert make(checkpoint).version == make(checkpoint).version != make(checkpoint, **change).version


def test_low_must_be_below_high(checkpoint: Path) -> None:
    with pytest.raises(RewardError, match=r"low is 0.5, must be below high, 0.5"):
        make(checkpoint, low=0.5, high=0.5)
