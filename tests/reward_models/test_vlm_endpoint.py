"""A server may answer well, badly, late or never: every answer is a score, an invalid score or an error in words."""

from __future__ import annotations

import base64
import gzip
import io
import json
import logging
import math
import random
import socket
import threading
import time
from typing import Any

import numpy as np
import pytest
from PIL import Image

from reward_models.interface import ClipQuery, PairQuery
from reward_models.vlm import endpoint
from reward_models.vlm.config import ServerSettings
from reward_models.vlm.endpoint import Breaker
from reward_models.vlm.prompt import Answer, Prompt
from reward_models.vlm.registry import make_reward_model
from robot_stack.types.errors import RewardError
from tests.reward_models.bad_server import (
    Behaviour,
    Handler,
    Server,
    chat,
    compressed,
    drips,
    hangs,
    hangs_up,
    raw,
    says,
    status,
)
from tests.reward_models.spoken import frame, image, instruction

httpx = pytest.importorskip("httpx")

ASK = Prompt(user=("What is this? ", image(0.5), " Say it."), system="Be brief.")
ALTERNATIVES = [{"token": "No", "logprob": -2.0, "bytes": []}, {"token": "Yes", "logprob": -0.1, "bytes": []}]
LOGPROBS = {"content": [{"token": "Yes", "logprob": -0.1, "bytes": [89], "top_logprobs": ALTERNATIVES}]}


