"""Our own server says what the model says in this process; images keep their places under any template."""

from __future__ import annotations

import base64
import io
import json
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from reward_models.interface import ClipQuery, PairQuery
from reward_models.vlm import in_process
from reward_models.vlm.chat import data_uri, request_body
from reward_models.vlm.checkpoint import load_processor
from reward_models.vlm.config import ServerSettings, WeightsSettings
from reward_models.vlm.in_process import InProcess, takes_strings
from reward_models.vlm.prompt import Prompt
from reward_models.vlm.registry import make_endpoint, make_reward_model
from reward_models.vlm.serve import ModelServer
from robot_stack.types.errors import RewardError
from tests.reward_models import tiny_vlms
from tests.reward_models.spoken import Spoken, frame, image, instruction

pytestmark = pytest.mark.long

HOP = ("<score>-12.5%", "</score>")
STRINGS = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tiny_vlms.write(tmp_path_factory.mktemp("own"), "llava", words=("yes",), rivals=("no",))
    server = ModelServer({"tiny": InProcess.load(WeightsSettings(model=str(folder)), accepted=None)}, 0)
    server.start()
    yield server.url, folder
    server.close()


def test_log_probabilities_come_through_as_they_are_in_this_process(served: tuple[str, Path]) -> None:
    url, folder = served
    query = [ClipQuery(instruction=instruction(), frames=(frame(1.0),))]
    there = make_reward_model("yesno", {"server": {"url": url, "model": "tiny"}}).score_done(query)[0]
    here = make_reward_model("yesno", {"weights": {"model": str(folder)}}).score_done(query)[0]
    assert here.valid
    assert there.value == pytest.approx(here.value, abs=1e-5)
    assert make_endpoint(ServerSettings(url=url, model="tiny")).served() == ["tiny"]


def post(url: str, timeout_s: float = 60.0, **changes: Any) -> httpx.Response:
    prompt = Prompt(user=("Is it done? ", image(1.0)))
    body = request_body(prompt, lambda shown: data_uri(shown, "png"), model="tiny", max_tokens=4, top_logprobs=0)
    return httpx.post(f"{url}/chat/completions", json=body | changes, trust_env=False, timeout=timeout_s)


def asked(url: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]


def noise() -> bytes:
    """A PNG with several chunks of pixels."""
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (400, 400, 3), np.uint8)).save(file, "PNG")
    return file.getvalue()


def damaged() -> str:
    """A picture whose second chunk of pixels has no name."""
    content = noise()
    second = content.index(b"IDAT", content.index(b"IDAT") + 4)
    return uri(content[:second] + b"\x01\x02\x03\x04" + content[second + 4 :])


def huge() -> str:
    """A picture that says it has 60000x60000 pixels."""
    content = noise()
    header = b"IHDR" + struct.pack(">II", 60_000, 60_000) + content[24:29]
    return uri(content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:])


def uri(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "other"}, "model is 'other', must be one of tiny"),
        ({"temperature": 0.7}, "request: temperature: Input should be less than or equal to 0"),
        ({"stream": True}, "request: stream: Input should be False"),
        ({"messages": []}, "request: messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages are in another order"),
        ({"messages": asked("http://x/y.png")}, "image is at an address, must come in the request"),
        ({"messages": asked("data:image/png;base64,AAAA")}, "image cannot be read"),
        ({"messages": asked(damaged())}, "image cannot be read, must be PNG or JPEG (broken PNG file"),
        ({"messages": asked(huge())}, "image cannot be read, must be PNG or JPEG (Image size"),
    ],
)  # fmt: skip
def test_what_it_cannot_answer_is_refused_in_words(
    served: tuple[str, Path], changes: dict[str, Any], words: str
) -> None:
    reply = post(served[0], **changes)
    assert reply.status_code == 400
    assert words in reply.json()["error"]["message"]


def test_half_a_json_and_other_paths_are_refused(served: tuple[str, Path]) -> None:
    half = httpx.post(f"{served[0]}/chat/completions", content=b'{"model": ', trust_env=False)
    assert (half.status_code, "request: " in half.json()["error"]["message"]) == (400, True)
    assert httpx.get(f"{served[0]}/else", trust_env=False).status_code == 404
    assert post(served[0]).json()["choices"][0]["message"]["content"] == "yes"  # and goes on


def test_a_port_that_is_taken_is_said(served: tuple[str, Path]) -> None:
    port = int(served[0].rsplit(":", 1)[1].split("/")[0])
    with pytest.raises(RewardError, match=rf"port is {port}, must be free on 127\.0\.0\.1"):
        ModelServer({}, port)


def test_nothing_is_generated_for_a_client_that_has_gone(capfd: pytest.CaptureFixture[str]) -> None:
    asked, go = [], threading.Event()

    def say(prompt: Prompt) -> str:
        asked.append(prompt)
        assert go.wait(30.0)
        return "yes"

    def until(condition: Callable[[], bool]) -> None:
        for _ in range(3000):
            if condition():
                return
            time.sleep(0.01)  # between two looks, not in place of them
        pytest.fail("nothing came in 30 s")

    before = set(threading.enumerate())  # some of another server's, whose client still keeps a connection, may stay
    server = ModelServer({"tiny": Spoken(say)}, 0)
    server.start()
    for _ in range(3):  # the first is being answered, the others wait
        with pytest.raises(httpx.ReadTimeout):
            post(server.url, timeout_s=0.3)
        until(lambda: len(asked) == 1)
    go.set()
    assert post(server.url).json()["choices"][0]["message"]["content"] == "yes"
    until(lambda: not any("process_request" in thread.name for thread in set(threading.enumerate()) - before))
    server.close()
    assert len(asked) == 2
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("kind", ["internvl", "llava"])
def test_images_keep_their_places_under_a_template_of_strings(kind: str, tmp_path: Path) -> None:
    folder = tiny_vlms.write(tmp_path / "parts", kind)
    strings = tiny_vlms.write(tmp_path / "strings", kind)
    (strings / "chat_template.jinja").write_text(STRINGS)
    shown = [image(p, 56, 56) for p in (0.0, 0.5, 1.0)]
    words = ("Image-1: ", "\nImage-2: ", "\nWhich? ")
    user = tuple(part for pair in zip(words, shown, strict=True) for part in pair)
    prompts = [Prompt(user=(*user, "<score>"), system="Judge.")]
    found = []
    for place, wanted in ((folder, False), (strings, True)):
        processor = load_processor(place, WeightsSettings(model=str(place)))
        assert takes_strings(processor) is wanted
        found.append(in_process._inputs(processor, prompts))
    assert found[1]["input_ids"].tolist() == found[0]["input_ids"].tolist()
    forged = [Prompt(user=(*user, tiny_vlms.IMAGE_TEXT[kind] + "<score>"), system="Judge.")]
    assert in_process._inputs(processor, forged)["input_ids"].tolist() == found[0]["input_ids"].tolist()
    for name in found[0]:
        if name.startswith("pixel"):
            assert np.array_equal(found[0][name].numpy(), found[1][name].numpy())


def test_a_hop_comes_from_a_checkpoint_with_a_template_of_strings(tmp_path: Path) -> None:
    folder = tiny_vlms.write(tmp_path, "llava", words=HOP)
    (folder / "chat_template.jinja").write_text(STRINGS)
    model = make_reward_model("grm", {"weights": {"model": str(folder)}})
    query = PairQuery(instruction=instruction(goal=True), before=frame(0.1), after=frame(0.9), start=frame(0.0))
    assert model.score_pairs([query])[0].value == -0.125
    assert json.loads((folder / "config.json").read_text())["model_type"] == "llava"
