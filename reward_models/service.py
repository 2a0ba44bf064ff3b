"""A scoring service that does not block: questions go in, answers come later, a question is paid for once.

One thread asks the model. Questions are collected for a moment, the same question is asked once however many wait for
it, and valid scores are kept in memory and on disk under model version, kind and content. What cannot be answered is a
score that is not valid. No torch, no ROS.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reward_models.interface import PairQuery, RewardModel, Score, Unsupported
from reward_models.potential import Kind
from reward_models.score_cache import ScoreCache
from reward_models.tickets import OpenQuestion, Query, Ticket, resolve
from robot_stack.types.errors import RewardError, error_text

IN_MEMORY = 100_000
LATENCIES = 1000
POLL_S = 1.0
"""After which a thread that waits for work looks whether it shall still wait."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStats:
    """The counters of a scoring service since its start; the first two and the breaker say how it is now.

    Attributes:
        queued: Questions that wait to be asked.
        asked: Questions that the model has before it.
        hits: Answered from the cache.
        misses: Asked of the model.
        shared: Joined to the same question, waiting or asked.
        refused: Given up because the queue was full.
        failed: Left without an answer by the model or its server.
        unreadable: Answered, but not so that it could be read.
        damaged: Entries of the cache file that were skipped.
        latency_p50_s: From question to answer of the newest answers by the model; NaN without any.
        latency_p99_s: Same.
        breaker: Of the model's server, "closed" in normal work.
        running: False if it was closed or has ended on an error of its own.
    """

    queued: int
    asked: int
    hits: int
    misses: int
    shared: int
    refused: int
    failed: int
    unreadable: int
    damaged: int
    latency_p50_s: float
    latency_p99_s: float
    breaker: str
    running: bool


