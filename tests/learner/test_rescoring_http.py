"""A server that hangs, talks garbage or half a JSON shapes nothing: no score is delivered, and a sentence says why."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from reward_models.service import ScoringService
from reward_models.vlm.registry import make_reward_model
from robot_stack.learner.reward.labelled import shown_task
from robot_stack.learner.reward.rescoring import Rescorer
from robot_stack.types.command import Source
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason
from tests.learner.bench import Bench
from tests.reward_models.bad_server import Behaviour, Handler, Server, hangs, hangs_up, raw, says, status
from tests.reward_models.spoken import frame

pytestmark = pytest.mark.long

NAME = "000010-online-a"


class Rig:
    """A bench with one finished episode, and GRM's real client of a real server behind it."""

    def __init__(self, folder: Path, server: Server, timeout_s: float) -> None:
        self.bench = Bench(folder)
        self.delivered: list[EpisodeScores] = []
        self.bench.send(NAME, [Source.POLICY] * 6, EndReason.TIMEOUT)
        self.bench.take()
        place = {"url": server.url, "model": "any", "timeout_s": timeout_s}
        model = make_reward_model("grm", {"server": place})
        self.service = ScoringService(model, cache_path=None, wait_ms=1.0)
        self.rescorer = Rescorer(
            self.service,
            version="grm-v1",
            can=model.capabilities,
            instruction=shown_task("insert the peg", [frame(0.0), frame(1.0)]),
            read=self.bench.store.read,
            deliver=self.delivered.append,
            every=2,
            first_retry_s=0.05,
        )
        self.rescorer.start()

    def close(self) -> None:
        self.rescorer.close()
        self.bench.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(says("<score>+10%</score>")) as server:
        yield server


@pytest.fixture
def rig(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Rig]:
    monkeypatch.setattr("reward_models.vlm.endpoint.BACKOFF_S", 0.01)
    monkeypatch.setattr("reward_models.vlm.endpoint.COOL_DOWN_S", 0.05)
    rig = Rig(tmp_path, server, getattr(request, "param", 10.0))
    yield rig
    rig.close()


def until(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        threading.Event().wait(0.01)
    pytest.fail("nothing came in 60 s")


def half_a_json(handler: Handler, body: dict[str, object]) -> None:
    handler.reply(200, json.dumps({"choices": [{"message": {"content": "<score>+10%</score>"}}]}).encode()[:30])


@pytest.mark.parametrize(
    ("rig", "behaviour", "words"),
    [
        (0.5, hangs, "no answer within 0.5 s"),
        (10.0, hangs_up, "RemoteProtocolError"),
        (10.0, half_a_json, "its reply is no chat completion"),
        (10.0, raw(b"\x00\xff garbage"), "its reply is no chat completion"),
        (10.0, status(500, "CUDA out of memory"), "it answered 500: CUDA out of memory"),
    ],
    indirect=["rig"],
    ids=["hangs", "hangs up", "half a JSON", "garbage", "500"],
)
def test_a_server_that_gives_no_answer_shapes_nothing_until_it_does(
    rig: Rig, server: Server, behaviour: Behaviour, words: str
) -> None:
    server.follow(behaviour)
    rig.rescorer.offer(NAME)
    until(lambda: rig.rescorer.away != "")
    assert rig.rescorer.failure.startswith("reward model grm-v1 does not answer, its episodes are asked about again: ")
    assert words in rig.rescorer.away or "left alone after" in rig.rescorer.away
    assert rig.delivered == []
    assert rig.service.stats().failed > 0
    server.follow(says("<score>+10%</score>"))
    until(lambda: rig.delivered != [])
    assert np.isfinite(rig.delivered[0].progress).all()
    until(lambda: rig.rescorer.failure == "")


@pytest.mark.parametrize("text", ["I cannot see that.", "<score>nan%</score>", "<score>+1", ""])
def test_a_server_whose_words_cannot_be_read_shapes_nothing_and_is_said(rig: Rig, server: Server, text: str) -> None:
    server.follow(says(text))
    rig.rescorer.offer(NAME)
    until(lambda: NAME in rig.rescorer.failed)
    assert rig.rescorer.failed[NAME].startswith("frames with answers that could be read are 0 of 4, must be 80%")
    until(lambda: rig.rescorer.failure != "")
    assert rig.rescorer.failure.startswith(f"reward model grm-v1 has no scores for {NAME}: frames with answers that ")
    assert rig.delivered == []
    assert not rig.rescorer.ready([NAME])
    assert rig.service.stats().unreadable > 0
