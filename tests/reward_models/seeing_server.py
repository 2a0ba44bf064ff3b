"""Behaviours of a real HTTP server that looks at the images it is sent, for each family of large models."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from reward_models.decode import hop_between, remaining_between
from tests.reward_models.bad_server import Behaviour, Handler, chat
from tests.reward_models.spoken import BRIGHT, DIM

Said = str | dict[str, Any]
Answer = Callable[[list[float]], Said]


def images_of(body: dict[str, Any]) -> list[float]:
    """Progress of each image of a request, in the order in which it came."""
    parts = [
        part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    found = []
    for part in parts:
        if part["type"] == "image_url":
            content = base64.b64decode(part["image_url"]["url"].partition(",")[2])
            grey = float(np.asarray(Image.open(io.BytesIO(content))).mean())
            found.append(min(1.0, max(0.0, (grey - DIM) / (BRIGHT - DIM))))
    return found


def sees(answer: Answer) -> Behaviour:
    """Answers by the progress that its images show."""

    def behave(handler: Handler, body: dict[str, Any]) -> None:
        said = answer(images_of(body))
        reply = chat(said) if isinstance(said, str) else chat("", **said)
        handler.reply(200, json.dumps(reply).encode())

    return behave


def grm(seen: list[float]) -> str:
    return f"<score>{100 * hop_between(seen[2], seen[5]):+.1f}%</score>"


def grm_swapped(seen: list[float]) -> str:
    """As a server that moves the images of after before those of before."""
    return f"<score>{100 * hop_between(seen[5], seen[2]):+.1f}%</score>"


def grm_inverted(seen: list[float]) -> str:
    return f"<score>{-100 * hop_between(seen[2], seen[5]):+.1f}%</score>"


def vlac(seen: list[float]) -> str:
    return f"{100 * remaining_between(seen[-2], seen[-1]):+.1f}"


def roboreward(seen: list[float]) -> str:
    return f"ANSWER: {1 + round(4 * seen[-1])}"


def lrm(seen: list[float]) -> str:
    return json.dumps({"completion_progress": round(seen[-1], 3)})


def lrm_further(seen: list[float]) -> str:
    return json.dumps({"more_complete_image": "ImageB" if seen[1] > seen[0] else "ImageA"})


def yesno(seen: list[float]) -> Said:
    yes = 0.95 if seen[-1] > 0.9 else 0.05
    top = [{"token": word, "logprob": float(np.log(p))} for word, p in (("yes", yes), ("no", 1 - yes))]
    return {
        "message": {"role": "assistant", "content": "yes" if yes > 0.5 else "no"},
        "logprobs": {"content": [{**max(top, key=lambda one: one["logprob"]), "top_logprobs": top}]},
    }
