"""Export of episodes as Rerun recordings, one .rrd file each: images, numbers and who moved, on one time line.

| entity | type | carries |
| --- | --- | --- |
| /about | TextDocument | header, end, labels, note |
| /camera/<name> | EncodedImage | PNG, every pixel as the policy saw it |
| /proprio/<field> | Scalars | SI units |
| /action/executed, /action/proposed, /action/human | Scalars | [-1, 1], one line per axis |
| /progress, /success | Scalars | in [0, 1], one line per version of the reward model; NaN where not valid |
| /control/<arm> | StateChange | whose the motion is: policy, human, hold, idle |
| /timing | Scalars | age_s and skew_s of the frame |

Time lines: `step`, and `time` since the first frame by the stamps of the control ticks.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.datasets.declared import check_scores
from robot_stack.datasets.draft import new_folder
from robot_stack.datasets.extras import need
from robot_stack.datasets.new_store import Progress
from robot_stack.datasets.store_view import StoreView
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.sensing.pixels import png_of
from robot_stack.types.command import Source
from robot_stack.types.reward import EpisodeScores

SUFFIX = ".rrd"
Lines = tuple[str, list[str], np.ndarray]
"""Entity, a name per line, values (rows, lines)."""


def export_rerun(view: StoreView, episode_ids: Sequence[str], out: Path, *, on_episode: Progress) -> int:
    """Write `out/<episode>.rrd` for each episode; return the number of bytes of all of them.

    Raises:
        StoreError: If an episode or rerun-sdk is missing, or the disk refuses.
    """
    view.check_there(episode_ids)
    rr = need("rerun", "rerun-sdk", "rerun")
    check_scores(view.paths.scores)
    files = ScoreFiles(view.paths.scores)
    scores = [one for version in files.versions for one in files.read(version)]
    with new_folder(out) as draft:
        for number, episode_id in enumerate(episode_ids):
            on_episode("exported", number + 1, len(episode_ids))
            ours = [one for one in scores if one.episode_id == episode_id]
            (draft / (episode_id + SUFFIX)).write_bytes(_recording(rr, view, episode_id, ours))
        return sum(path.stat().st_size for path in draft.glob("*" + SUFFIX))


def _recording(rr: Any, view: StoreView, episode_id: str, scores: Sequence[EpisodeScores]) -> bytes:
    """Return the recording of an episode as bytes.

    It is made in memory: Rerun's own writer may wait for ever for a disk that is full.
    """
    recording = rr.RecordingStream("robot-stack", recording_id=f"{view.task}/{episode_id}")
    memory = recording.memory_recording()
    recording.send_blueprint(_blueprint(view))
    recording.send_recording_name(episode_id)
    episode = view.read(episode_id)
    _images(rr, recording, episode)
    for entity, names, values in _lines(episode, scores):
        recording.log(entity, rr.SeriesLines(names=names), static=True)
        columns = rr.Scalars.columns(scalars=values.ravel()).partition([len(names)] * len(values))
        recording.send_columns(entity, _times(rr, episode, len(values)), columns)
    for arm, sources in _who(episode).items():
        state = rr.StateChange.columns(state=[Source(int(each)).name.lower() for each in sources])
        recording.send_columns(f"control/{arm}", _times(rr, episode, len(sources)), state)
    recording.log("about", rr.TextDocument(_about(view, episode), media_type="text/markdown"), static=True)
    content: bytes = memory.drain_as_bytes()
    return content


def _times(rr: Any, episode: StoredEpisode, rows: int) -> list[Any]:
    """Return both time lines of the first `rows` ticks."""
    since = episode.arrays["stamp_ns"][:rows] - episode.arrays["stamp_ns"][0]
    durations = since.astype("timedelta64[ns]")
    return [rr.TimeColumn("step", sequence=range(rows)), rr.TimeColumn("time", duration=durations)]


def _images(rr: Any, recording: Any, episode: StoredEpisode) -> None:
    for camera in episode.spec.cameras:
        frames = episode.arrays[IMAGE_PREFIX + camera.name]
        blobs = [png_of(frame) for frame in frames]
        columns = rr.EncodedImage.columns(blob=blobs, media_type=["image/png"] * len(blobs))
        recording.send_columns(f"camera/{camera.name}", _times(rr, episode, len(blobs)), columns)


def _lines(episode: StoredEpisode, scores: Sequence[EpisodeScores]) -> Iterator[Lines]:
    arrays, spec = episode.arrays, episode.spec
    first = 0
    for field in spec.proprio:
        names = [str(i) for i in range(field.size)]
        yield f"proprio/{field.name}", names, arrays["proprio"][:, first : first + field.size]
        first += field.size
    for name in ("executed", "proposed", "human"):
        yield f"action/{name}", spec.action_names, arrays[name]
    yield "timing", ["age_s", "skew_s"], np.stack([arrays["age_s"], arrays["skew_s"]], axis=1)
    if scores:
        versions = [one.version for one in scores]
        yield "progress", versions, np.stack([one.progress for one in scores], axis=1)
        yield "success", versions, np.stack([one.success for one in scores], axis=1)


def _who(episode: StoredEpisode) -> dict[str, np.ndarray]:
    if "sources" in episode.arrays:
        return {arm.name: episode.arrays["sources"][:, i] for i, arm in enumerate(episode.spec.arms)}
    return {episode.spec.arms[0].name: episode.arrays["source"]}


def _about(view: StoreView, episode: StoredEpisode) -> str:
    episode_id = episode.header.episode_id
    said = [json.dumps(asdict(label), sort_keys=True) for label in view.labels_of(episode_id)]
    end = episode.end.value if episode.end else "none"
    lines = [
        f"# {episode_id}",
        f"Task: {view.text_of(episode.header)}",
        f"End: {end}",
        "Stages: "
        + (", ".join(f"{m.name or m.stage} from frame {m.frame}" for m in view.marks_of(episode_id)) or "none"),
        f"Note: {view.note_of(episode_id) or 'none'}",
    ]
    return "\n\n".join(
        [*lines, f"Header: `{json.dumps(asdict(episode.header))}`", *(f"Label: `{each}`" for each in said)]
    )


def _blueprint(view: StoreView) -> Any:
    """Lay out the viewer: cameras above; progress, what was done and by whom below."""
    views = need("rerun.blueprint", "rerun-sdk", "rerun")
    cameras = [views.Spatial2DView(origin=f"camera/{camera.name}", name=camera.name) for camera in view.spec.cameras]
    below = [
        views.TimeSeriesView(origin="/", contents=["progress", "success"], name="progress and success"),
        views.TimeSeriesView(origin="action/executed", name="executed"),
        views.StateTimelineView(origin="control", name="who moves"),
    ]
    above = views.Horizontal(*cameras, views.TextDocumentView(origin="about", name="about"))
    return views.Blueprint(views.Vertical(above, *below, row_shares=[3, 2, 2, 1]), collapse_panels=True)
