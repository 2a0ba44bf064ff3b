"""A model behind an OpenAI-compatible server: vLLM, `transformers serve`, or another.

Every wait has an end: a request that is not answered in its time is given up, repeated at most twice, and after
several of them in a row the server is left alone for a while. Proxies named in the environment are not used, because
the images of a cell are nobody else's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reward_models.vlm.chat import NotAReply, data_uri, read_reply, request_body
from reward_models.vlm.config import ServerSettings
from reward_models.vlm.optional import optional_import
from reward_models.vlm.prompt import Answer, BreakerState, Prompt
from robot_stack.types.errors import RewardError

RETRIES = 2
BACKOFF_S = 0.25
"""Before the first repetition, doubled before the next, each times 0.5 to 1.5 by chance."""
FAILURES = 5
COOL_DOWN_S = 15.0
MAX_REPLY_BYTES = 4 * 2**20
"""Five times what 512 tokens with ten alternatives each take; no other thread runs while a reply is taken apart."""
PLAIN = {"Accept-Encoding": "identity"}
"""Header: a compressed reply of a few kilobytes can unpack to any size."""


class Breaker:
    """A count of failures that opens the circuit; the time is passed in.

    Args:
        failures: In a row, after which it opens.
        cool_down_s: For which it stays open before one question may probe the server.
    """

    def __init__(self, *, failures: int, cool_down_s: float) -> None:
        self._limit = failures
        self._cool_down_s = cool_down_s
        self._failures = 0
        self._opened_s: float | None = None

    def state(self, now_s: float) -> BreakerState:
        """Return what may be asked: all ("closed"), one question ("half-open"), nothing ("open")."""
        if self._opened_s is None:
            return "closed"
        return "half-open" if now_s - self._opened_s >= self._cool_down_s else "open"

    def succeeded(self) -> None:
        """Count a question that was answered: close the circuit."""
        self._failures = 0
        self._opened_s = None

    def failed(self, now_s: float) -> None:
        """Count a question that was not answered, retries included."""
        self._failures += 1
        if self._failures >= self._limit:
            self._opened_s = now_s

    def seconds_left(self, now_s: float) -> float:
        """Return the seconds until a probe is allowed."""
        return 0.0 if self._opened_s is None else max(0.0, self._opened_s + self._cool_down_s - now_s)


_log = logging.getLogger(__name__)


class _Failure(Exception):
    """The failure of one request: its reason, and whether it may be asked again."""

    def __init__(self, reason: str, *, passing: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.passing = passing


class Endpoint:
    """A backend for one model of one server; implements `Backend`.

    Args:
        token: Bearer token, None for none; it appears in no message.
        clock: Seconds, for the breaker.
        rng: Spreads repetitions, so that several clients do not return at once.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        model: str,
        token: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._httpx = optional_import("httpx")
        self.name = f"{model} at {settings.url}"
        self.batch = settings.concurrency * 2
        self._settings = settings
        self._model = model
        self._token = token
        self._clock = clock
        self._rng = rng if rng is not None else random.Random()
        self._breaker = Breaker(failures=FAILURES, cool_down_s=COOL_DOWN_S)
        self._tls = _tls(settings) if settings.url.startswith("https") else False

    @property
    def identity(self) -> str:
        """Return model and revision as the settings have them: a server does not prove what it has loaded."""
        return f"{self._model}@{self._settings.revision} {self._settings.image_format}"

    @property
    def breaker(self) -> BreakerState:
        """Return the state of the server's circuit breaker."""
        return self._breaker.state(self._clock())

    def close(self) -> None:
        """Do nothing: no connection is held between two calls."""

    def answer(self, prompts: Sequence[Prompt], *, max_tokens: int, top_logprobs: int = 0) -> list[Answer]:
        """Ask the server and return greedy answers, see `Backend.answer`; not from within an event loop."""
        now = self._clock()
        if self._breaker.state(now) == "open":
            raise RewardError(
                f"model {self.name} is left alone for {self._breaker.seconds_left(now):.0f} s more after "
                f"{FAILURES} failures in a row, must answer; look at the server's log"
            )
        encoded: dict[int, str] = {}

        def encode(image: np.ndarray) -> str:  # of one object once: references stand in many prompts
            if id(image) not in encoded:
                encoded[id(image)] = data_uri(image, self._settings.image_format)
            return encoded[id(image)]

        bodies = [
            request_body(prompt, encode, model=self._model, max_tokens=max_tokens, top_logprobs=top_logprobs)
            for prompt in prompts
        ]
        answers = asyncio.run(self._answer_all(bodies))
        problems = [answer.problem for answer in answers if answer.problem]
        if problems:
            _log.warning("%s left %d of %d questions open: %s", self.name, len(problems), len(answers), problems[0])
        if len(problems) == len(answers) > 0:
            raise RewardError(f"model {self.name} gave no answer, must answer; {problems[0]}")
        return answers

    def served(self) -> list[str]:
        """Ask the server which models it serves; return their names.

        Raises:
            RewardError: If it does not say so in its time.
        """
        url, timeout_s = self._settings.url, self._settings.timeout_s

        async def fetch() -> tuple[int, bytearray]:
            async with self._client() as client:
                return await _exchange(client, "GET", f"{url}/models", timeout_s=timeout_s)

        try:
            status, reply = asyncio.run(fetch())
            if status != 200:
                raise _Failure(f"it answered {status}", passing=_passing(status))
            return [str(model["id"]) for model in json.loads(reply)["data"]]
        except (_Failure, self._httpx.InvalidURL, ValueError, KeyError, TypeError, RecursionError) as error:
            why = " ".join((error.reason if isinstance(error, _Failure) else repr(error)).split())[:200]
            raise RewardError(
                f"server at {url} does not say which models it has ({why}), must answer GET /models; look at its log, "
                "or name the model with --served"
            ) from error

    def _client(self) -> Any:
        headers = PLAIN | ({"Authorization": f"Bearer {self._token}"} if self._token else {})
        return self._httpx.AsyncClient(
            headers=headers, timeout=self._settings.timeout_s, verify=self._tls, trust_env=False
        )

    async def _answer_all(self, bodies: Sequence[dict[str, object]]) -> list[Answer]:
        gate = asyncio.Semaphore(self._settings.concurrency)
        async with self._client() as client:

            async def one(body: dict[str, object]) -> Answer:
                async with gate:
                    return await self._answer(client, body)

            first = []
            if self.breaker == "half-open" and bodies:  # a probe; the rest follows only if it is answered
                first = [await one(bodies[0])]
            return [*first, *await asyncio.gather(*(one(body) for body in bodies[len(first) :]))]

    async def _answer(self, client: Any, body: dict[str, object]) -> Answer:
        """Ask one prompt, with its repetitions; a failure is an answer with a problem."""
        if self.breaker == "open":
            return Answer(problem=f"left alone after {FAILURES} failures in a row")
        for attempt in range(RETRIES + 1):
            try:
                answer = await self._post(client, body)
            except _Failure as failure:
                reason = failure.reason
                if not failure.passing or attempt == RETRIES:
                    break
                await asyncio.sleep(BACKOFF_S * 2**attempt * self._rng.uniform(0.5, 1.5))
            else:
                self._breaker.succeeded()
                return answer
        self._breaker.failed(self._clock())
        return Answer(problem=reason)

    async def _post(self, client: Any, body: dict[str, object]) -> Answer:
        url, timeout_s = f"{self._settings.url}/chat/completions", self._settings.timeout_s
        status, reply = await _exchange(client, "POST", url, timeout_s=timeout_s, json=body)
        if status != 200:
            raise _Failure(f"it answered {status}: {self._excerpt(reply)}", passing=_passing(status))
        try:
            answer = read_reply(bytes(reply))
        except NotAReply as error:
            reason = f"its reply is no chat completion ({error}): {self._excerpt(reply)}"
            raise _Failure(reason, passing=False) from error
        if answer.problem:
            raise _Failure(answer.problem, passing=True)
        if body.get("logprobs") and answer.text and not any(token.top for token in answer.tokens):
            raise _Failure("it gives no log-probabilities, which this model is read from", passing=False)
        return answer

    def _excerpt(self, reply: bytearray) -> str:
        """Return the beginning of a reply on one line, without the token, which a server may repeat."""
        text = reply[:4000].decode(errors="replace")
        if self._token:
            text = text.replace(self._token, "***")
        return " ".join(text.split())[:200]