class ScoringService:
    """A service that asks a model in a thread of its own, from `start` to `close`.

    Args:
        cache_path: File of kept scores; None keeps them in memory only. One file may serve all models.
        max_batch: Questions asked at once, at most what the model takes.
        wait_ms: For which a question waits for others to be asked with.
        queue_limit: Questions that may wait; beyond it the oldest are given up.
    """

    def __init__(
        self,
        model: RewardModel,
        *,
        cache_path: Path | None,
        max_batch: int = 64,
        wait_ms: float = 10.0,
        queue_limit: int = 4096,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        for name, value in (("max_batch", max_batch), ("queue_limit", queue_limit)):
            if value < 1:
                raise RewardError(f"{name} is {value}, must be at least 1")
        self._model = model
        self._cache = ScoreCache(cache_path, memory=IN_MEMORY)
        self._max_batch = min(max_batch, model.capabilities.max_batch)
        self._wait_s = wait_ms / 1000
        self._queue_limit = queue_limit
        self._clock = clock
        self._changed = threading.Condition()
        self._queues: dict[Kind, OrderedDict[str, OpenQuestion]] = {
            kind: OrderedDict() for kind in ("pair", "progress", "done")
        }
        self._asked: dict[str, OpenQuestion] = {}
        self._numbers = itertools.count()
        self._counts = dict.fromkeys(("hits", "misses", "shared", "refused", "failed", "unreadable"), 0)
        self._latencies: deque[float] = deque(maxlen=LATENCIES)
        self._thread: threading.Thread | None = None
        self._ended = "it was not started"
        self._failing = False

    def start(self) -> None:
        """Open the cache and start the scoring thread.

        Raises:
            RewardError: If the cache file cannot be used, or it was started before.
        """
        if self._thread is not None:
            raise RewardError("scoring service was started before, must be started once; make another one")
        try:
            self._cache.open()
        except OSError as error:
            raise RewardError(f"score cache cannot be used, must be a file that can be written: {error}") from error
        self._ended = ""
        self._thread = threading.Thread(target=self._run, name="scoring", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float = 5.0) -> None:
        """End the service; questions that are still open get scores that are not valid.

        A model at work is not waited for longer than the timeout.
        """
        self._end("it was closed")
        if self._thread is not None:
            self._thread.join(timeout_s)
            if not self._thread.is_alive():
                self._cache.close()

    def submit(self, queries: Sequence[Query], kind: Kind) -> Ticket:
        """Submit questions to the model; this never waits for an answer.

        Args:
            queries: `PairQuery`s for "pair", else `ClipQuery`s.

        Raises:
            Unsupported: If the model has no answer to this kind.
            RewardError: If a question lacks what the model needs, or the service does not run.
        """
        self._check(queries, kind)
        keys = [self._key(query, kind) for query in queries]
        ticket = Ticket(len(queries))
        finished: list[Ticket] = [] if queries else [ticket]
        with self._changed:
            if self._ended:
                raise RewardError(f"scoring service does not run, must: {self._ended}")
            for index, (key, query) in enumerate(zip(keys, queries, strict=True)):
                score = self._cache.recall(key)
                if score is not None:
                    self._counts["hits"] += 1
                    if ticket.fill(index, score):
                        finished.append(ticket)
                    continue
                one = self._asked.get(key) or self._queues[kind].get(key)
                if one is None:
                    one = OpenQuestion(number=next(self._numbers), key=key, query=query, since_s=self._clock())
                    self._queues[kind][key] = one
                else:
                    self._counts["shared"] += 1
                one.waiting.append((ticket, index))
            finished += self._shed()
            self._changed.notify_all()
        for done in finished:
            done.finish()
        return ticket

    def stats(self) -> ServiceStats:
        """Return the counters of the service as they are now."""
        with self._changed:
            p50, p99 = np.quantile(self._latencies, (0.5, 0.99)) if self._latencies else (math.nan, math.nan)
            return ServiceStats(
                queued=sum(len(queue) for queue in self._queues.values()),
                asked=len(self._asked),
                damaged=self._cache.damaged,
                latency_p50_s=float(p50),
                latency_p99_s=float(p99),
                breaker=getattr(self._model, "breaker", "closed"),
                running=not self._ended,
                **self._counts,
            )

    def _check(self, queries: Sequence[Query], kind: Kind) -> None:
        """Refuse questions that the model cannot answer: one would take those beside it down."""
        can = self._model.capabilities
        if not {"pair": can.pair is not None, "progress": can.progress, "done": can.done}[kind]:
            raise Unsupported(f"{kind} question to {self._model.name} has no answer; choose another reward model")
        for query in queries:
            if isinstance(query, PairQuery) != (kind == "pair"):
                raise RewardError(f"query is a {type(query).__name__}, must be of kind {kind}")
            frames = (query.start, query.before, query.after) if isinstance(query, PairQuery) else query.frames
            can.check(query.instruction, frames)

    def _key(self, query: Query, kind: Kind) -> str:
        return hashlib.sha256(f"{self._model.version} {kind} {query.key}".encode()).hexdigest()[:32]

    def _shed(self) -> list[Ticket]:
        """Give up the oldest questions beyond the limit; return the tickets that are finished by it.

        To be called under the lock.
        """
        finished = []
        while sum(len(queue) for queue in self._queues.values()) > self._queue_limit:
            _, one = self._queues[self._oldest()].popitem(last=False)
            self._counts["refused"] += 1
            finished += resolve(one, Score(value=math.nan, raw="given up: the queue was full", lost=True))
        return finished

    def _oldest(self) -> Kind:
        """Return the kind of the question that has waited longest; there must be one."""
        heads = {kind: next(iter(queue.values())).number for kind, queue in self._queues.items() if queue}
        return min(heads, key=lambda kind: heads[kind])

    def _run(self) -> None:
        try:
            while (work := self._collect()) is not None:
                self._answer(*work)
        except Exception as error:
            _log.exception("scoring has ended")
            self._end(f"{type(error).__name__}: {error}")

    def _collect(self) -> tuple[Kind, list[OpenQuestion]] | None:
        """Wait for questions of one kind to ask together, and take them; None at the end."""
        with self._changed:
            while not any(self._queues.values()) and not self._ended:
                self._changed.wait(POLL_S)
            until = self._clock() + self._wait_s
            while not self._ended and any(self._queues.values()):
                kind = self._oldest()
                queue = self._queues[kind]
                left = until - self._clock()
                if len(queue) >= self._max_batch or left <= 0:
                    taken = [queue.popitem(last=False)[1] for _ in range(min(self._max_batch, len(queue)))]
                    self._asked |= {one.key: one for one in taken}
                    return kind, taken
                self._changed.wait(left)
            return None if self._ended else ("pair", [])

    def _answer(self, kind: Kind, taken: Sequence[OpenQuestion]) -> None:
        kept = {one.key: self._cache.load(one.key) for one in taken}
        self._settle([(one, score) for one in taken if (score := kept[one.key]) is not None], "hits")
        rest = [one for one in taken if kept[one.key] is None]
        if not rest:
            return
        try:
            scores = self._score(kind, [one.query for one in rest])
        except Exception as error:  # a model may be anybody's, and one bad answer must not end the service
            if not self._failing:
                _log.warning("%s does not answer: %s", self._model.name, error_text(error))
            self._failing = True
            lost = Score(value=math.nan, raw=error_text(error)[:200], lost=True)
            self._settle([(one, lost) for one in rest], "failed")
            return
        if self._failing:
            _log.info("%s answers again", self._model.name)
        self._failing = False
        self._cache.store([(one.key, score) for one, score in zip(rest, scores, strict=True)])
        with self._changed:
            now = self._clock()
            self._latencies.extend(now - one.since_s for one in rest)
            self._counts["unreadable"] += sum(not score.valid for score in scores)
        self._settle(list(zip(rest, scores, strict=True)), "misses")

    def _score(self, kind: Kind, queries: list[Any]) -> list[Score]:
        model = self._model
        asks: dict[Kind, Callable[[list[Any]], list[Score]]] = {
            "pair": model.score_pairs,
            "progress": model.score_progress,
            "done": model.score_done,
        }
        scores = asks[kind](queries)
        if len(scores) != len(queries):
            raise RewardError(f"scores of {model.name} are {len(scores)}, must be {len(queries)}, one a question")
        low = -1.0 if kind == "pair" else 0.0
        for score in scores:
            if score.valid and not low <= score.value <= 1.0:
                raise RewardError(f"{kind} score of {model.name} is {score.value}, must be in [{low:g}, 1] or NaN")
        return scores

    def _settle(self, answered: Sequence[tuple[OpenQuestion, Score]], count: str) -> None:
        with self._changed:
            self._counts[count] += len(answered)
            finished = []
            for one, score in answered:
                self._asked.pop(one.key, None)
                finished += resolve(one, score)
        for ticket in finished:
            ticket.finish()

    def _end(self, reason: str) -> None:
        with self._changed:
            if self._ended:
                return
            self._ended = reason
            left = [*self._asked.values(), *(one for queue in self._queues.values() for one in queue.values())]
            self._asked.clear()
            for queue in self._queues.values():
                queue.clear()
            score = Score(value=math.nan, raw=f"given up: {reason}"[:200], lost=True)
            finished = [ticket for one in left for ticket in resolve(one, score)]
            self._changed.notify_all()
        for ticket in finished:
            ticket.finish()
