"""The scoring service: never waits, asks once, keeps what is valid, and outlives a model that fails."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from reward_models.interface import Capabilities, ClipQuery, Frame, PairQuery, Score, Unsupported
from reward_models.service import ScoringService
from reward_models.tickets import Ticket
from robot_stack.types.errors import RewardError
from tests.disk.full import full_after
from tests.reward_models.spoken import frame, instruction

SOON_S = 10.0
TASK = instruction()


def clip(progress: float) -> ClipQuery:
    return ClipQuery(instruction=TASK, frames=(frame(progress),))


def pair(progress: float) -> PairQuery:
    return PairQuery(instruction=TASK, before=frame(0.0), after=frame(progress), start=frame(0.0))


def brightness(shown: Frame) -> float:
    return round((float(shown.images["front"].mean()) - 20) / 200, 3)


class Model:
    """Answers with the brightness of the last frame; holds its answer back, fails or breaks as told."""

    name = "model"

    def __init__(self, *, max_batch: int = 64, version: str = "1", done: bool = False) -> None:
        self.version = version
        self.capabilities = Capabilities(pair="hop", progress=True, done=done, views=("front",), max_batch=max_batch)
        self.breaker = "closed"
        self.batches: list[list[float]] = []
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()
        self.gate.set()
        self.error: Exception | None = None
        self.unreadable = False
        self.missing = 0

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        return self._scores([query.frames[-1] for query in queries])

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        return self._scores([query.after for query in queries])

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        return [Score(value=1 - score.value) for score in self._scores([query.frames[-1] for query in queries])]

    def _scores(self, frames: list[Frame]) -> list[Score]:
        values = [brightness(shown) for shown in frames]
        self.batches.append(values)
        self.entered.release()
        assert self.gate.wait(SOON_S)
        if self.error is not None:
            raise self.error
        return [Score(value=math.nan if self.unreadable else v, raw=f"{v}") for v in values[self.missing :]]

    def asked(self) -> list[float]:
        return [value for batch in self.batches for value in batch]


class Services:
    """Starts services and closes them at the end."""

    def __init__(self) -> None:
        self.all: list[tuple[ScoringService, Model]] = []

    def __call__(self, model: Model, **settings: object) -> ScoringService:
        service = ScoringService(model, **{"cache_path": None, "wait_ms": 0.0, **settings})  # type: ignore[arg-type]
        service.start()
        self.all.append((service, model))
        return service


@pytest.fixture
def start() -> Iterator[Services]:
    services = Services()
    yield services
    for service, model in services.all:
        model.gate.set()
        service.close()


def values(ticket: Ticket) -> list[float]:
    assert ticket.wait(SOON_S)
    assert ticket.scores is not None
    return [score.value for score in ticket.scores]


def held(model: Model, service: ScoringService) -> Ticket:
    """A question that the model has before it and does not answer yet."""
    model.gate.clear()
    ticket = service.submit([clip(0.99)], "progress")
    assert model.entered.acquire(timeout=SOON_S)
    return ticket


def test_answers_come_in_the_order_of_the_questions(start: Services) -> None:
    service = start(Model())
    assert values(service.submit([clip(p) for p in (0.3, 0.1, 0.2)], "progress")) == [0.3, 0.1, 0.2]
    assert values(service.submit([pair(0.4)], "pair")) == [0.4]
    stats = service.stats()
    assert (stats.misses, stats.hits, stats.failed, stats.queued, stats.asked) == (4, 0, 0, 0, 0)
    assert 0 <= stats.latency_p50_s <= stats.latency_p99_s
    assert stats.running


def test_a_question_without_questions_is_answered(start: Services) -> None:
    assert values(start(Model()).submit([], "progress")) == []


def test_submitting_does_not_wait_for_the_model(start: Services) -> None:
    model = Model()
    service = start(model)
    first = held(model, service)
    second = service.submit([clip(0.1)], "progress")
    assert first.scores is None
    assert second.scores is None
    assert (service.stats().asked, service.stats().queued) == (1, 1)
    model.gate.set()
    assert values(second) == [0.1]
    assert values(first) == [0.99]


def test_what_was_answered_is_not_asked_again(start: Services) -> None:
    model = Model()
    service = start(model)
    values(service.submit([clip(0.1)], "progress"))
    ticket = service.submit([clip(0.1)], "progress")
    assert ticket.scores is not None  # at once
    assert ticket.scores[0].value == 0.1
    assert model.asked() == [0.1]
    assert service.stats().hits == 1


def test_the_same_question_is_asked_once_while_it_waits_or_is_asked(start: Services) -> None:
    model = Model()
    service = start(model)
    first = held(model, service)
    again = service.submit([clip(0.99), clip(0.2), clip(0.2)], "progress")
    third = service.submit([clip(0.2)], "progress")
    model.gate.set()
    assert values(again) == [0.99, 0.2, 0.2]
    assert values(third) == [0.2]
    assert values(first) == [0.99]
    assert model.asked() == [0.99, 0.2]
    assert service.stats().shared == 3


def test_the_same_frame_in_another_kind_of_question_is_another_question(start: Services) -> None:
    service = start(Model(done=True))
    assert values(service.submit([clip(0.2)], "progress")) == [0.2]
    assert values(service.submit([pair(0.2)], "pair")) == [0.2]
    assert values(service.submit([clip(0.2)], "done")) == [0.8]
    assert service.stats().misses == 3


def test_questions_are_collected_up_to_a_batch_and_by_kind(start: Services) -> None:
    model = Model(max_batch=3)
    service = start(model, max_batch=100)
    held(model, service)
    tickets = [service.submit([clip(p)], "progress") for p in (0.1, 0.2, 0.3, 0.4)]
    tickets.insert(1, service.submit([pair(0.5)], "pair"))
    model.gate.set()
    for ticket in tickets:
        values(ticket)
    assert model.batches == [[0.99], [0.1, 0.2, 0.3], [0.5], [0.4]] or model.batches == [
        [0.99], [0.1, 0.2, 0.3], [0.4], [0.5],
    ]  # fmt: skip


def test_a_full_batch_does_not_wait_for_more(start: Services) -> None:
    model = Model()
    service = start(model, max_batch=2, wait_ms=60_000.0)
    assert values(service.submit([clip(0.1), clip(0.2)], "progress")) == [0.1, 0.2]
    assert model.batches == [[0.1, 0.2]]


def test_questions_that_come_within_the_moment_are_asked_together(start: Services) -> None:
    model = Model()
    service = start(model, max_batch=3, wait_ms=60_000.0)
    tickets = [service.submit([clip(p)], "progress") for p in (0.1, 0.2, 0.3)]
    assert [values(ticket) for ticket in tickets] == [[0.1], [0.2], [0.3]]
    assert model.batches == [[0.1, 0.2, 0.3]]


def test_a_full_queue_gives_up_the_oldest_and_counts_them(start: Services) -> None:
    model = Model()
    service = start(model, queue_limit=2)
    held(model, service)
    oldest = service.submit([clip(0.1), pair_of(0.15)], "progress")
    newer = service.submit([clip(0.2), clip(0.3)], "progress")
    assert oldest.wait(SOON_S)  # while the model still does not answer
    assert oldest.scores is not None
    assert [score.valid for score in oldest.scores] == [False, False]
    assert oldest.scores[0].raw == "given up: the queue was full"
    assert service.stats().refused == 2
    model.gate.set()
    assert values(newer) == [0.2, 0.3]
    assert 0.1 not in model.asked()


def pair_of(progress: float) -> ClipQuery:
    return ClipQuery(instruction=TASK, frames=(frame(0.0), frame(progress)))


def test_a_question_that_was_given_up_can_be_asked_again(start: Services) -> None:
    model = Model()
    service = start(model, queue_limit=1)
    held(model, service)
    service.submit([clip(0.1), clip(0.2)], "progress")
    model.gate.set()
    assert values(service.submit([clip(0.1)], "progress")) == [0.1]


def test_a_model_that_fails_leaves_questions_open_and_nothing_in_the_cache(start: Services) -> None:
    model = Model()
    model.error = RewardError("server is away")
    model.breaker = "open"
    service = start(model)
    ticket = service.submit([clip(0.1)], "progress")
    assert math.isnan(values(ticket)[0])
    assert ticket.scores is not None
    assert ticket.scores[0].raw == "server is away"
    assert (service.stats().failed, service.stats().misses, service.stats().breaker) == (1, 0, "open")
    model.error = None
    assert values(service.submit([clip(0.1)], "progress")) == [0.1]


def test_an_unreadable_answer_is_not_zero_and_is_asked_again(start: Services) -> None:
    model = Model()
    model.unreadable = True
    service = start(model)
    assert math.isnan(values(service.submit([clip(0.1)], "progress"))[0])
    assert service.stats().unreadable == 1
    model.unreadable = False
    assert values(service.submit([clip(0.1)], "progress")) == [0.1]


def test_too_few_answers_are_no_answers(start: Services) -> None:
    model = Model()
    model.missing = 1
    service = start(model)
    ticket = service.submit([clip(0.1), clip(0.2)], "progress")
    assert all(math.isnan(value) for value in values(ticket))
    assert ticket.scores is not None
    assert "scores of model are 1, must be 2" in ticket.scores[0].raw


def test_a_mistake_in_a_model_loses_its_questions_aloud_and_the_service_goes_on(
    start: Services, caplog: pytest.LogCaptureFixture
) -> None:
    model = Model()
    model.error = TypeError("a mistake in the model")
    service = start(model)
    ticket = service.submit([clip(0.1)], "progress")
    assert math.isnan(values(ticket)[0])
    assert ticket.scores is not None
    assert ticket.scores[0].lost
    assert "model does not answer: TypeError" in caplog.text
    model.error = None
    assert values(service.submit([clip(0.1)], "progress")) == [0.1]
    assert service.stats().running


def test_a_full_disk_costs_no_answer(start: Services, tmp_path: Path) -> None:
    path = tmp_path / "scores.log"
    model = Model()
    service = start(model, cache_path=path)
    with full_after(20):
        assert values(service.submit([clip(0.1)], "progress")) == [0.1]
        assert values(service.submit([clip(0.2)], "progress")) == [0.2]
    assert values(service.submit([clip(0.2), clip(0.3)], "progress")) == [0.2, 0.3]
    assert model.asked() == [0.1, 0.2, 0.3]
    service.close()
    again = start(Model(), cache_path=path)
    assert values(again.submit([clip(0.3)], "progress")) == [0.3]
    assert again.stats().hits == 1


def test_a_mistake_of_its_own_ends_the_service_aloud(
    start: Services, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start(Model())

    def broken(key: str) -> None:
        raise KeyError("cache")

    monkeypatch.setattr(service._cache, "load", broken)
    assert math.isnan(values(service.submit([clip(0.1)], "progress"))[0])
    assert not service.stats().running
    with pytest.raises(RewardError, match="does not run, must: KeyError: 'cache'"):
        service.submit([clip(0.1)], "progress")
    assert "scoring has ended" in caplog.text


def test_a_question_that_cannot_be_answered_is_refused_and_harms_nobody(start: Services) -> None:
    model = Model()
    service = start(model)
    with pytest.raises(Unsupported, match="done question to model has no answer"):
        service.submit([clip(0.1)], "done")
    with pytest.raises(RewardError, match="query is a ClipQuery, must be of kind pair"):
        service.submit([clip(0.1)], "pair")
    blind = ClipQuery(instruction=TASK, frames=(frame(0.1, "wrist"),))
    with pytest.raises(RewardError, match="view front is missing"):
        service.submit([clip(0.1), blind], "progress")
    assert values(service.submit([clip(0.2)], "progress")) == [0.2]
    assert model.asked() == [0.2]


def test_a_ticket_has_no_scores_before_it_has_all_of_them(start: Services) -> None:
    model = Model()
    service = start(model)
    values(service.submit([clip(0.1)], "progress"))
    held(model, service)
    mixed = service.submit([clip(0.1), clip(0.2), clip(0.99)], "progress")
    assert not mixed.wait(0.0)
    assert mixed.scores is None
    model.gate.set()
    assert values(mixed) == [0.1, 0.2, 0.99]
    at_once = service.submit([clip(0.1)], "progress")
    assert at_once.wait(0.0)


def test_closing_answers_what_is_open_and_a_late_answer_does_not_matter(start: Services) -> None:
    model = Model()
    service = start(model)
    asked = held(model, service)
    queued = service.submit([clip(0.1)], "progress")
    service.close(timeout_s=0.0)
    assert all(math.isnan(value) for value in values(asked) + values(queued))
    model.gate.set()
    service.close()
    assert math.isnan(values(asked)[0])
    with pytest.raises(RewardError, match="does not run, must: it was closed"):
        service.submit([clip(0.1)], "progress")


def test_it_is_started_before_it_is_asked_and_once() -> None:
    service = ScoringService(Model(), cache_path=None)
    with pytest.raises(RewardError, match="does not run, must: it was not started"):
        service.submit([clip(0.1)], "progress")
    service.start()
    with pytest.raises(RewardError, match="was started before"):
        service.start()
    service.close()


@pytest.mark.parametrize("setting", ["max_batch", "queue_limit"])
def test_settings_below_one_are_refused(setting: str) -> None:
    with pytest.raises(RewardError, match=f"{setting} is 0, must be at least 1"):
        ScoringService(Model(), cache_path=None, **{setting: 0})  # type: ignore[arg-type]


def test_scores_are_kept_over_a_restart_for_the_same_version_only(start: Services, tmp_path: Path) -> None:
    path = tmp_path / "cache" / "scores.log"
    first = start(Model(), cache_path=path)
    values(first.submit([clip(0.1), clip(0.2)], "progress"))
    first.close()
    same, other = Model(), Model(version="2")
    again = start(same, cache_path=path)
    assert values(again.submit([clip(0.1), clip(0.3)], "progress")) == [0.1, 0.3]
    assert same.asked() == [0.3]
    assert again.stats().hits == 1
    again.close()
    assert values(start(other, cache_path=path).submit([clip(0.1)], "progress")) == [0.1]
    assert other.asked() == [0.1]


def test_a_cache_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RewardError, match="score cache cannot be used"):
        ScoringService(Model(), cache_path=tmp_path / "file" / "scores.log").start()


def test_many_threads_get_their_own_answers(start: Services) -> None:
    model = Model(max_batch=7)
    service = start(model, max_batch=7, wait_ms=1.0)
    found: dict[int, list[float]] = {}

    def ask(seed: int) -> None:
        wanted = [((seed * 7 + i) % 20) / 20 for i in range(20)]
        got = values(service.submit([clip(p) for p in wanted], "progress"))
        found[seed] = [abs(g - w) for g, w in zip(got, wanted, strict=True)]

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON_S)
    assert sorted(found) == list(range(8))
    assert max(max(gaps) for gaps in found.values()) < 0.005
    assert sorted(model.asked()) == sorted({round(v, 3) for v in model.asked()})  # each once
