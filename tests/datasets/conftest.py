"""Folders of episodes that several tests read."""

from __future__ import annotations

import pytest

from robot_stack.datasets.store_view import StoreView
from robot_stack.types.command import Source
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.datasets.data_rig import label, made_episode, write_folder


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> StoreView:
    """Two demonstrations and three online episodes: one success by the model, one failure by the operator, one open."""
    online = {"kind": EpisodeKind.ONLINE, "end": EndReason.TIMEOUT, "source": Source.POLICY}
    episodes = [
        made_episode("000000-demo-a"),
        made_episode("000001-demo-a", steps=25),
        made_episode("000002-online-a", **online),
        made_episode("000003-online-a", **online, steps=12),
        made_episode("000004-online-a", **online),
    ]
    labels = [
        label("000002-online-a", Verdict.SUCCESS, LabelSource.MODEL),
        label("000003-online-a", Verdict.SUCCESS, LabelSource.MODEL),
        label("000003-online-a", Verdict.FAILURE),
        label("000003-online-a", Verdict.FAILURE, LabelSource.TRUTH),
    ]
    return write_folder(tmp_path_factory.mktemp("data") / "five", episodes, labels)
