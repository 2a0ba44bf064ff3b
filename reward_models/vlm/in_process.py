"""A model in this process, through transformers: greedy, batched, with log-probabilities where they are asked for."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from reward_models.vlm.checkpoint import find_folder, fingerprint, load_network, load_processor
from reward_models.vlm.config import WeightsSettings
from reward_models.vlm.licences import check_licence
from reward_models.vlm.optional import optional_import
from reward_models.vlm.prompt import Answer, BreakerState, Prompt, Token
from robot_stack.types.errors import RewardError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    """The network and processor that the adapters of one checkpoint share."""

    network: Any
    processor: Any
    stops: frozenset[int]
    pad: int


class InProcess:
    """A backend for a checkpoint in this process, or for one adapter on it. From `load` or `load_adapters`."""

    def __init__(self, loaded: _Loaded, settings: WeightsSettings, *, name: str, identity: str, adapter: str) -> None:
        self.name = name
        self.batch = settings.batch
        self._loaded: _Loaded | None = loaded
        self._identity = identity
        self._adapter = adapter

    @classmethod
    def load(cls, settings: WeightsSettings, *, accepted: str | None) -> InProcess:
        """Load a checkpoint without adapters.

        Raises:
            RewardError: If it cannot be loaded, or its licence is not accepted.
        """
        loaded, identity = _load(settings, accepted)
        return cls(loaded, settings, name=settings.model, identity=identity, adapter="")

    @classmethod
    def load_adapters(
        cls, settings: WeightsSettings, adapters: Mapping[str, str], *, accepted: str | None
    ) -> dict[str, InProcess]:
        """Load one checkpoint under several adapters, each a backend; they share its memory and take turns.

        Args:
            adapters: Name -> folder or hub id.

        Raises:
            RewardError: If one cannot be loaded, is empty, or its licence is not accepted.
        """
        optional_import("peft")
        loaded, identity = _load(settings, accepted)
        found = {}
        for name, model in adapters.items():
            folder = find_folder(model, settings)
            check_licence(model, accepted=accepted, folder=folder)
            _add_adapter(loaded.network, name, str(folder))
            found[name] = cls(
                loaded,
                settings,
                name=f"{settings.model} with adapter {model}",
                identity=f"{identity} {fingerprint(folder)}",
                adapter=name,
            )
        loaded.network.eval().requires_grad_(False)
        return found

    @property
    def identity(self) -> str:
        """Return the checksum of the files and the number type they are computed in."""
        return self._identity

    @property
    def breaker(self) -> BreakerState:
        """Return "closed", always: there is no server to be left alone."""
        return "closed"

    def close(self) -> None:
        """Let go of the weights."""
        self._loaded = None

    def answer(self, prompts: Sequence[Prompt], *, max_tokens: int, top_logprobs: int = 0) -> list[Answer]:
        """Generate greedy answers, see `Backend.answer`."""
        if self._loaded is None:
            raise RewardError(f"model {self.name} is closed, must be loaded again")
        if self._adapter:  # not the network's own method, which refuses where one adapter brought whole modules
            optional_import("peft.functional").set_adapter(self._loaded.network, [self._adapter], inference_mode=True)
        torch = optional_import("torch")
        answers: list[Answer] = []
        for start in range(0, len(prompts), self.batch):
            chunk = prompts[start : start + self.batch]
            try:
                with torch.inference_mode():
                    answers += _generate(self._loaded, chunk, max_tokens, top_logprobs)
            except torch.OutOfMemoryError as error:
                raise RewardError(
                    f"model {self.name} needs more memory than there is for {len(chunk)} prompts, must fit; lower "
                    "weights.batch or the size of the images"
                ) from error
            except (ValueError, RuntimeError) as error:  # of a processor or network that does not take the prompt
                raise RewardError(f"model {self.name} cannot take the prompt, must be able to: {error}") from error
        return answers


def _load(settings: WeightsSettings, accepted: str | None) -> tuple[_Loaded, str]:
    transformers = optional_import("transformers")
    folder = find_folder(settings.model, settings)
    check_licence(settings.model, accepted=accepted, folder=folder)
    network = load_network(transformers.AutoModelForImageTextToText, folder, settings)
    processor = load_processor(folder, settings)
    if processor.chat_template is None and getattr(processor, "image_token", None) is None:
        raise RewardError(f"processor of {settings.model} has no chat template, must have one or a token for images")
    marks = [getattr(part, "image_token_id", None) for part in (processor, network.config)]
    if marks[0] != marks[1] and None not in marks:  # transformers makes up a tokenizer whose files are missing
        raise RewardError(
            f"token for images of {settings.model} is {marks[0]} to its tokenizer, must be {marks[1]} as in its "
            "config.json; fetch its files again"
        )
    saved, tokenizer = network.generation_config, processor.tokenizer
    stops = saved.eos_token_id if saved.eos_token_id is not None else tokenizer.eos_token_id
    stops = frozenset([stops] if isinstance(stops, int) else stops or ())
    pad = next(token for token in (saved.pad_token_id, tokenizer.pad_token_id, 0) if token is not None)
    # all else that a checkpoint recommends, temperature or a penalty on repetitions, would make it other than greedy
    network.generation_config = transformers.GenerationConfig(
        do_sample=False, eos_token_id=sorted(stops), pad_token_id=pad
    )
    _log.info("reward model %s: %s on %s", settings.model, network.dtype, network.device)
    return _Loaded(network=network, processor=processor, stops=stops, pad=pad), f"{fingerprint(folder)} {network.dtype}"


def _add_adapter(network: Any, name: str, folder: str) -> None:
    """Load an adapter and see that it does something.

    An adapter that was loaded onto weights without memory behind them is left as it is initialised: its second factor
    is 0 and the model answers as if it were not there, which is what happened in released code.
    """
    try:
        network.load_adapter(folder, adapter_name=name, adapter_kwargs={"local_files_only": True})
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise RewardError(f"adapter {name} is {folder}, must be a LoRA of this checkpoint ({reason})") from error
    factors = {key: tensor for key, tensor in network.named_parameters() if f"lora_B.{name}." in key}
    empty = sorted(key for key, tensor in factors.items() if not tensor.any())
    if empty or not factors:
        raise RewardError(
            f"adapter {name} from {folder} has {len(empty)} of {len(factors)} lora_B all zero, must have none and at "
            f"least one lora_B; it would change nothing there{': ' + empty[0] if empty else ''}; fetch it again"
        )


def _generate(loaded: _Loaded, prompts: Sequence[Prompt], max_tokens: int, top_logprobs: int) -> list[Answer]:
    network, processor = loaded.network, loaded.processor
    inputs = _inputs(processor, prompts).to(network.device)
    out = network.generate(
        **inputs, max_new_tokens=max_tokens, output_logits=top_logprobs > 0, return_dict_in_generate=True
    )
    generated = out.sequences[:, inputs["input_ids"].shape[1] :].cpu().numpy()
    answers = []
    for row, tokens in enumerate(generated):
        ends = np.flatnonzero(np.isin(tokens, list(loaded.stops)))
        said = tokens[: ends[0]] if len(ends) else tokens
        answers.append(
            Answer(
                text=processor.tokenizer.decode(said, skip_special_tokens=True),
                tokens=_tokens(processor.tokenizer, said, out.logits, row, top_logprobs) if top_logprobs else (),
                complete=bool(len(ends)),
            )
        )
    return answers


def _inputs(processor: Any, prompts: Sequence[Prompt]) -> Any:
    """Make the input tensors of a batch of prompts, padded on the left."""
    if processor.chat_template is None or takes_strings(processor):
        texts = [_in_line(processor, prompt) for prompt in prompts]
        images = [[Image.fromarray(p) for p in prompt.user if not isinstance(p, str)] for prompt in prompts]
        return processor(text=texts, images=images if any(images) else None, return_tensors="pt", padding=True)
    return processor.apply_chat_template(
        [_conversation(prompt) for prompt in prompts],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        sanitize_control_tokens=True,  # a task text is text, whatever it looks like
        processor_kwargs={"padding": True},
    )


def takes_strings(processor: Any) -> bool:
    """Return whether a chat template writes the content of a message down as it is, which must then be a string.

    Given the parts of a message, it would write their Python representation into the prompt.
    """
    parts = [{"type": "text", "text": "A"}, {"type": "image"}]
    try:
        shown = processor.apply_chat_template([{"role": "user", "content": parts}], tokenize=False)
    except (TypeError, ValueError, jinja_error()):  # a template that adds it to a string
        return True
    return "'type'" in shown


def jinja_error() -> type[Exception]:
    """Return the error of templates."""
    error: type[Exception] = optional_import("jinja2").TemplateError
    return error


def _in_line(processor: Any, prompt: Prompt) -> str:
    """Write a prompt as one text, with the mark of an image at the place of each."""
    mark: str = processor.image_token

    def words(text: str) -> str:  # a task text is text, whatever it looks like
        return text.replace(mark, "")

    user = "".join(words(part) if isinstance(part, str) else mark for part in prompt.user)
    if processor.chat_template is None:
        return words(prompt.system) + user
    system = [{"role": "system", "content": words(prompt.system)}] if prompt.system else []
    messages = [*system, {"role": "user", "content": user}]
    text: str = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return text


def _conversation(prompt: Prompt) -> list[dict[str, Any]]:
    content = [
        {"type": "text", "text": part} if isinstance(part, str) else {"type": "image", "image": Image.fromarray(part)}
        for part in prompt.user
    ]
    system = [{"role": "system", "content": [{"type": "text", "text": prompt.system}]}] if prompt.system else []
    return [*system, {"role": "user", "content": content}]


def _tokens(tokenizer: Any, said: np.ndarray, logits: Sequence[Any], row: int, count: int) -> tuple[Token, ...]:
    """Return the generated tokens with their likely alternatives, from the logits before anything is done to them."""
    tokens = []
    for step, token in enumerate(said):
        values, ids = logits[step][row].float().log_softmax(dim=-1).topk(count)
        top = tuple((tokenizer.decode([i]), float(v)) for i, v in zip(ids.tolist(), values.tolist(), strict=True))
        tokens.append(Token(text=tokenizer.decode([int(token)]), top=top))
    return tuple(tokens)
