"""A folder of episodes behind the browser's server, as its tests share it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="no server on this machine: pip install 'robot-stack[console]'")

from robot_stack.console.access import Gate
from robot_stack.console.browser.app import Browser
from robot_stack.console.browser.making import Maker
from robot_stack.console.browser.relabels import Relabels, Tell
from robot_stack.console.browser.staging import Staging
from robot_stack.console.browser.viewer import RerunViewer
from robot_stack.console.serving import AppServer, listen, page_address
from robot_stack.datasets.catalogue import Catalogue
from robot_stack.datasets.store_view import open_store
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.command import Source
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.datasets.data_rig import changed, label, made_episode, made_spec, write_folder

DEMO, HELPED, ALONE = "000001-demo-a", "000002-online-a", "000003-online-b"
LONG_STEPS = 45


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What a test asks, and what it looks behind."""

    url: str
    root: Path
    out: Path
    catalogue: Catalogue
    relabels: Relabels

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Status and body of an answer."""
        return fetch(self.url, path, **headers)

    def json(self, path: str) -> Any:
        """What a request is answered, which must be JSON."""
        code, body = self.get(path)
        assert code == 200, body
        return json.loads(body)

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, bytes]:
        """Status and body of the answer to what is asked for."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return fetch(self.url, path, raw, **{"Content-Type": "application/json", **headers})


def fetch(url: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """Status and body of an answer."""
    request = urllib.request.Request(url.partition("#")[0] + path, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def recorded() -> list[StoredEpisode]:
    """A demonstration, an online episode with a take-over, and a longer one without."""
    spec = made_spec(side_px=32)
    online = {"kind": EpisodeKind.ONLINE, "source": Source.POLICY}
    who = np.array([Source.POLICY] * 8 + [Source.HUMAN] * 8 + [Source.IDLE] * 2 + [Source.HOLD] * 2, np.uint8)
    alone = made_episode(ALONE, spec, steps=LONG_STEPS, end=EndReason.TIMEOUT, **online)
    return [
        made_episode(DEMO, spec),
        changed(made_episode(HELPED, spec, **online), source=who),
        replace(alone, header=replace(alone.header, actor="b")),
    ]


def write_recorded(root: Path) -> None:
    """Write these episodes with labels, and scores by two versions of a reward model."""
    labels = [
        label(HELPED, Verdict.SUCCESS, LabelSource.MODEL),
        label(HELPED, Verdict.SUCCESS, LabelSource.TRUTH),
        label(ALONE, Verdict.FAILURE),
    ]
    view = write_folder(root, recorded(), labels)
    scores = ScoreFiles(view.paths.scores)
    for version, most in (("aa-old", 0.5), ("bb-new", 0.9)):
        for episode_id, frames in ((DEMO, 21), (HELPED, 21), (ALONE, LONG_STEPS + 1)):
            progress = np.linspace(0, most, frames).astype(np.float32)
            scores.append(
                EpisodeScores(episode_id=episode_id, version=version, progress=progress, success=progress / 2)
            )


@contextmanager
def browsing(
    root: Path,
    token: str = "",
    tell: Tell | None = None,
    stages: Sequence[str] = (),
    viewer: RerunViewer | None = None,
) -> Iterator[Served]:
    """The page of a folder, for as long as it is served."""
    view = open_store(root)
    catalogue, relabels = Catalogue(view), Relabels(view.paths, tell)
    catalogue.refresh()
    relabels.open()
    out = root.with_name(f"{root.name}-made")
    listening = listen("127.0.0.1:0")
    browser = Browser(
        catalogue,
        relabels,
        Staging(catalogue.view.paths, stages),
        Maker(out),
        Gate(token),
        "monday",
        local=not token,
        viewer=viewer,
    )
    with AppServer(browser.app(), listening, browser.run):
        url = page_address(listening, "127.0.0.1", token)
        yield Served(url=url, root=root, out=out, catalogue=catalogue, relabels=relabels)
    browser.close()
