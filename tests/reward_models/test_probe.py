"""A probe tells a server that answers sensibly from one that does not, over real HTTP and by what is in the images."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from reward_models.interface import Capabilities, ClipQuery, PairQuery, Score, clip_score, pair_score
from reward_models.probe import SHOWN, known_clips, probe
from reward_models.vlm.registry import make_reward_model
from robot_stack.types.errors import RewardError
from robot_stack.types.finding import Level
from tests.reward_models import seeing_server
from tests.reward_models.bad_server import Behaviour, Server, hangs, hangs_up, raw, says, status
from tests.reward_models.seeing_server import Answer, sees
from tests.reward_models.spoken import frame, instruction
from tests.reward_models.watermarked import Pairs, Watermark, episode, read

DEMO = tuple(frame(p) for p in np.linspace(0, 1, 25))
TASK = instruction(goal=True, reference=11)
MORE: dict[str, dict[str, Any]] = {
    "vlac": {"accept_license": "cc-by-nc-sa-4.0"},
    "lrm": {"adapters": {"progress": "p"}},
}


def probed(server: Server, family: str = "grm", timeout_s: float = 5.0) -> Any:
    place = {"url": server.url, "model": "any", "timeout_s": timeout_s}
    return probe(make_reward_model(family, {"server": place, **MORE.get(family, {})}), TASK, DEMO)


@pytest.mark.parametrize(
    ("family", "answer"),
    [("grm", seeing_server.grm), ("vlac", seeing_server.vlac), ("roboreward", seeing_server.roboreward),
     ("lrm", seeing_server.lrm), ("yesno", seeing_server.yesno)],
)  # fmt: skip
def test_a_server_that_sees_what_it_is_shown_answers_sensibly(family: str, answer: Answer) -> None:
    with Server(sees(answer)) as server:
        found = probed(server, family)
    assert found.sensible, found.sentence
    assert found.sentence.startswith(f"{family} answers sensibly: its answers can be read; the finished clip ")
    assert found.unreadable == 0.0
    assert found.questions == len(server.bodies)
    assert min(found.alone_s, found.each_s) > 0
    json.dumps(found.document(), allow_nan=False)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (says("<score>+0%</score>"), "the finished clip goes from"),
        (says("<score>+40%</score>"), "the reversed one goes from"),
        (sees(seeing_server.grm_inverted), "the finished clip goes from"),
        (sees(seeing_server.grm_swapped), "the finished clip goes from"),
        (says("I cannot help with that."), "100 % of its answers cannot be read, at most 20 % may be so"),
        (says(""), "100 % of its answers cannot be read"),
    ],
    ids=["constant 0", "constant +40", "inverted", "images swapped", "garbage", "nothing"],
)
def test_a_server_that_does_not_is_told_by_what_it_said(behaviour: Behaviour, words: str) -> None:
    with Server(behaviour) as server:
        found = probed(server)
    assert not found.sensible
    assert found.sentence.startswith("grm does not answer sensibly: ")
    assert words in found.sentence
    json.dumps(found.document(), allow_nan=False)


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (hangs, r"gave no answer, must answer; no answer within 0\.3 s"),
        (hangs_up, "gave no answer, must answer; RemoteProtocolError"),
        (raw(b'{"choices": [{"message"'), "its reply is no chat completion"),
        (raw(b"<html>it works</html>"), "its reply is no chat completion"),
        (status(500, "CUDA out of memory"), "it answered 500: CUDA out of memory"),
    ],
    ids=["hangs", "hangs up", "half a JSON", "a page", "500"],
)
def test_a_server_that_gives_no_answer_ends_the_probe_with_why(
    behaviour: Behaviour, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reward_models.vlm.endpoint.BACKOFF_S", 0.01)
    with Server(behaviour) as server, pytest.raises(RewardError, match=words):
        probed(server, timeout_s=0.3 if behaviour is hangs else 20.0)


def test_a_model_that_always_says_done_or_never_is_not_sensible() -> None:
    eager = [{"token": "yes", "logprob": -0.01}, {"token": "no", "logprob": -5.0}]
    choice = {"logprobs": {"content": [{**eager[0], "top_logprobs": eager}]}}
    with Server(says("yes", **choice)) as server:
        found = probed(server, "yesno")
    failed = {finding.check for finding in found.findings if finding.level is Level.FAIL}
    assert failed == {"finished", "stalled", "reversed"}


class Signs(Pairs):
    capabilities = Capabilities(pair="sign")

    def __init__(self, turn: float) -> None:
        super().__init__("hop")
        self._turn = turn
        self.capabilities = Capabilities(pair="sign", max_batch=7)

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        return [Score(value=self._turn * float(np.sign(score.value) or 1)) for score in super().score_pairs(queries)]


@pytest.mark.parametrize(("turn", "sensible"), [(1.0, True), (-1.0, False)])
def test_a_model_that_only_says_which_is_further_is_probed_by_pairs(turn: float, sensible: bool) -> None:
    shown = episode("success", 0)
    assert probe(Signs(turn), shown.instruction, shown.frames).sensible is sensible


def test_a_model_in_this_process_is_probed_as_well() -> None:
    shown = episode("success", 0)
    assert probe(Watermark(read), shown.instruction, shown.frames).sensible
    assert not probe(Watermark(lambda query: min(1.0, len(query.frames) / 7)), shown.instruction, shown.frames).sensible
    assert not probe(Watermark(lambda query: 1 - read(query)), shown.instruction, shown.frames).sensible


class Slow(Watermark):
    """Answers each call after 0.2 s, however many questions are in it."""

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        time.sleep(0.2)
        return [pair_score(0.1) for _ in queries]

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        time.sleep(0.2)
        return [clip_score(0.1) for _ in queries]

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        return self.score_progress(queries)


@pytest.mark.parametrize(
    "can",
    [Capabilities(pair="hop", needs_goal=True), Capabilities(pair="remaining"), Capabilities(pair="sign"),
     Capabilities(progress=True, done=True), Capabilities(done=True)],
    ids=["hops", "steps", "signs", "progress", "done"],
)  # fmt: skip
def test_the_time_of_a_question_alone_is_that_of_one(can: Capabilities) -> None:
    model = Slow(read)
    model.capabilities = can
    found = probe(model, TASK, DEMO)
    assert 0.2 <= found.alone_s < 0.3
    assert found.each_s < 0.1


def test_clips_are_finished_stalled_and_turned_back() -> None:
    clips = known_clips(DEMO)
    assert clips["finished"][0] is DEMO[0]
    assert clips["finished"][-1] is DEMO[-1]
    half = clips["stalled"][SHOWN // 2]
    assert all(shown is half for shown in clips["stalled"][SHOWN // 2 :])
    assert clips["reversed"][-1] is DEMO[0]
    assert any(shown is DEMO[-1] for shown in clips["reversed"])
    with pytest.raises(RewardError, match="demonstration has 1 frames, must have at least 2"):
        known_clips(DEMO[:1])
