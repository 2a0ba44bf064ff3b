"""The format of `POST /v1/chat/completions`: a request from a prompt, an answer from a reply. No network."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from PIL import Image
from pydantic import BaseModel, ValidationError

from reward_models.vlm.prompt import Answer, Prompt, Token

ImageFormat = Literal["png", "jpeg"]
JPEG_QUALITY = 95
WHOLE = ("stop", None)
"""Reasons for the end of an answer that was said to its end; some servers give none."""
CUT = ("length", "content_filter")
"""Reasons for the end of one that would be cut again if it were asked for again."""


class _Alternative(BaseModel):
    token: str
    logprob: float


class _Token(_Alternative):
    top_logprobs: list[_Alternative] = []


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Reply(BaseModel):
    choices: list[_Choice]


class NotAReply(ValueError):
    """The error of a body that is no chat completion."""


def request_body(
    prompt: Prompt, encode: Callable[[np.ndarray], str], *, model: str, max_tokens: int, top_logprobs: int
) -> dict[str, Any]:
    """Build the JSON of a greedy request.

    Args:
        encode: From an image to its address, see `data_uri`.
        top_logprobs: Alternatives per token, 0 for none.
    """
    content = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": encode(part)}}
        for part in prompt.user
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if prompt.system:
        messages.insert(0, {"role": "system", "content": prompt.system})
    body: dict[str, Any] = {"model": model, "messages": messages, "max_tokens": max_tokens, "temperature": 0.0}
    if top_logprobs:
        body |= {"logprobs": True, "top_logprobs": top_logprobs}
    return body


def read_reply(body: bytes) -> Answer:
    """Read the first choice of a reply as an answer; one that the server broke off has a problem and no text.

    vLLM ends what it is at with "abort" when it is stopped, and answers 200.

    Raises:
        NotAReply: If the body is not JSON, or not of a chat completion.
    """
    try:
        reply = _Reply.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise NotAReply(f"{place}: {first['msg']}" if place else first["msg"]) from error
    if not reply.choices:
        raise NotAReply("choices: there is none")
    choice = reply.choices[0]
    if choice.finish_reason not in WHOLE + CUT:
        return Answer(problem=f"it broke its answer off: {choice.finish_reason[:40]!r}")
    said = (choice.logprobs.content if choice.logprobs else None) or []
    tokens = tuple(
        Token(
            text=token.token,
            top=tuple(sorted(((one.token, one.logprob) for one in token.top_logprobs), key=lambda one: -one[1])),
        )
        for token in said
    )
    return Answer(text=choice.message.content or "", tokens=tokens, complete=choice.finish_reason in WHOLE)


def data_uri(image: np.ndarray, image_format: ImageFormat) -> str:
    """Encode an image as a data URI: PNG, or JPEG of a quality that keeps small things.

    Args:
        image: uint8 RGB, shape (H, W, 3).
        image_format: PNG is exact; JPEG is a tenth of the size.
    """
    buffer = io.BytesIO()
    picture = Image.fromarray(np.ascontiguousarray(image))
    if image_format == "png":
        picture.save(buffer, "PNG", compress_level=1)
    else:
        picture.save(buffer, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return f"data:image/{image_format};base64,{base64.b64encode(buffer.getvalue()).decode()}"
