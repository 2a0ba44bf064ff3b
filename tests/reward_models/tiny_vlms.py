"""Small random checkpoints of the real architectures, with a tokenizer of bytes, written as they are released.

`scripted` makes one that says a given text: each word of it is a token, and the next word depends on the last alone.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

KINDS = ("qwen2_5_vl", "qwen3_vl", "internvl", "llava")
HIDDEN = 32
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}IMAGE{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
IMAGE_TEXT = {
    "qwen2_5_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "qwen3_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "internvl": "<IMG_CONTEXT>",
    "llava": "<image>",
}
SPECIAL = [
    "<|im_start|>", "<|im_end|>", "<|pad|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>",
    "<img>", "</img>", "<IMG_CONTEXT>", "<video>", "<image>",
]  # fmt: skip


def make_tokenizer(kind: str, words: Sequence[str] = ()) -> Any:
    """256 bytes, the special tokens of all kinds, and some words that are one token each."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    core = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={letter: i for i, letter in enumerate(alphabet)}, merges=[])
    )
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    core.add_special_tokens([tokenizers.AddedToken(text, special=True) for text in SPECIAL])
    if kind == "clip":  # which reads a text at its end
        end = core.token_to_id("<|im_end|>")
        core.post_processor = tokenizers.processors.TemplateProcessing(
            single="$A <|im_end|>", special_tokens=[("<|im_end|>", end)]
        )
    core.add_tokens([tokenizers.AddedToken(word) for word in words])
    extra = {
        "internvl": {
            "start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
        "llava": {"image_token": "<image>"},
    }.get(kind, {})  # fmt: skip
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|pad|>", extra_special_tokens=extra
    )


def make_config(kind: str, tokenizer: Any) -> Any:
    def token(text: str) -> int:
        return int(tokenizer.convert_tokens_to_ids(text))

    text: dict[str, Any] = {
        "hidden_size": HIDDEN, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2, "head_dim": 16, "vocab_size": len(tokenizer), "max_position_embeddings": 8192,
        "tie_word_embeddings": False, "eos_token_id": token("<|im_end|>"), "pad_token_id": token("<|pad|>"),
        "bos_token_id": None,
    }  # fmt: skip
    marks = {name: token(f"<|{name}|>") for name in ("vision_start", "vision_end")}
    ids = {f"{name}_token_id": number for name, number in marks.items()} | {
        "image_token_id": token("<|image_pad|>"), "video_token_id": token("<|video_pad|>"),
    }  # fmt: skip
    if kind == "qwen2_5_vl":
        rope = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]}
        vision = {
            "depth": 2, "hidden_size": HIDDEN, "intermediate_size": 48, "num_heads": 2, "patch_size": 14,
            "out_hidden_size": HIDDEN, "fullatt_block_indexes": [1], "window_size": 56,
        }  # fmt: skip
        return transformers.Qwen2_5_VLConfig(
            text_config=text | {"rope_parameters": rope}, vision_config=vision, tie_word_embeddings=False, **ids
        )
    if kind == "qwen3_vl":
        rope = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [4, 2, 2]}
        vision = {
            "depth": 2, "hidden_size": HIDDEN, "intermediate_size": 48, "num_heads": 2, "patch_size": 16,
            "out_hidden_size": HIDDEN, "deepstack_visual_indexes": [0], "num_position_embeddings": 64,
        }  # fmt: skip
        return transformers.Qwen3VLConfig(
            text_config=text | {"rope_parameters": rope}, vision_config=vision, tie_word_embeddings=False, **ids
        )
    if kind == "internvl":
        vision = {
            "hidden_size": HIDDEN, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
            "image_size": [56, 56], "patch_size": [14, 14],
        }  # fmt: skip
        return transformers.InternVLConfig(
            text_config=text | {"model_type": "qwen2"}, vision_config=vision, image_token_id=token("<IMG_CONTEXT>"),
            tie_word_embeddings=False,
        )  # fmt: skip
    vision = {
        "model_type": "clip_vision_model", "hidden_size": HIDDEN, "intermediate_size": 48, "num_hidden_layers": 2,
        "num_attention_heads": 2, "image_size": 56, "patch_size": 14,
    }  # fmt: skip
    return transformers.LlavaConfig(
        text_config=text | {"model_type": "llama"}, vision_config=vision, image_token_id=token("<image>"),
        vision_feature_layer=-1, tie_word_embeddings=False,
    )  # fmt: skip


