"""The browser's server: the list, one episode's numbers, ranges of its frames, and what an operator asks to be done.

| request | answers |
| --- | --- |
| GET / and /static/NAME | the page |
| GET /api/list?known=N | episodes, verdicts that are not written yet; 204 if nothing has changed since N |
| GET /api/episodes/ID | everything of a closed episode but its images |
| GET /api/episodes/ID/frames/K | its K-th second of images, see `Films.get` |
| GET /api/pair | two moments to be compared, null without any; how many answers there are |
| GET /lent/SECRET/NAME | what was written for Foxglove, or a range of it |
| POST /api/label, /api/undo, /api/mark, /api/prefer, /api/trim, /api/export | what has been done |
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Route

from robot_stack.console.access import Gate
from robot_stack.console.browser.asked import Asked, Export, Mark, Nothing, Prefer, Relabel, Trims, asked
from robot_stack.console.browser.lending import HEADERS as LENT
from robot_stack.console.browser.lending import ROOM, Lending
from robot_stack.console.browser.listed import listed
from robot_stack.console.browser.making import Maker
from robot_stack.console.browser.played import played
from robot_stack.console.browser.projector import Projector
from robot_stack.console.browser.relabels import Relabels
from robot_stack.console.browser.staging import Staging
from robot_stack.console.browser.viewer import RerunViewer, ViewerError
from robot_stack.console.web import BROWSER, STATIC, PageFiles, guarded, json_answer, json_body, refuse_host
from robot_stack.datasets.catalogue import Catalogue
from robot_stack.datasets.comparing import Comparing
from robot_stack.datasets.extras import remedies
from robot_stack.datasets.store_view import StoreView
from robot_stack.teleop.bindings import Device, key_of
from robot_stack.types.errors import StackError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.preferences import Moment, Preference

TICK_S = 0.5
"""Between two looks at the folder, and at verdicts that are due."""
COURSES_AT_ONCE = 8
"""Episodes whose course is read between two looks."""
WHERE = "Rerun's viewer runs on the machine of this page's server, with one episode at a time"
KEYS = {act: key_of(Device.BROWSER, act) for act in (*Verdict, "stage")}
"""A verdict and a stage mark have the keys that they have everywhere."""

log = logging.getLogger(__name__)


class Browser:
    """Web application of one folder of episodes.

    Args:
        catalogue: Of the folder.
        relabels: Takes verdicts.
        staging: Takes stage marks.
        maker: Writes trims and exports.
        local: Whether the page is for this machine alone: then what was written is opened at once.
        viewer: Of Rerun; None where it is not installed.
        gate: Who is let in.
        name: Of the run or dataset, as its user calls it.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        relabels: Relabels,
        staging: Staging,
        maker: Maker,
        gate: Gate,
        name: str,
        *,
        local: bool = False,
        viewer: RerunViewer | None = None,
    ) -> None:
        self._catalogue = catalogue
        self._relabels = relabels
        self._staging = staging
        self._maker = maker
        self._local = local
        self._viewer = viewer
        self._lending = Lending()
        self._comparing = Comparing(catalogue)
        self._gate = gate
        self._name = name
        self._projector = Projector(lambda: catalogue, played)
        self._files = PageFiles([BROWSER, STATIC])
        self._remedies = remedies()
        self._said: Any = None
        self._version = 0

    def app(self) -> Starlette:
        """Return the application, to be run by a server."""
        look = {
            "/api/list": self._list,
            "/api/pair": self._pair,
            **self._projector.handlers,
        }
        do = {
            "/api/label": self._label,
            "/api/undo": self._undo,
            "/api/mark": self._mark,
            "/api/prefer": self._prefer,
            "/api/trim": self._trim,
            "/api/export": self._export,
        }
        return Starlette(
            routes=[
                Route("/", self._index),
                Route("/static/{name}", self._static),
                Route(ROOM + "/{secret}/{name}", self._lent),
                *(Route(path, guarded(self._gate, handler)) for path, handler in look.items()),
                *(Route(path, guarded(self._gate, handler), methods=["POST"]) for path, handler in do.items()),
            ]
        )

    async def run(self) -> None:
        """Follow the folder, read courses and write verdicts that are due, for as long as the server lives."""
        while True:
            await asyncio.to_thread(self._look)
            await asyncio.sleep(TICK_S if not any(True for _ in self._catalogue.unread()) else 0.01)

    def close(self) -> None:
        """Write the verdicts that are kept back, since nobody can undo them any more, and end the viewer."""
        self._relabels.bring(time.monotonic_ns(), all_of_them=True)
        if self._viewer is not None:
            self._viewer.close()

    def _look(self) -> None:
        try:
            before = self._catalogue.view
            self._catalogue.refresh()
            if self._catalogue.view is not before:
                self._relabels.heard(self._catalogue.view.labels)
        except (StackError, OSError) as error:
            log.warning("%s", error)
        for _, episode_id in zip(range(COURSES_AT_ONCE), self._catalogue.unread()):
            self._catalogue.read_course(episode_id)
        self._relabels.bring(time.monotonic_ns())

    async def _index(self, request: Request) -> Response:
        return refuse_host(self._gate, request) or self._files.index()

    async def _static(self, request: Request) -> Response:
        return refuse_host(self._gate, request) or self._files.get(request.path_params["name"])

    # what is looked at ---------------------------------------------------------------------------------------------
    async def _list(self, request: Request) -> Response:
        waiting = self._relabels.to_json(time.monotonic_ns())
        settled = {**waiting, "undo": waiting["undo"] and waiting["undo"]["id"]}
        if (self._catalogue.version, settled) != self._said:
            self._said = (self._catalogue.version, settled)
            self._version += 1
        if request.query_params.get("known") == f"{self._files.build}.{self._version}":
            return Response(status_code=204)
        content = await asyncio.to_thread(listed, self._catalogue)
        about = {
            "version": f"{self._files.build}.{self._version}",
            "name": self._name,
            "keys": KEYS,
            "stages": self._staging.names,
            "remedies": self._remedies,
        }
        return json_answer({**about, **content, **waiting})

    async def _pair(self, request: Request) -> Response:
        pair, answers = await asyncio.to_thread(self._comparing.next)
        shown = None if pair is None else [{"episode": each.episode_id, "frame": each.frame} for each in pair]
        return json_answer({"pair": shown, "answers": answers})

    # what is done --------------------------------------------------------------------------------------------------
    async def _label(self, request: Request) -> Response:
        said = await _body(Relabel, request)
        self._catalogue.view.check_there([said.episode])
        self._relabels.say(said.episode, said.verdict, time.monotonic_ns(), time.time())
        return json_answer(self._relabels.to_json(time.monotonic_ns()))

    async def _undo(self, request: Request) -> Response:
        await _body(Nothing, request)
        self._relabels.undo(time.monotonic_ns(), time.time())
        return json_answer(self._relabels.to_json(time.monotonic_ns()))

    async def _mark(self, request: Request) -> Response:
        said = await _body(Mark, request)
        await asyncio.to_thread(self._set_mark, said)
        return json_answer({})

    def _set_mark(self, said: Mark) -> None:
        view, now_unix_s = self._catalogue.view, time.time()
        view.check_there([said.episode])
        self._staging.set(view, said.episode, said.stage, said.frame, removed=said.removed, now_unix_s=now_unix_s)
        self._catalogue.refresh()

    async def _prefer(self, request: Request) -> Response:
        said = await _body(Prefer, request)
        first, second = (Moment(episode_id=each.episode, frame=each.frame) for each in (said.first, said.second))
        preference = Preference(
            first=first,
            second=second,
            further=said.further,
            source=LabelSource.OPERATOR,
            by=said.session,
            stamp_unix_s=time.time(),
        )
        await asyncio.to_thread(self._comparing.say, preference)
        return json_answer({})

    async def _trim(self, request: Request) -> Response:
        said = await _body(Trims, request)
        trims = {name: (each.first, each.last) for name, each in said.trims.items()}
        made = await asyncio.to_thread(lambda: self._maker.trim(self._with_waiting(), trims))
        return json_answer(made.to_json())

    def _with_waiting(self) -> StoreView:
        """Return the folder with the verdicts that the page shows as given, also while they can be undone."""
        waiting, view = self._relabels.waiting, self._catalogue.view  # in this order: one is written, and then gone
        return replace(view, labels=(*view.labels, *(label for label in waiting if label not in view.labels)))

    async def _export(self, request: Request) -> Response:
        said = await _body(Export, request)
        return json_answer(await asyncio.to_thread(self._written, said, str(request.base_url).rstrip("/")))

    def _written(self, said: Export, server: str) -> dict[str, Any]:
        """Write an export, and say where it can be opened on this machine."""
        made = self._maker.export(self._with_waiting(), said.episode, said.format)
        told = made.to_json()
        if made.recording is not None and self._local and self._viewer is not None:
            try:
                told["opens"] = {"with": "Rerun's viewer", "address": self._viewer.show(made.recording)}
                told["said"].insert(0, WHERE)
            except ViewerError as error:  # it is written all the same, and the command is there
                told["said"].append(str(error))
        if made.bag is not None and self._local:
            told["opens"] = {"with": "Foxglove", "address": self._lending.lend(made.bag, server)}
        return told

    async def _lent(self, request: Request) -> Response:
        """Answer whoever knows the address of a lent file: Foxglove's page has no token of ours."""
        refusal = refuse_host(self._gate, request)
        path = self._lending.find(request.path_params["secret"], request.path_params["name"])
        if refusal is not None or path is None:
            return refusal or PlainTextResponse("there is no such file", 404)
        return FileResponse(path, headers=LENT)


async def _body(kind: type[Asked], request: Request) -> Asked:
    """Read the body of a request.

    Raises:
        PageError: If it is too long, not declared as JSON, or not of this kind.
    """
    return asked(kind, await json_body(request))
