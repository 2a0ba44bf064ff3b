"""A server of a base may answer well, badly, late or never: every answer is a chunk, or an error that says what."""

from __future__ import annotations

import base64
import gzip
import json
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from robot_stack.rollout.base.http import MOST_BYTES, HttpConnection
from robot_stack.types.errors import ConfigError, RobotError, SpecError
from tests.base.small_base import CHUNK, INFO, actions, base_that, mapping, seen
from tests.reward_models.bad_server import Behaviour, Server, compressed, drips, hangs, hangs_up, raw, status
from tests.transport.fake_learner import wait_until

PATIENT_S, QUICK_S = 20.0, 1.0
"""For what answers at once on a machine that is not busy, and for what never does."""


def connection(server: Server, timeout_s: float = PATIENT_S) -> HttpConnection:
    return HttpConnection(server.url + "/", timeout_s=timeout_s)


def test_a_question_goes_out_whole_and_the_answer_comes_back() -> None:
    asked = mapping().question(seen(2))
    with Server(base_that(actions(CHUNK))) as server:
        talk = connection(server)
        told = talk.open()
        mapping().check(told)
        np.testing.assert_array_equal(talk.ask(asked), CHUNK)
        talk.close()
    body = server.bodies[-1]
    image = body["images"]["observation.images.top"]
    pixels = np.frombuffer(base64.b64decode(image["rgb"]), np.uint8).reshape(image["shape"])
    np.testing.assert_array_equal(pixels, seen(2).images["front"])
    np.testing.assert_allclose(body["state"], asked.state)
    assert body["text"] == asked.text
    assert server.paths == ["/v1/info", "/v1/chunk"]


def test_a_server_that_says_nothing_of_itself_is_taken_as_it_is() -> None:
    with Server(base_that(actions(CHUNK), info={})) as server:
        told = connection(server).open()
    assert (told.name, told.cameras, told.state, told.actions, told.rate_hz) == (server.url, None, None, None, None)


@pytest.mark.parametrize(
    ("chunk", "error", "said"),
    [
        (status(500, "out of memory"), SpecError, "status 500, must be 200: out of memory"),
        (status(503, "loading"), RobotError, r"is not ready \(loading\), must be"),
        (raw(b"\xff\x00"), SpecError, "must be JSON"),
        (raw(b"[1, 2]"), SpecError, "must be a JSON object"),
        (raw(b"{}"), SpecError, "no table of numbers under 'actions'"),
        (actions([[1.0], [1.0, 2.0]]), SpecError, "no table of numbers"),
        (actions("all of them"), SpecError, "no table of numbers"),
        (actions({"0": [1.0]}), SpecError, "no table of numbers"),
        (raw(b'{"actions": [[1' + b"0" * 400 + b", 0, 0, 0]]}"), SpecError, "no table of numbers|no finite numbers"),
        (raw(b"[" * 100_000 + b"]" * 100_000), SpecError, "must be JSON"),
        (actions(None), SpecError, "shape|no table of numbers"),
        (actions([[float("nan")] * 4]), SpecError, "no finite numbers"),
        (actions([[1.0] * 5]), SpecError, r"shape \(1, 5\)"),
        (raw(b'{"actions": "' + b"0" * MOST_BYTES + b'"}'), SpecError, f"longer than {MOST_BYTES} bytes"),
        (compressed("gzip", gzip.compress(b"{}")), SpecError, "is compressed by 'gzip', must not be"),
        (hangs_up, RobotError, "does not answer"),
    ],
)
def test_an_answer_that_is_none_is_an_error_in_words(chunk: Behaviour, error: type[Exception], said: str) -> None:
    with Server(base_that(chunk)) as server:
        talk = connection(server)
        talk.open()
        with pytest.raises(error, match=said):
            mapping().chunk(talk.ask(mapping().question(seen())))
        server.follow(base_that(actions(CHUNK)))
        assert len(talk.ask(mapping().question(seen()))) == len(CHUNK)  # one bad answer is no end


@pytest.mark.parametrize(("chunk", "said"), [(hangs, "does not answer"), (drips, f"not whole after {QUICK_S:g} s")])
def test_an_answer_that_does_not_come_is_waited_for_as_long_as_was_said(chunk: Behaviour, said: str) -> None:
    def answered() -> bool:
        with suppress(RobotError):  # late on a busy machine
            return len(talk.ask(mapping().question(seen()))) == len(CHUNK)
        return False

    with Server(chunk) as server:
        talk = connection(server, QUICK_S)
        with pytest.raises(RobotError, match=said):
            talk.ask(mapping().question(seen()))
        server.follow(actions(CHUNK))
        assert wait_until(answered, PATIENT_S)


@pytest.mark.parametrize(
    ("info", "said"),
    [
        ({"cameras": "front"}, "cameras that .*/info says is 'front'"),
        ({"state": "seven"}, "state that .* says is 'seven'"),
        ({"actions": True}, "actions that .* says is 'True'"),
        ({"rate_hz": [10]}, "rate_hz"),
        ({"noise": 2.5}, "noise that .* says is '2.5'"),
        ([], "must be a JSON object"),
    ],
)
def test_what_a_server_says_of_itself_must_be_of_its_type(info: Any, said: str) -> None:
    with Server(raw(json.dumps(info).encode())) as server, pytest.raises(SpecError, match=said):
        connection(server).open()


def test_where_nobody_listens_is_said_with_what_to_do() -> None:
    with pytest.raises(RobotError, match=r"base at http://127\.0\.0\.1:1/info does not answer .* server running"):
        HttpConnection("http://127.0.0.1:1", timeout_s=PATIENT_S).open()


def test_no_proxy_of_the_environment_stands_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with Server(base_that(actions(CHUNK))) as server:
        connection(server).open()


def test_noise_goes_with_the_question_where_it_is_chosen() -> None:
    with Server(base_that(actions(CHUNK), info=INFO | {"noise": 2})) as server:
        talk = connection(server)
        told = talk.open()
        mapping(noise=2).check(told)
        talk.ask(mapping().question(seen()))
        talk.ask(mapping().question(seen(), np.array([0.5, -1.25], np.float32)))
        plain, steered = server.bodies[-2:]
    assert "noise" not in plain
    assert steered["noise"] == [0.5, -1.25]
    with pytest.raises(ConfigError, match=r"base.noise is 3, must be 2; correct it"):
        mapping(noise=3).check(told)


def test_a_server_that_does_not_say_that_it_takes_noise_is_not_steered() -> None:
    with Server(base_that(actions(CHUNK))) as server:
        told = connection(server).open()
    with pytest.raises(ConfigError, match=r"base.noise is 2, must be left out, as it takes none"):
        mapping(noise=2).check(told)