async def _exchange(client: Any, method: str, url: str, *, timeout_s: float, **content: Any) -> tuple[int, bytearray]:
    """Send one request and return the status and the body of its reply, as it was sent.

    Raises:
        _Failure: If none comes, or not in time, or it is compressed or too long.
    """
    httpx = optional_import("httpx")
    reply = bytearray()
    try:
        async with (
            asyncio.timeout(timeout_s),  # of all of it; httpx's own starts again with every byte
            client.stream(method, url, **content) as response,
        ):
            status: int = response.status_code
            coding = response.headers.get("Content-Encoding", "identity")
            if coding.lower() != "identity":
                raise _Failure(f"its reply ({status}) is compressed by {coding[:40]!r}", passing=_passing(status))
            async for chunk in response.aiter_raw():
                reply += chunk
                if len(reply) > MAX_REPLY_BYTES:
                    raise _Failure(f"its reply is longer than {MAX_REPLY_BYTES} bytes", passing=False)
    except (TimeoutError, httpx.TimeoutException) as error:
        raise _Failure(f"no answer within {timeout_s:g} s", passing=True) from error
    except httpx.RequestError as error:
        raise _Failure(f"{type(error).__name__}: {error}", passing=True) from error
    return status, reply


def _passing(status: int) -> bool:
    """Return whether a server that answers with this status may answer otherwise the next time."""
    return status == 429 or status >= 500


def _tls(settings: ServerSettings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise RewardError(f"ca_file is {settings.ca_file}, must be certificates in PEM ({error})") from error
