"""A large reward model behind the live one: what asking costs, in this process and served, and whether ticks notice.

Run: python -m benchmarks.vlm [--quick]

The weights are tiny and random, of the real architectures and through the real processors; so the figures are those
of everything around the network. Questions are pairs of 128x128 frames for GRM, eight images each, in the order in
which an episode brings them; every fourth question was asked before. The served model is a real `transformers serve`
process on loopback. Ticks are those of a 100 Hz loop in a process of its own, as the control loop is.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch

from reward_models.interface import Frame, Instruction, PairQuery, RewardModel
from reward_models.service import ScoringService
from reward_models.vlm.registry import make_reward_model
from tests.reward_models import tiny_vlms

HOP = ("<score>+45%", "</score>")
QUESTIONS, QUICK_QUESTIONS = 200, 16
AGAIN = 4
STARTS_S, ANSWERS_S = 120.0, 600.0
TICKS = """
import sys, time
late, due = [], time.monotonic() + 0.01
until = due + float(sys.argv[1])
while due < until:
    time.sleep(max(0.0, due - time.monotonic()))
    late.append(time.monotonic() - due)
    due += 0.01
print(1e3 * sorted(late)[int(0.99 * len(late))])
"""


def measure(quick: bool) -> dict[str, float]:
    """Answers a second, p99 of an answer, share answered from the cache; p99 of late ticks alone and meanwhile."""
    torch.set_num_threads(1)
    count = QUICK_QUESTIONS if quick else QUESTIONS
    found = {"vlm_tick_alone_p99_ms": late_ticks(5.0)}
    with tempfile.TemporaryDirectory() as work:
        folder = tiny_vlms.write(Path(work) / "qwen", "qwen2_5_vl", words=HOP)
        weights = {"weights": {"model": str(folder), "device": "cpu"}}
        found |= asked("in_process", make_reward_model("grm", weights), count, Path(work))
        with served(tiny_vlms.write(Path(work) / "llava", "llava", words=HOP)) as (url, name):
            server = {"server": {"url": url, "model": name, "concurrency": 2}}
            found |= asked("served", make_reward_model("grm", server), count, Path(work))
    return found


def asked(how: str, model: RewardModel, count: int, work: Path) -> dict[str, float]:
    """Through the service, as in a run; a loop ticks beside it."""
    service = ScoringService(model, cache_path=work / f"{how}.scores", max_batch=8)
    service.start()
    model.score_pairs(questions(1, seed=1))
    ticking = subprocess.Popen([sys.executable, "-c", TICKS, "5.0"], stdout=subprocess.PIPE, text=True)
    began_s = time.monotonic()
    tickets = []
    for query in questions(count, seed=0):
        tickets.append(service.submit([query], "pair"))
        while service.stats().queued > 64:
            time.sleep(0.005)
    for ticket in tickets:
        ticket.wait(ANSWERS_S)
    seconds = time.monotonic() - began_s
    late = float(ticking.communicate()[0])
    stats = service.stats()
    service.close()
    valid = sum(ticket.scores is not None and ticket.scores[0].valid for ticket in tickets)
    if valid < count:
        raise SystemExit(f"{how}: {count - valid} of {count} answers are missing or not valid, must be none")
    return {
        f"vlm_{how}_per_s": count / seconds,
        f"vlm_{how}_p99_ms": 1e3 * stats.latency_p99_s,
        f"vlm_{how}_hits": (stats.hits + stats.shared) / count,
        f"vlm_{how}_tick_p99_ms": late,
    }


def questions(count: int, *, seed: int) -> list[PairQuery]:
    """Pairs of neighbouring frames of synthetic episodes; every `AGAIN`th is one that came before."""
    rng = np.random.default_rng(seed)
    shown = [Frame(images={"front": rng.integers(0, 256, (128, 128, 3), dtype=np.uint8)}) for _ in range(count + 2)]
    task = Instruction(text="insert the orange peg into the blue socket", goal=shown[-1])
    pairs = [PairQuery(instruction=task, before=a, after=b, start=shown[0]) for a, b in pairwise(shown[:-1])]
    return [pairs[i // 2] if i % AGAIN == AGAIN - 1 else pairs[i] for i in range(count)]


def late_ticks(seconds: float) -> float:
    """p99 of how late a 100 Hz loop of another process wakes, ms."""
    done = subprocess.run([sys.executable, "-c", TICKS, str(seconds)], capture_output=True, text=True, check=True)
    return float(done.stdout)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """Address and model name of a `transformers serve` process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder), "--host", "127.0.0.1"]
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--device", "cpu"],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        )
    try:
        until_s = time.monotonic() + STARTS_S
        while not listens(port):
            if process.poll() is not None or time.monotonic() > until_s:
                raise SystemExit((folder / "serve.log").read_text())
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1", str(folder)
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    """Whether something answers on the port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    for name, value in measure(parser.parse_args().quick).items():
        print(f"{name} {value:.3f}")


if __name__ == "__main__":
    main()
