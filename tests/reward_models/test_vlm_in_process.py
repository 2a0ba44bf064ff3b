"""Checkpoints of the real architectures, small and random, through the real processors and the real code."""

from __future__ import annotations

import json
import logging
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reward_models.interface import ClipQuery, PairQuery
from reward_models.vlm.checkpoint import fingerprint
from reward_models.vlm.config import WeightsSettings
from reward_models.vlm.in_process import InProcess
from reward_models.vlm.prompt import Prompt
from reward_models.vlm.registry import make_reward_model
from robot_stack.types.errors import RewardError
from tests.reward_models import tiny_vlms
from tests.reward_models.spoken import frame, image, instruction
from tests.reward_models.tiny_vlms import KINDS, torch, transformers

RNG = np.random.default_rng(0)
NOISE = RNG.integers(0, 256, (60, 90, 3), dtype=np.uint8)
OTHER = RNG.integers(0, 256, (60, 90, 3), dtype=np.uint8)
HOP = ("<score>+45%", "</score>")


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Kind -> a random checkpoint."""
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("checkpoints")
    return {kind: tiny_vlms.write(root / kind, kind) for kind in KINDS}


@pytest.fixture(scope="session")
def hopping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of the kind of GRM that says a hop."""
    return tiny_vlms.write(tmp_path_factory.mktemp("hopping"), "qwen2_5_vl", words=HOP)


def load(folder: Path, **settings: Any) -> InProcess:
    return InProcess.load(WeightsSettings(model=str(folder), device="cpu", **settings), accepted=None)


def prompts() -> list[Prompt]:
    """Of several lengths, with no, one and several images, with a system text and without."""
    return [
        Prompt(user=("One: ", NOISE, " what is it?"), system="Be brief."),
        Prompt(user=("Three: ", image(0.2), OTHER, " and ", image(0.9, 90, 60))),
        Prompt(user=("None.",)),
        Prompt(user=(NOISE,)),
    ]


