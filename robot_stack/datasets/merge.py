"""Merging of several datasets into one, if they are of one cell and one task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from robot_stack.datasets.draft import new_folder
from robot_stack.datasets.new_store import NewStore, start_store
from robot_stack.datasets.store_view import StoreView
from robot_stack.replay.identity import check_spec
from robot_stack.replay.manifest import FILE_NAME
from robot_stack.types.errors import StoreError


def merge(views: Sequence[StoreView], out: Path) -> tuple[NewStore, dict[str, str]]:
    """Write one dataset of all episodes of several.

    Returns it, and `<folder>/<old id>` -> new id where they differ.

    The same episode in two of them is taken once, with the labels of both. Another episode of the same id gets a
    number behind its id.

    Raises:
        StoreError: If there are fewer than two, their specs or tasks differ (every differing field is named), or the
            disk refuses.
    """
    if len(views) < 2:
        raise StoreError(f"number of datasets to merge is {len(views)}, must be at least 2; name another one")
    first, *others = views
    for view in others:
        check_spec(view.spec, first.spec, f"spec of {view.root} against {first.root}")
        if view.task != first.task:
            raise StoreError(f"task of {view.root} is {view.task!r}, must be {first.task!r}; leave it out")
    with new_folder(out) as draft:
        store = start_store(draft, first)
        renamed = {}
        names: dict[bytes, str] = {}
        for view in views:
            for episode_id in view.episodes:
                seal = (view.path(episode_id) / FILE_NAME).read_bytes()
                if seal in names:
                    said = (replace(label, episode_id=names[seal]) for label in view.labels_of(episode_id))
                    store.labels += [label for label in said if label not in store.labels]
                    continue
                name = _free(episode_id, store.taken)
                if store.copy(view, episode_id, name=name):
                    names[seal] = name
                    if name != episode_id:
                        renamed[f"{view.root}/{episode_id}"] = name
        store.finish("merge", [view.root for view in views], {"renamed": renamed})
    return store, renamed


def _free(episode_id: str, taken: Sequence[str]) -> str:
    name, number = episode_id, 1
    while name in taken:
        number += 1
        name = f"{episode_id}-{number}"
    return name
