"""Closed episodes for the players of pages: one is read at a time, beside the server's loop, and few wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from robot_stack.console.browser.films import Films
from robot_stack.console.messages import PageError
from robot_stack.console.web import JSON, Handler, json_of
from robot_stack.datasets.catalogue import Catalogue
from robot_stack.datasets.declared import check_scores
from robot_stack.datasets.store_view import StoreView, open_store
from robot_stack.disk.durable import disk_errors
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.replay.layout import StorePaths
from robot_stack.replay.stored_episode import StoredEpisode, read_episode
from robot_stack.types.errors import StoreError
from robot_stack.types.reward import EpisodeScores

MOST_WAITING = 64
"""Questions that wait for their turn, of all pages together; a player asks three at once."""
Tell = Callable[[StoreView, StoredEpisode, Sequence[EpisodeScores]], dict[str, Any]]


class Projector:
    """Reader of closed episodes for the players of pages.

    Args:
        catalogue: Returns the folder's episodes; it may read the disk, and is called in a thread.
        tell: Returns what a page is sent of an episode beside its images.
        only: Columns that it needs; None for all but the images.
    """

    def __init__(self, catalogue: Callable[[], Catalogue], tell: Tell, only: Collection[str] | None = None) -> None:
        self._catalogue = catalogue
        self._tell = tell
        self._only = only
        self._films = Films()
        self._turn = asyncio.Lock()
        self._waiting = 0

    @property
    def handlers(self) -> dict[str, Handler]:
        """Return what is asked of it: path -> handler, which raises a StackError as its refusal."""
        return {"/api/episodes/{id}": self._episode, "/api/episodes/{id}/frames/{range:int}": self._frames}

    async def _episode(self, request: Request) -> Response:
        return await self._answer(request, JSON, lambda: json_of(self._told(request.path_params["id"])))

    async def _frames(self, request: Request) -> Response:
        def encoded() -> bytes:
            path = self._catalogue().whole(request.path_params["id"])
            return self._films.get(path, request.path_params["range"])

        return await self._answer(request, "application/octet-stream", encoded)

    async def _answer(self, request: Request, kind: str, read: Callable[[], bytes]) -> Response:
        if self._waiting >= MOST_WAITING:
            raise PageError(f"{MOST_WAITING} parts of episodes are asked for, must be fewer; wait, then play on")
        self._waiting += 1
        try:
            async with self._turn:
                if await request.is_disconnected():  # scrubbed past, or closed
                    return PlainTextResponse("nobody waits for it", 499)
                with disk_errors("reading an episode"):
                    return Response(await asyncio.to_thread(read), 200, media_type=kind)
        finally:
            self._waiting -= 1

    def _told(self, episode_id: str) -> dict[str, Any]:
        catalogue = self._catalogue()
        path, view = catalogue.whole(episode_id), catalogue.view
        check_scores(view.paths.scores, episode_id)
        scores = ScoreFiles(view.paths.scores).of(episode_id)
        episode = read_episode(path, images=False, only=self._only)
        frames = episode.length + 1
        return self._tell(view, episode, [one for one in scores if len(one.progress) == frames])


def followed(root: Path) -> Callable[[], Catalogue]:
    """Return what opens the store of a run once it is there, and looks at it again whenever it is called.

    It raises a StoreError while there is none.
    """
    opened: list[Catalogue] = []

    def look() -> Catalogue:
        if not opened:
            if not StorePaths(root).identity.exists():
                raise StoreError(
                    "store of this run is not on this machine, must be for its episodes to be played here; play them "
                    "with robot-stack data view where the learner runs"
                )
            opened.append(Catalogue(open_store(root)))
        opened[0].refresh()
        return opened[0]

    return look