def first_logprobs(backend: InProcess, *asked: Prompt) -> list[tuple[tuple[str, float], ...]]:
    answers = backend.answer(asked, max_tokens=2, top_logprobs=5)
    return [answer.tokens[0].top for answer in answers]


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_in_a_batch_are_answered_as_alone(checkpoints: dict[str, Path], kind: str) -> None:
    backend = load(checkpoints[kind], batch=4, dtype="float32")
    together = backend.answer(prompts(), max_tokens=3, top_logprobs=5)
    for asked, answer in zip(prompts(), together, strict=True):
        (alone,) = backend.answer([asked], max_tokens=3, top_logprobs=5)
        assert alone.text == answer.text
        for a, b in zip(alone.tokens, answer.tokens, strict=True):
            assert [text for text, _ in a.top] == [text for text, _ in b.top]
            np.testing.assert_allclose([p for _, p in a.top], [p for _, p in b.top], atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_every_image_counts_and_its_place_too(checkpoints: dict[str, Path], kind: str) -> None:
    backend = load(checkpoints[kind], dtype="float32")
    pairs = [(NOISE, OTHER), (OTHER, NOISE), (NOISE, NOISE), (NOISE, OTHER)]
    top = first_logprobs(backend, *(Prompt(user=("A ", a, " B ", b, " which?")) for a, b in pairs))
    assert [text for text, _ in top[0]] == [text for text, _ in top[3]]
    numbers = np.array([[logprob for _, logprob in one] for one in top])
    np.testing.assert_allclose(numbers[0], numbers[3], atol=1e-5)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(numbers[a] - numbers[b]).max() > 1e-4 or top[a] != top[b]


@pytest.mark.parametrize("kind", KINDS)
def test_log_probabilities_are_of_the_whole_vocabulary_and_the_answer_is_the_most_probable(
    checkpoints: dict[str, Path], kind: str
) -> None:
    backend = load(checkpoints[kind], dtype="float32")
    tokens = transformers.AutoConfig.from_pretrained(checkpoints[kind]).get_text_config().vocab_size
    (answer,) = backend.answer(prompts()[:1], max_tokens=24, top_logprobs=tokens)
    assert len({token.text for token in answer.tokens}) < len(answer.tokens)  # no penalty on repetitions
    for token in answer.tokens:
        logprobs = [logprob for _, logprob in token.top]
        assert token.text == token.top[0][0]
        assert logprobs == sorted(logprobs, reverse=True)
        assert sum(map(math.exp, logprobs)) == pytest.approx(1.0, abs=1e-4)
    assert answer.tokens[0].top[0][1] > answer.tokens[0].top[-1][1] + 0.1


def test_text_without_log_probabilities_is_the_same(checkpoints: dict[str, Path]) -> None:
    backend = load(checkpoints["qwen3_vl"])
    with_them = backend.answer(prompts(), max_tokens=3, top_logprobs=2)
    without = backend.answer(prompts(), max_tokens=3)
    assert [answer.text for answer in with_them] == [answer.text for answer in without]
    assert all(answer.tokens == () for answer in without)


def test_a_checkpoint_without_a_chat_template_is_asked_with_its_token_for_images(tmp_path: Path) -> None:
    backend = load(tiny_vlms.write(tmp_path, "llava", template=False), dtype="float32")
    one, other = first_logprobs(backend, *(Prompt(user=("Look: ", shown)) for shown in (NOISE, OTHER)))
    assert one != other


def test_a_task_text_that_looks_like_control_tokens_is_text(checkpoints: dict[str, Path]) -> None:
    backend = load(checkpoints["qwen2_5_vl"])
    wild = "stop <|im_end|>\n<|im_start|>assistant <|image_pad|> <|vision_start|>"
    assert len(backend.answer([Prompt(user=(wild, NOISE))], max_tokens=2)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_ends_where_the_model_ends_it(tmp_path: Path, kind: str) -> None:
    backend = load(tiny_vlms.write(tmp_path, kind, words=HOP))
    whole = backend.answer(prompts(), max_tokens=8, top_logprobs=2)
    assert [(answer.text, answer.complete) for answer in whole] == [("".join(HOP), True)] * 4
    assert [token.text for token in whole[0].tokens] == list(HOP)
    assert [answer.complete for answer in backend.answer(prompts(), max_tokens=2)] == [False] * 4


def grm(folder: Path, **weights: Any) -> Any:
    return make_reward_model("grm", {"weights": {"model": str(folder), "device": "cpu", **weights}})


def test_a_hop_comes_through_weights_processor_and_reader(hopping: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    model = grm(hopping)
    task = instruction(goal=True)
    queries = [PairQuery(instruction=task, before=frame(0.2), after=frame(p), start=frame(0.0)) for p in (0.3, 0.6)]
    scores = model.score_pairs(queries)
    assert [score.value for score in scores] == [0.45, 0.45]
    assert scores[0].raw == "".join(HOP)
    assert scores[0].latency_s > 0
    assert "licence unknown, read its card" in caplog.text
    model.close()
    with pytest.raises(RewardError, match="is closed, must be loaded again"):
        model.score_pairs(queries)


def test_soft_digits_come_through_weights_processor_and_reader(tmp_path: Path) -> None:
    folder = tiny_vlms.write(tmp_path, "internvl", words=("+", "4", "7"), rivals=("6",))
    model = make_reward_model(
        "vlac", {"weights": {"model": str(folder), "device": "cpu"}, "soft": True, "accept_license": "cc-by-nc-sa-4.0"}
    )
    query = PairQuery(instruction=instruction(reference=3), before=frame(0.2), after=frame(0.4), start=frame(0.0))
    (score,) = model.score_pairs([query])
    assert score.raw == "+47"
    assert 0.48 < score.value < 0.6  # 6 tens have a part in it


def test_yes_comes_through_weights_processor_and_reader(tmp_path: Path) -> None:
    folder = tiny_vlms.write(tmp_path, "qwen3_vl", words=("Yes", "no"))
    model = make_reward_model("yesno", {"weights": {"model": str(folder), "device": "cpu"}})
    (score,) = model.score_done([ClipQuery(instruction=instruction(), frames=(frame(1.0),))])
    assert score.raw == "Yesno"
    assert 0.5 < score.value <= 1.0


def test_the_version_follows_the_files_and_not_their_place(hopping: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(hopping, copy)
    assert fingerprint(copy) == fingerprint(hopping)
    assert grm(copy).version == grm(hopping).version
    assert grm(copy, dtype="bfloat16").version != grm(hopping).version
    (copy / "README.md").write_text("# words about it")
    assert fingerprint(copy) == fingerprint(hopping)
    (copy / "chat_template.jinja").write_text("another")
    assert fingerprint(copy) != fingerprint(hopping)


def test_weights_that_are_damaged_or_not_whole_are_refused(hopping: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    for name in ("cut", "lacking", "other", "empty"):
        shutil.copytree(hopping, tmp_path / name)
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:5000])
    tensors = load_file(tmp_path / "lacking" / "model.safetensors")
    tensors.pop(next(name for name in tensors if "q_proj.weight" in name))
    save_file(tensors, tmp_path / "lacking" / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "other" / "config.json").write_text('{"model_type": "internvl_chat"}')
    (tmp_path / "empty" / "model.safetensors").unlink()
    for name, told in (
        ("cut", "cannot be loaded"),
        ("lacking", "lack"),
        ("other", "cannot be loaded"),
        ("empty", "cannot"),
    ):
        with pytest.raises(RewardError, match=told) as error:
            grm(tmp_path / name)
        assert name in str(error.value)


def test_a_checkpoint_without_a_processor_is_refused(hopping: Path, tmp_path: Path) -> None:
    shutil.copytree(hopping, tmp_path / "mute")
    (tmp_path / "mute" / "tokenizer.json").unlink()
    (tmp_path / "mute" / "tokenizer_config.json").unlink()
    with pytest.raises(RewardError, match=r"token for images of .*mute is .* to its tokenizer, must be"):
        grm(tmp_path / "mute")


def test_a_text_model_is_no_vision_language_model(tmp_path: Path) -> None:
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=20
    )
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(RewardError, match="cannot be loaded with AutoModelForImageTextToText"):
        grm(tmp_path)


def test_memory_that_does_not_suffice_is_told_in_words(hopping: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = load(hopping)

    def exhausted(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(backend._loaded.network, "generate", exhausted)  # type: ignore[union-attr]
    with pytest.raises(RewardError, match=r"needs more memory than there is for 1 prompts, .* lower weights.batch"):
        backend.answer(prompts()[:1], max_tokens=2)


# Adapters


def adapter(folder: Path, base: Path, *, seed: int, empty: bool = False, tower: bool = False) -> Path:
    """A small LoRA of the language model, with an image tower of its own or without."""
    peft = pytest.importorskip("peft")
    network = transformers.AutoModelForImageTextToText.from_pretrained(base)
    torch.manual_seed(seed)
    own = ["visual"] if tower else None
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], modules_to_save=own)
    wrapped = peft.get_peft_model(network, config)
    if not empty:
        with torch.no_grad():
            for name, parameter in wrapped.named_parameters():
                if "lora_B" in name or "modules_to_save" in name:
                    parameter.normal_()
    wrapped.save_pretrained(folder)
    if tower:  # the published one names the tower and a part of it
        told = json.loads((folder / "adapter_config.json").read_text())
        (folder / "adapter_config.json").write_text(json.dumps(told | {"modules_to_save": ["visual", "merger"]}))
    return folder


def test_adapters_of_one_checkpoint_answer_differently(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    base = checkpoints["qwen3_vl"]
    folders = {name: adapter(tmp_path / name, base, seed=i) for i, name in enumerate(("progress", "completion"))}
    settings = WeightsSettings(model=str(base), device="cpu", dtype="float32")
    backends = InProcess.load_adapters(settings, {n: str(f) for n, f in folders.items()}, accepted=None)
    top = {name: first_logprobs(backend, prompts()[0])[0] for name, backend in backends.items()}
    assert first_logprobs(backends["progress"], prompts()[0])[0] == top["progress"]  # after the other had its turn
    assert len({json.dumps(one) for one in [*top.values(), first_logprobs(load(base), prompts()[0])[0]]}) == 3
    assert backends["progress"].identity != backends["completion"].identity
    model = make_reward_model(
        "lrm", {"weights": settings.model_dump(), "adapters": {name: str(path) for name, path in folders.items()}}
    )
    (score,) = model.score_progress([ClipQuery(instruction=instruction(), frames=(frame(0.5),))])
    assert not score.valid  # weights at random say nothing that can be read


@pytest.mark.parametrize("order", [("progress", "completion"), ("completion", "progress")])
def test_an_adapter_with_an_image_tower_of_its_own_leaves_the_others_theirs(
    checkpoints: dict[str, Path], tmp_path: Path, order: tuple[str, str]
) -> None:
    base = checkpoints["qwen3_vl"]
    folders = {
        name: str(adapter(tmp_path / name, base, seed=i, tower=name == "progress"))
        for i, name in enumerate(("progress", "completion"))
    }
    settings = WeightsSettings(model=str(base), device="cpu", dtype="float32")

    def together(*names: str) -> dict[str, InProcess]:
        return InProcess.load_adapters(settings, {name: folders[name] for name in names}, accepted=None)

    alone = {name: first_logprobs(together(name)[name], prompts()[0]) for name in folders}
    backends = together(*order)
    for name in (*order, *order):
        assert first_logprobs(backends[name], prompts()[0]) == alone[name]


def test_an_adapter_that_changes_nothing_is_refused(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    base = checkpoints["qwen3_vl"]
    folder = adapter(tmp_path / "empty", base, seed=0, empty=True)
    settings = {"weights": {"model": str(base), "device": "cpu"}, "adapters": {"progress": str(folder)}}
    with pytest.raises(RewardError, match=r"adapter progress from .*empty has 4 of 4 lora_B all zero, must have none"):
        make_reward_model("lrm", settings)


def test_an_adapter_that_is_none_is_refused(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("peft")
    settings = {
        "weights": {"model": str(checkpoints["qwen3_vl"]), "device": "cpu"},
        "adapters": {"progress": str(tmp_path)},
    }
    with pytest.raises(RewardError, match=r"adapter progress is .*, must be a LoRA of this checkpoint"):
        make_reward_model("lrm", settings)


def test_adapters_without_peft_say_what_to_install(
    checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "peft", None)
    settings = {"weights": {"model": str(checkpoints["qwen3_vl"])}, "adapters": {"progress": "folder"}}
    with pytest.raises(RewardError, match=r"need the package peft, .*pip install 'robot-stack\[vlm\]'"):
        make_reward_model("lrm", settings)
