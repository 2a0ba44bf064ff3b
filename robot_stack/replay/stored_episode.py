"""One episode read from disk, and the JSON form of its header."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.storage import LocalStore

from robot_stack.replay.columns import IMAGE_PREFIX, NO_SOURCE, SCHEMA_VERSION, columns
from robot_stack.replay.manifest import Ending, Manifest
from robot_stack.types.command import Source
from robot_stack.types.errors import DAMAGES, StoreError
from robot_stack.types.observation import Observation
from robot_stack.types.spec import Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, ResetType, Step, back_id

TRIES = 3
"""At reading an episode that is being cut: once is enough, unless the cut is killed and made again."""
_BACK = "back"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEpisode:
    """An episode as read from disk: its header, spec, end and arrays.

    Attributes:
        header: As announced.
        spec: Of the cell it was recorded on.
        end: Why it ended; None while unfinished, and then there are as many frames as actions.
        arrays: Column name -> rows, as in `columns.columns`; without those that were not asked for.
    """

    header: EpisodeHeader
    spec: Spec
    end: EndReason | None
    arrays: Mapping[str, np.ndarray]

    @property
    def length(self) -> int:
        """Return T, the number of actions."""
        return len(self.arrays["source"])

    def steps(self) -> Iterator[Step]:
        """Yield the steps as they were recorded, in order."""
        for index in range(len(self.arrays["stamp_ns"])):
            last = index == self.length
            yield Step(
                episode_id=self.header.episode_id,
                index=index,
                observation=self._observation(index),
                action=None if last else self._action(index),
                end=self.end if last else None,
            )

    def _observation(self, index: int) -> Observation:
        arrays = self.arrays
        return Observation(
            images={c.name: arrays[IMAGE_PREFIX + c.name][index] for c in self.spec.cameras},
            proprio=arrays["proprio"][index],
            stamp_ns=int(arrays["stamp_ns"][index]),
            age_s=float(arrays["age_s"][index]),
            skew_s=float(arrays["skew_s"][index]),
        )

    def _action(self, index: int) -> ActionRow:
        arrays = self.arrays
        return ActionRow(
            executed=arrays["executed"][index],
            proposed=arrays["proposed"][index],
            human=arrays["human"][index],
            source=Source(int(arrays["source"][index])),
            sources=tuple(Source(int(source)) for source in arrays["sources"][index]) if "sources" in arrays else (),
            gripper_pressed=bool(arrays["gripper_pressed"][index]),
            clipped=bool(arrays["clipped"][index]),
            params_version=int(arrays["params_version"][index]),
            params_age_s=float(arrays["params_age_s"][index]),
        )


def episode_attributes(header: EpisodeHeader, spec: Spec) -> dict[str, Any]:
    """Return the attributes of an episode's zarr group: schema, header and spec."""
    return {
        "schema": SCHEMA_VERSION,
        "header": asdict(header),
        "spec": json.loads(spec.to_json()),
        "spec_digest": spec.digest,
    }


def header_from(raw: Mapping[str, Any]) -> EpisodeHeader:
    """Build a header from its JSON form.

    Episodes of before the help protocol started as usual. Those of before tasks had ids say of a way back that it
    starts "back": carried, and of the second task.

    Raises:
        ValueError, KeyError, TypeError: If it is not one.
    """
    told = {**raw, "kind": EpisodeKind(raw["kind"])}
    if raw.get("reset") == _BACK:
        return EpisodeHeader(**{**told, "reset": ResetType.CARRIED, "task_id": back_id(raw["task"])})
    return EpisodeHeader(**{**told, "reset": ResetType(raw.get("reset", ResetType.NOMINAL))})


def read_header(path: Path) -> tuple[EpisodeHeader, Spec]:
    """Read the header and spec of the episode directory `path`.

    Raises:
        StoreError: If they are missing, unreadable, or of another schema.
    """
    try:
        attributes = json.loads((path / "zarr.json").read_text())["attributes"]
        if attributes["schema"] != SCHEMA_VERSION:
            raise StoreError(f"schema of {path.name} is {attributes['schema']}, must be {SCHEMA_VERSION}")
        raw = attributes["header"]
        spec = Spec.from_json(json.dumps(attributes["spec"]))
        return header_from(raw), spec
    except DAMAGES as error:
        raise StoreError(f"header of {path.name} is unreadable ({error!r}), must be valid group attributes") from error


def read_episode(path: Path, *, images: bool = True, only: Collection[str] | None = None) -> StoredEpisode:
    """Read the episode directory `path`; needs no lock, and may run while another process writes.

    An unfinished episode is read up to its last complete step; one that is being cut, to where it will end. Without
    `images` no pixel is decoded; with `only` nothing but these columns and `source`.

    Raises:
        StoreError: If it cannot be read.
    """
    header, spec = read_header(path)
    wanted = [c for c in columns(spec) if only is None or c.name in (*only, "source")]
    wanted = [c for c in wanted if images or not c.name.startswith(IMAGE_PREFIX)]
    try:
        for _ in range(TRIES):
            ended = Manifest.load(path) or Ending.load(path)
            group = zarr.open_group(LocalStore(path, read_only=True), mode="r", zarr_format=3, use_consolidated=False)
            length = ended.length if ended else complete_steps(group)
            frames = length + 1 if ended else length
            arrays = {c.name: np.asarray(group[c.name][: frames if c.per_frame else length]) for c in wanted}  # type: ignore[index]
            if ended or complete_steps(group) >= length:  # else it was cut meanwhile, its sources first
                return StoredEpisode(header=header, spec=spec, end=ended.end if ended else None, arrays=arrays)
    except DAMAGES as error:
        raise StoreError(f"episode {path.name} is unreadable: {error!r}") from error
    raise StoreError(f"episode {path.name} changes whenever it is read, must be ended by one process; read it later")


def read_frames(path: Path, frames: slice | list[int]) -> dict[str, np.ndarray]:
    """Read the images of some frames of the closed episode in `path`, and no others.

    Args:
        path: Its directory.
        frames: A range, of which frames beyond the end are left out, or the numbers of N frames.

    Returns:
        Camera name -> uint8, shape (N, H, W, 3).

    Raises:
        StoreError: If they cannot be read.
    """
    _, spec = read_header(path)
    try:
        group = zarr.open_group(LocalStore(path, read_only=True), mode="r", zarr_format=3, use_consolidated=False)
        return {c.name: np.asarray(group[IMAGE_PREFIX + c.name].oindex[frames]) for c in spec.cameras}  # type: ignore[union-attr, index]
    except DAMAGES as error:
        raise StoreError(f"frames of {path.name} are unreadable: {error!r}") from error


def complete_steps(group: zarr.Group) -> int:
    """Count the steps whose frame and action are on disk: those before the first missing source."""
    source = np.asarray(group["source"][:])  # type: ignore[index]
    missing = np.flatnonzero(source == NO_SOURCE)
    return int(missing[0]) if missing.size else len(source)