class Clock:
    """Seconds that only pass when told."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "BACKOFF_S", 0.001)


def connect(url: str, token: str | None = None, clock: Any = time.monotonic, **settings: Any) -> endpoint.Endpoint:
    config = ServerSettings(url=url, model="org/model", **({"timeout_s": 5.0} | settings))
    return endpoint.Endpoint(config, model="org/model", token=token, clock=clock, rng=random.Random(0))


def ask(url: str, count: int = 1, top_logprobs: int = 0, **settings: Any) -> list[Answer]:
    return connect(url, **settings).answer([ASK] * count, max_tokens=16, top_logprobs=top_logprobs)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# What is sent


def test_a_request_is_greedy_and_has_text_and_images_in_order() -> None:
    with Server(says("A peg.")) as server:
        (answer,) = ask(server.url)
    assert answer == Answer(text="A peg.")
    (body,) = server.bodies
    assert server.paths == ["/v1/chat/completions"]
    assert {name: body[name] for name in ("model", "max_tokens", "temperature")} == {
        "model": "org/model", "max_tokens": 16, "temperature": 0.0,
    }  # fmt: skip
    assert "logprobs" not in body
    assert "Authorization" not in server.headers[0]
    system, user = body["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert [part["type"] for part in user["content"]] == ["text", "image_url", "text"]


@pytest.mark.parametrize(("image_format", "slack"), [("png", 0), ("jpeg", 3)])
def test_an_image_arrives_as_it_was(image_format: str, slack: int) -> None:
    rows, columns = np.mgrid[0:30, 0:50]
    picture = np.stack([rows * 4, columns * 4, rows + columns], axis=2).astype(np.uint8)
    with Server(says("x")) as server:
        connect(server.url, image_format=image_format).answer([Prompt(user=(picture,))], max_tokens=4)
    (message,) = server.bodies[0]["messages"]
    kind, content = message["content"][0]["image_url"]["url"].split(",")
    assert kind == f"data:image/{image_format};base64"
    arrived = np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))
    assert np.abs(arrived.astype(int) - picture).max() <= slack


def test_the_token_is_sent_and_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    def echo(handler: Handler, body: dict[str, Any]) -> None:
        handler.reply(401, f"wrong: {handler.headers['Authorization']}".encode())

    with Server(says("x"), echo) as server:
        client = connect(server.url, token="s3cret-token")
        client.answer([ASK], max_tokens=4)
        with pytest.raises(RewardError, match=r"it answered 401: wrong: Bearer \*\*\*") as error:
            client.answer([ASK], max_tokens=4)
    assert server.headers[0]["Authorization"] == "Bearer s3cret-token"
    assert "s3cret-token" not in caplog.text + str(error.value)


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with Server(says("x")) as server:
        assert ask(server.url)[0].text == "x"


def test_no_more_requests_are_open_than_allowed() -> None:
    lock, now, most = threading.Lock(), [0], [0]
    together = threading.Barrier(3)

    def count(handler: Handler, body: dict[str, Any]) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        together.wait(10)  # all three places are in use
        with lock:
            now[0] -= 1
        handler.reply(200, json.dumps(chat("x")).encode())

    with Server(count) as server:
        assert len(ask(server.url, count=9, concurrency=3)) == 9
    assert most == [3]


def test_answers_are_in_the_order_of_the_prompts() -> None:
    def repeat(handler: Handler, body: dict[str, Any]) -> None:
        number = body["messages"][-1]["content"][0]["text"]
        handler.owner.closing.wait(0.02 * (3 - int(number)))  # the first one last
        handler.reply(200, json.dumps(chat(number)).encode())

    with Server(repeat) as server:
        prompts = [Prompt(user=(str(i),)) for i in range(4)]
        assert [a.text for a in connect(server.url).answer(prompts, max_tokens=4)] == ["0", "1", "2", "3"]


# What comes back


def test_log_probabilities_are_read_most_probable_first() -> None:
    with Server(says("Yes", logprobs=LOGPROBS)) as server:
        (answer,) = ask(server.url, top_logprobs=20)
    assert answer.tokens[0].text == "Yes"
    assert answer.tokens[0].top == (("Yes", -0.1), ("No", -2.0))
    assert (server.bodies[0]["logprobs"], server.bodies[0]["top_logprobs"]) == (True, 20)


def test_a_server_without_log_probabilities_is_refused_where_they_are_needed() -> None:
    with Server(says("Yes")) as server, pytest.raises(RewardError, match="gives no log-probabilities"):
        ask(server.url, top_logprobs=20)


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_an_answer_that_was_cut_is_marked(reason: str) -> None:
    with Server(says("+4", finish_reason=reason)) as server:
        assert not ask(server.url)[0].complete
        assert len(server.bodies) == 1  # it would be cut again


@pytest.mark.parametrize("reason", ["stop", None])
def test_an_answer_that_was_said_to_its_end_is_whole(reason: str | None) -> None:
    with Server(says("+45", finish_reason=reason)) as server:
        assert ask(server.url) == [Answer(text="+45")]


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_that_a_server_broke_off_is_none_and_is_asked_for_again(reason: str) -> None:
    broken_off = says("+4", finish_reason=reason)
    with Server(broken_off, says("+45")) as server:
        assert ask(server.url) == [Answer(text="+45")]
    with Server(broken_off) as server, pytest.raises(RewardError, match=f"it broke its answer off: '{reason}'"):
        ask(server.url)


@pytest.mark.parametrize("content", [None, ""])
def test_a_model_that_says_nothing_says_nothing(content: str | None) -> None:
    with Server(says(content)) as server:  # type: ignore[arg-type]
        assert ask(server.url)[0] == Answer(text="")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"Welcome to our printer!", "no chat completion"),
        (b'{"choices": [{"message": {"content": "x"', "no chat completion"),
        (b"{}", r"choices: Field required"),
        (b'{"choices": []}', "choices: there is none"),
        (b'{"choices": [{"message": {"content": 4}}]}', r"choices.0.message.content"),
        (b"\xff\xfe\x00", "no chat completion"),
        (b"", "no chat completion"),
        (b"[" * 20_000, "no chat completion"),
    ],
)
def test_a_reply_that_is_none_is_an_error_with_model_address_and_words(content: bytes, told: str) -> None:
    with Server(raw(content)) as server, pytest.raises(RewardError, match=told) as error:
        ask(server.url)
    assert f"model org/model at {server.url} gave no answer, must answer" in str(error.value)
    assert len(server.bodies) == 1  # it would say the same again


def test_an_endless_reply_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MAX_REPLY_BYTES", 1000)
    with Server(raw(b"x" * 100_000)) as server, pytest.raises(RewardError, match="longer than 1000 bytes"):
        ask(server.url)


def test_a_reply_larger_than_any_model_means_is_not_taken_apart() -> None:
    with Server(says("x" * 5_000_000)) as server, pytest.raises(RewardError, match="longer than 4194304 bytes"):
        ask(server.url)


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "zstd", "br"])
def test_a_reply_that_is_compressed_is_not_unpacked(coding: str) -> None:
    bomb = compressed(coding, gzip.compress(b" " * 10_000_000 + json.dumps(chat("x")).encode()))
    with Server(bomb) as server, pytest.raises(RewardError, match=rf"its reply \(200\) is compressed by '{coding}'"):
        ask(server.url)
    assert server.headers[0]["Accept-Encoding"] == "identity"
    assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (compressed("gzip", gzip.compress(b'{"data": []}')), r"compressed by 'gzip'"),
        (raw(b'{"data": "' + b"x" * 5_000_000 + b'"}'), "longer than 4194304 bytes"),
        (drips, r"no answer within 0.5 s"),
        (status(404), "it answered 404"),
        (raw(b"[]"), "TypeError"),
        (raw(b"[" * 100_000), "RecursionError"),
    ],
)
def test_a_list_of_models_that_is_none_is_an_error_in_words(behaviour: Behaviour, told: str) -> None:
    timeout_s = 0.5 if behaviour is drips else 20.0
    with Server(behaviour) as server, pytest.raises(RewardError, match=f"does not say which models it has .*{told}"):
        connect(server.url, timeout_s=timeout_s).served()


# What goes wrong


@pytest.mark.parametrize("code", [500, 502, 503, 429])
def test_a_busy_server_is_asked_again_twice_at_most(code: int) -> None:
    with Server(status(code), status(code), says("x")) as server:
        assert ask(server.url)[0].text == "x"
    assert len(server.bodies) == 3
    with Server(status(code)) as server, pytest.raises(RewardError, match=f"it answered {code}: out of order"):
        ask(server.url)
    assert len(server.bodies) == 3


@pytest.mark.parametrize("code", [400, 401, 404, 422, 302])
def test_a_refusal_is_not_asked_again(code: int) -> None:
    with Server(status(code, "no such model")) as server, pytest.raises(RewardError, match="no such model"):
        ask(server.url)
    assert len(server.bodies) == 1


@pytest.mark.parametrize("behaviour", [hangs, drips])
def test_a_server_that_does_not_come_to_an_end_is_not_waited_for(behaviour: Behaviour) -> None:
    began = time.monotonic()
    with Server(behaviour) as server, pytest.raises(RewardError, match=r"no answer within 1 s"):
        ask(server.url, count=2, timeout_s=1.0)
    assert 3.0 <= time.monotonic() - began < 20.0  # three tries
    assert len(server.bodies) == 6


def test_a_slow_server_that_recovers_is_answered_for() -> None:
    with Server(hangs, says("x")) as server:
        assert ask(server.url, timeout_s=5.0)[0].text == "x"


def test_a_connection_that_is_refused_or_breaks_is_an_error_in_words() -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    with pytest.raises(RewardError, match=rf"model org/model at {url} gave no answer, must answer; ConnectError"):
        ask(url)
    with Server(hangs_up) as server, pytest.raises(RewardError, match="RemoteProtocolError"):
        ask(server.url)


def test_one_bad_answer_does_not_take_the_others_down(caplog: pytest.LogCaptureFixture) -> None:
    with Server(says("a"), status(400, "too long"), says("b")) as server:
        answers = ask(server.url, count=3, concurrency=1)
    assert [answer.text for answer in answers] == ["a", "", "b"]
    assert answers[1].problem == "it answered 400: too long"
    assert "left 1 of 3 questions open: it answered 400: too long" in caplog.text


# The breaker


def test_a_breaker_opens_after_failures_in_a_row_and_lets_one_probe_through() -> None:
    breaker = Breaker(failures=2, cool_down_s=10.0)
    breaker.failed(0.0)
    breaker.succeeded()
    breaker.failed(1.0)
    assert breaker.state(1.0) == "closed"
    breaker.failed(2.0)
    assert (breaker.state(2.0), breaker.state(11.9), breaker.seconds_left(4.0)) == ("open", "open", 8.0)
    assert breaker.state(12.0) == "half-open"
    breaker.failed(12.0)
    assert (breaker.state(21.9), breaker.state(22.0)) == ("open", "half-open")
    breaker.succeeded()
    assert breaker.state(22.0) == "closed"


def test_a_server_that_keeps_failing_is_left_alone_then_probed_once() -> None:
    clock = Clock()
    with Server(status(400)) as server:
        client = connect(server.url, clock=clock, concurrency=4)
        with pytest.raises(RewardError, match="it answered 400"):
            client.answer([ASK] * 30, max_tokens=4)
        asked = len(server.bodies)
        assert endpoint.FAILURES <= asked < endpoint.FAILURES + 4
        assert client.breaker == "open"
        with pytest.raises(RewardError, match=r"is left alone for 15 s more after 5 failures in a row"):
            client.answer([ASK], max_tokens=4)
        clock.now_s += endpoint.COOL_DOWN_S
        assert client.breaker == "half-open"
        with pytest.raises(RewardError, match="it answered 400"):
            client.answer([ASK] * 4, max_tokens=4)
        assert len(server.bodies) == asked + 1  # the probe, and no more
        clock.now_s += endpoint.COOL_DOWN_S
        server.follow(says("x"))
        assert [answer.text for answer in client.answer([ASK] * 4, max_tokens=4)] == ["x"] * 4
        assert client.breaker == "closed"


# Through a model


def test_scores_come_through_a_server(caplog: pytest.LogCaptureFixture) -> None:
    with Server(says("<score>+25%</score>"), says("It went well."), status(400)) as server:
        model = make_reward_model("grm", {"server": {"url": server.url, "model": "org/grm", "concurrency": 1}})
        task = instruction(goal=True)
        query = PairQuery(instruction=task, before=frame(0.2), after=frame(0.4), start=frame(0.0))
        scores = model.score_pairs([query] * 3)
        assert [score.valid for score in scores] == [True, False, False]
        assert scores[0].value == 0.25
        assert scores[1].raw == "It went well."
        assert scores[2].raw.startswith("it answered 400")
        with pytest.raises(RewardError, match="model org/grm at"):
            model.score_pairs([query])
    assert len(server.bodies[0]["messages"][-1]["content"]) == 8 + 9  # images and the text around them
    assert "licence unknown, read its card" in caplog.text


def test_yes_and_no_come_through_a_server_as_a_probability() -> None:
    with Server(says("Yes", logprobs=LOGPROBS)) as server:
        model = make_reward_model("yesno", {"server": {"url": server.url, "model": "org/any"}})
        (score,) = model.score_done([ClipQuery(instruction=instruction(), frames=(frame(1.0),))])
    assert score.value == pytest.approx(math.exp(-0.1) / (math.exp(-0.1) + math.exp(-2.0)))


def test_adapters_are_asked_by_the_name_they_are_served_under() -> None:
    with Server(says('{"task_completed": "yes"}')) as server:
        settings = {"server": {"url": server.url, "model": "base"}, "adapters": {"completion": "lrm-completion"}}
        model = make_reward_model("lrm", settings)
        (score,) = model.score_done([ClipQuery(instruction=instruction(), frames=(frame(1.0),))])
    assert score.value == 1.0
    assert server.bodies[0]["model"] == "lrm-completion"
