"""What pages play of an episode beside its images: numbers over time, who was in control, and scores, as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from robot_stack.datasets.store_view import StoreView
from robot_stack.replay.episode_writer import chunk_rows
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.command import Source
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.spec import AXES, OPENING, GripperKind, Spec

POSE = ("x", "y", "z", "rx", "ry", "rz")
ENTRIES = {
    "tcp_pose": POSE,
    "tcp_twist": tuple(f"v{axis}" for axis in AXES),
    "wrench": ("Fx", "Fy", "Fz", "Tx", "Ty", "Tz"),
}
"""Proprio field -> what its entries are called; those of others are numbered."""
NORMS = {"tcp_twist": ("speed", "m/s"), "wrench": ("force", "N")}
"""Proprio field -> what the length of its first three entries is, and its unit."""


OUTLINED = ("stamp_ns", "sources", "clipped")
"""Columns of an episode that its outline needs, beside the sources."""


def played(view: StoreView, episode: StoredEpisode, scores: Sequence[EpisodeScores]) -> dict[str, Any]:
    """Return what a closed episode holds but for its images, as it is sent to the episode browser.

    Args:
        view: The folder that it is in.
        episode: Read without images.
        scores: Of it, the newest model last.

    Returns:
        JSON; times are seconds since the first frame, numbers that are not finite are null.
    """
    header, spec, arrays = episode.header, episode.spec, episode.arrays
    return {
        **_common(episode, scores),
        "task": header.task_id,
        "text": view.text_of(header),
        "actor": header.actor,
        "started": header.started_unix_s,
        "seed": header.seed,
        "level": header.level,
        "reset": header.reset.value,
        "actions": action_groups(spec),
        "executed": [_plain(row) for row in arrays["executed"].T],
        "proposed": [_plain(row) for row in arrays["proposed"].T] if arrays["proposed"].any() else None,
        "params": [int(arrays["params_version"].min(initial=0)), int(arrays["params_version"].max(initial=0))],
        "signals": list(_signals(spec, arrays["proprio"])),
    }


def outlined(view: StoreView, episode: StoredEpisode, scores: Sequence[EpisodeScores]) -> dict[str, Any]:
    """Return the outline of a closed episode, as it is sent to the operator's page beside a robot that runs.

    That is who was in control, progress by the newest model, and where stages begin: no actions, no measured state.

    Args:
        view: The folder that it is in.
        episode: Read with `OUTLINED` at least.
        scores: Of it, the newest model last.
    """
    marks = view.marks_of(episode.header.episode_id)
    stages = [{"stage": mark.stage, "frame": mark.frame, "name": mark.name} for mark in marks]
    return {**_common(episode, scores[-1:]), "actions": [], "signals": [], "stages": stages}


def _common(episode: StoredEpisode, scores: Sequence[EpisodeScores]) -> dict[str, Any]:
    """Return what every player needs of an episode."""
    header, spec, arrays = episode.header, episode.spec, episode.arrays
    stamps = arrays["stamp_ns"]
    return {
        "id": header.episode_id,
        "kind": header.kind.value,
        "end": episode.end.value if episode.end else "",
        "cameras": [{"name": c.name, "width": c.width_px, "height": c.height_px} for c in spec.cameras],
        "range": chunk_rows(spec),
        "t": _plain((stamps - stamps[0]) * 1e-9, 4),
        "source": _names(arrays["source"]),
        "arms": [
            {"name": arm.name, "source": _names(arrays["sources"][:, number])} for number, arm in enumerate(spec.arms)
        ]
        if "sources" in arrays
        else [],
        "clipped": np.flatnonzero(arrays["clipped"]).tolist(),
        "scores": [
            {"version": one.version, "progress": _plain(one.progress), "success": _plain(one.success)}
            for one in reversed(scores)
        ],
    }


def action_groups(spec: Spec) -> list[dict[str, Any]]:
    """Return which entries of an action are drawn together: translation, rotation and gripper of each arm."""
    groups, offset = [], 0
    for arm in spec.arms:
        prefix = f"{arm.name} " if len(spec.arms) > 1 else ""
        for name, turning in (("translation", False), ("rotation", True)):
            entries = [i for i, axis in enumerate(arm.axes) if axis.startswith("r") == turning]
            if entries:
                groups.append(
                    {
                        "name": prefix + name,
                        "labels": [arm.axes[i] for i in entries],
                        "entries": [offset + i for i in entries],
                    }
                )
        if arm.gripper is not GripperKind.NONE:
            groups.append({"name": prefix + "gripper", "labels": ["gripper"], "entries": [offset + len(arm.axes)]})
        offset += arm.size
    return groups


def _signals(spec: Spec, proprio: np.ndarray) -> Iterable[dict[str, Any]]:
    """Yield what is drawn of the measured state: opening, speed and force first, then every field as recorded."""
    fields, first = {}, 0
    for field in spec.proprio:
        fields[field.name] = proprio[:, first : first + field.size]
        first += field.size
    for name, values in fields.items():
        arm, _, base = name.rpartition(".")
        prefix = f"{arm} " if arm else ""
        if base == OPENING:
            yield _signal(prefix + "gripper opening", "", ["opening"], values, first=True)
        elif base in NORMS:
            what, unit = NORMS[base]
            yield _signal(prefix + what, unit, [what], np.linalg.norm(values[:, :3], axis=1)[:, None], first=True)
    for name, values in fields.items():
        labels = ENTRIES.get(name.rpartition(".")[2], tuple(str(i) for i in range(values.shape[1])))
        yield _signal(name, "", labels, values, first=False)


def _signal(name: str, unit: str, labels: Sequence[str], values: np.ndarray, *, first: bool) -> dict[str, Any]:
    rows = [_plain(row) for row in values.T]
    return {"name": name, "unit": unit, "labels": list(labels), "values": rows, "first": first}


def _names(source: np.ndarray) -> list[str]:
    return [Source(int(each)).name.lower() for each in source]


def _plain(values: np.ndarray, digits: int = 4) -> list[float | None]:
    rounded = np.round(values.astype(np.float64), digits)
    return [float(each) if np.isfinite(each) else None for each in rounded]