IMAGES: dict[str, dict[str, Any]] = {
    "qwen2_5_vl": {
        "image_processor_type": "Qwen2VLImageProcessor", "patch_size": 14, "merge_size": 2,
        "size": {"shortest_edge": 784, "longest_edge": 1_000_000},
    },
    "qwen3_vl": {
        "image_processor_type": "Qwen2VLImageProcessor", "patch_size": 16, "merge_size": 2,
        "size": {"shortest_edge": 1024, "longest_edge": 1_000_000},
    },
    "internvl": {
        "image_processor_type": "GotOcr2ImageProcessor", "size": {"height": 56, "width": 56}, "min_patches": 1,
        "max_patches": 1, "crop_to_patches": False,
    },
    "llava": {
        "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 56}, "do_center_crop": True,
        "crop_size": {"height": 56, "width": 56},
    },
}  # fmt: skip
PROCESSORS: dict[str, dict[str, Any]] = {
    "qwen2_5_vl": {"processor_class": "Qwen2_5_VLProcessor"},
    "qwen3_vl": {"processor_class": "Qwen3VLProcessor"},
    "internvl": {"processor_class": "InternVLProcessor", "image_seq_length": 4},
    "llava": {
        "processor_class": "LlavaProcessor",
        "patch_size": 14,
        "num_additional_image_tokens": 1,
        "vision_feature_select_strategy": "default",
    },
}


def write(
    folder: Path, kind: str, *, words: Sequence[str] = (), rivals: Sequence[str] = (), template: bool = True
) -> Path:
    """A folder as the hub has it.

    Args:
        folder: Where to write it.
        kind: One of `KINDS`.
        words: That it says, see the module; without, it is random.
        rivals: That it nearly says in the place of the second, third, ... word.
        template: False leaves the chat template out.
    """
    tokenizer = make_tokenizer(kind, words)
    torch.manual_seed(0)
    network = transformers.AutoModelForImageTextToText.from_config(make_config(kind, tokenizer))
    network.generation_config = transformers.GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        do_sample=True, temperature=0.1, repetition_penalty=1.3,  # as released ones have it; nothing to follow
    )  # fmt: skip
    if words:
        _script(network, tokenizer, words, rivals)
    else:
        with torch.no_grad():
            for parameter in network.parameters():  # far enough from nothing that images matter
                parameter.add_(0.1 * torch.randn_like(parameter))
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(IMAGES[kind] | PROCESSORS[kind]))
    (folder / "processor_config.json").write_text(json.dumps(PROCESSORS[kind]))
    if template:
        (folder / "chat_template.jinja").write_text(TEMPLATE.replace("IMAGE", IMAGE_TEXT[kind]))
    return folder


def _script(network: Any, tokenizer: Any, words: Sequence[str], rivals: Sequence[str]) -> None:
    """The stream of each token stays its embedding, and the head answers an embedding with the next word."""
    chain = [tokenizer.encode("\n", add_special_tokens=False)[-1]]
    chain += [tokenizer.convert_tokens_to_ids(word) for word in words] + [tokenizer.eos_token_id]
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "visual" not in name and "vision" not in name and name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter.zero_()
        embedding = network.get_input_embeddings().weight
        embedding.copy_(torch.randn_like(embedding))
        head = network.get_output_embeddings().weight
        head.zero_()
        for now, following in itertools.pairwise(chain):
            head[following] += embedding[now] / embedding[now].norm()
        for now, rival in zip(chain[1:], rivals, strict=False):
            head[tokenizer.convert_tokens_to_ids(rival)] += 0.8 * embedding[now] / embedding[now].norm()


def write_clip(folder: Path, seed: int = 0) -> Path:
    """A small CLIP with its processor."""
    tokenizer = make_tokenizer("clip")
    torch.manual_seed(seed)
    small = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.CLIPConfig(
        vision_config=small | {"image_size": 32, "patch_size": 8},
        text_config=small
        | {
            "vocab_size": len(tokenizer), "max_position_embeddings": 77, "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        projection_dim=16,
    )  # fmt: skip
    network = transformers.CLIPModel(config)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    shape = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}, "do_center_crop": True}
    facts = {"image_processor_type": "CLIPImageProcessor", "processor_class": "CLIPProcessor", **shape}
    (folder / "preprocessor_config.json").write_text(json.dumps(facts))
    return folder
