"""Splitting of a dataset into several: by outcome, by kind, or at random in given shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from robot_stack.datasets.draft import new_folder
from robot_stack.datasets.new_store import NewStore, start_store
from robot_stack.datasets.store_view import StoreView
from robot_stack.datasets.summary import EpisodeSummary
from robot_stack.types.errors import StoreError
from robot_stack.types.names import check_name

Field = Literal["outcome", "kind"]


def by_field(lines: Sequence[EpisodeSummary], field: Field) -> dict[str, list[str]]:
    """Group episodes by a field: its value -> ids, both sorted."""
    values = {line.episode_id: line.outcome if field == "outcome" else line.kind.value for line in lines}
    return {value: sorted(i for i in values if values[i] == value) for value in sorted(set(values.values()))}


def by_share(episode_ids: Sequence[str], shares: Mapping[str, float], seed: int) -> dict[str, list[str]]:
    """Draw named parts of the episodes without replacement; the same ids and seed always give the same parts.

    Sizes are the shares of the whole, rounded so that they add up (largest remainder).

    Raises:
        StoreError: If the shares do not add up to 1, or a part would be empty.
    """
    if len(shares) < 2 or any(share <= 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-6:
        raise StoreError(
            f"shares are {dict(shares)}, must be two or more above 0 that add up to 1; e.g. train=0.8 and val=0.2"
        )
    exact = np.array(list(shares.values())) * len(episode_ids)
    sizes = np.floor(exact + 1e-9).astype(int)
    rest = len(episode_ids) - sizes.sum()
    sizes[np.argsort(-(exact - sizes), kind="stable")[:rest]] += 1
    if not sizes.all():
        empty = list(shares)[int(np.argmin(sizes))]
        raise StoreError(
            f"share {empty!r} is 0 of {len(episode_ids)} episodes, must be at least 1; choose a larger share"
        )
    order = np.random.default_rng(seed).permutation(len(episode_ids))
    drawn = [sorted(episode_ids)[i] for i in order]
    cuts = np.cumsum(sizes)
    return {name: sorted(drawn[end - size : end]) for name, size, end in zip(shares, sizes, cuts, strict=True)}


def split(view: StoreView, out: Path, parts: Mapping[str, Sequence[str]], how: Mapping[str, object]) -> list[NewStore]:
    """Write a dataset `out/<name>` per part; all of them appear together.

    Args:
        view: What is split.
        out: The new folder that holds the parts.
        parts: Name -> ids.
        how: For the record of where they come from.

    Raises:
        StoreError: If a name is no file name, an episode is not there, or the disk refuses.
    """
    for name, episode_ids in parts.items():
        check_name(name, "name of a part")
        view.check_there(episode_ids)
    with new_folder(out) as draft:
        stores = []
        for name, episode_ids in parts.items():
            store = start_store(draft / name, view)
            for episode_id in episode_ids:
                store.copy(view, episode_id)
            store.finish("split", [view.root], {**how, "part": name})
            stores.append(store)
    return stores
