"""The remote path against a real `transformers serve` process on loopback."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from reward_models.interface import ClipQuery, PairQuery
from reward_models.vlm.registry import make_reward_model
from robot_stack.types.errors import RewardError
from tests.reward_models import tiny_vlms
from tests.reward_models.spoken import frame, instruction

NEEDED = ("httpx", "fastapi", "uvicorn", "openai", "accelerate")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"transformers serve needs {MISSING}: install the extra dev")
STARTS_S = 240.0
HOP = ("<score>-12.5%", "</score>")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address and model name of a server with a checkpoint that says a hop."""
    folder = tiny_vlms.write(tmp_path_factory.mktemp("served"), "llava", words=HOP)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder)]
    log = folder / "serve.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        )
        try:
            until = time.monotonic() + STARTS_S
            while not _listens(port):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < until, log.read_text()
                time.sleep(0.1)  # between two looks, not in place of them
            yield f"http://127.0.0.1:{port}/v1", str(folder)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_hop_comes_from_a_real_server(served: tuple[str, str]) -> None:
    url, name = served
    model = make_reward_model("grm", {"server": {"url": url, "model": name, "concurrency": 2}})
    task = instruction(goal=True)
    queries = [PairQuery(instruction=task, before=frame(p), after=frame(1 - p), start=frame(0.0)) for p in (0.1, 0.4)]
    scores = model.score_pairs(queries)
    assert [score.value for score in scores] == [-0.125, -0.125]
    assert scores[0].raw == "".join(HOP)


def test_a_real_server_without_log_probabilities_is_found_out(served: tuple[str, str]) -> None:
    url, name = served
    model = make_reward_model("yesno", {"server": {"url": url, "model": name}})
    with pytest.raises(RewardError, match="gives no log-probabilities"):
        model.score_done([ClipQuery(instruction=instruction(), frames=(frame(1.0),))])


def test_a_real_server_says_which_model_it_does_not_have(served: tuple[str, str]) -> None:
    url, _ = served
    model = make_reward_model("grm", {"server": {"url": url, "model": "org/other"}})
    query = PairQuery(instruction=instruction(goal=True), before=frame(0.1), after=frame(0.9), start=frame(0.0))
    with pytest.raises(RewardError, match=r"it answered 400: .*pinned to"):
        model.score_pairs([query])
