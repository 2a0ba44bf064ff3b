"""Episodes that a reader can play in the report: frames, Φ, and who was in control, on one slider.

All frames of an episode are one JPEG, cut up by a script in the page: no codec, no request, every frame exact.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from html import escape
from importlib import resources

import numpy as np
from PIL import Image

from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.report.plots.progress import human_spans
from robot_stack.report.plots.style import BLUE, GREEN, ORANGE
from robot_stack.report.run_folder import RunRecord
from robot_stack.report.thumbnails import fit
from robot_stack.runs.rows import EpisodeRow
from robot_stack.types.command import Source
from robot_stack.types.reward import EpisodeScores

FRAMES = 160
"""Of an episode, at most; a longer one is shown every n-th frame."""
COLUMNS = 10
QUALITY = 80


def players(record: RunRecord, chosen: Sequence[tuple[str, EpisodeRow]]) -> str:
    """Return HTML of the chosen episodes with their titles, and the script that plays them.

    It is "" if no episode is on disk, or nothing was seen in them.
    """
    scores = record.scores
    seen = None if record.resolved is None else [IMAGE_PREFIX + name for name in record.resolved.cameras]
    parts = []
    for title, row in chosen:
        stored = record.stored(row.episode_id, only=seen)
        if stored is not None and stored.length and stored.spec.cameras:
            parts.append(_figure(title, row.episode_id, stored, scores.get(row.episode_id)))
    if not parts:
        return ""
    script = resources.files("robot_stack.report").joinpath("player.js").read_text(encoding="utf-8")
    return f"<div class=players>{''.join(parts)}</div><script>{script}</script>"


def _figure(title: str, episode_id: str, stored: StoredEpisode, scores: EpisodeScores | None) -> str:
    shown = range(0, stored.length + 1, -(-(stored.length + 1) // FRAMES))
    frames = np.concatenate([_of_camera(stored, camera.name, shown) for camera in stored.spec.cameras], axis=2)
    source = stored.arrays["source"]
    film = {
        "picture": f"data:image/jpeg;base64,{base64.b64encode(_sheet(frames)).decode()}",
        "columns": COLUMNS,
        "last": len(shown) - 1,
        "period_s": shown.step * stored.spec.period_s,
        "who": [Source(int(source[min(at, stored.length - 1)])).name.lower() for at in shown],
    }
    height, width = frames.shape[1:3]
    return (
        f"<figure class=play id='{escape(episode_id)}'><figcaption title='{escape(title)}'>"
        f"{escape(title)}</figcaption>"
        f"<canvas width={width} height={height} role=img aria-label='frames of {escape(episode_id)}'></canvas>"
        f"{_curves(stored, scores)}"
        f"<div><button aria-label=play>▶</button><input type=range min=0 max={len(shown) - 1} value=0 "
        f"aria-label='frame of {escape(episode_id)}'><output></output></div>"
        f"<script type='application/json'>{json.dumps(film)}</script></figure>"
    )


def _of_camera(stored: StoredEpisode, camera: str, shown: range) -> np.ndarray:
    return np.stack([fit(stored.arrays[IMAGE_PREFIX + camera][at]) for at in shown])


def _sheet(frames: np.ndarray) -> bytes:
    """Encode frames, shape (K, h, w, 3), row by row as one JPEG."""
    rows = -(-len(frames) // COLUMNS)
    height, width = frames.shape[1:3]
    sheet = np.zeros((rows, COLUMNS, height, width, 3), np.uint8)
    sheet.reshape(-1, height, width, 3)[: len(frames)] = frames
    content = io.BytesIO()
    flat = sheet.transpose(0, 2, 1, 3, 4).reshape(rows * height, COLUMNS * width, 3)
    Image.fromarray(flat).save(content, format="jpeg", quality=QUALITY)
    return content.getvalue()


def _curves(stored: StoredEpisode, scores: EpisodeScores | None) -> str:
    """Return an SVG of Φ and success probability over the frames, with the operator's spans behind them.

    Its coordinates run from 0 to 100 in width and height.
    """
    scale = 100 / stored.length
    parts = [
        f"<rect x={start * scale:.2f} width={(end - start) * scale:.2f} y=0 height=100 fill='{ORANGE}' opacity=.3 />"
        for start, end in human_spans(stored.arrays["source"])
    ]
    for values, look in (
        (scores.progress if scores else None, f"stroke='{BLUE}'"),
        (scores.success if scores else None, f"stroke='{GREEN}' stroke-dasharray='4 3'"),
    ):
        if values is not None:
            points = [f"{t * scale:.2f},{100 - 100 * v:.1f}" for t, v in enumerate(values) if np.isfinite(v)]
            parts.append(f"<polyline points='{' '.join(points)}' fill=none {look} stroke-width=1.5 />")
    label = "progress and success probability; shaded where an operator was in control"
    return (
        f"<svg viewBox='0 -2 100 104' preserveAspectRatio=none role=img aria-label='{label}'>{''.join(parts)}"
        "<line class=cursor y1=0 y2=100 stroke='currentColor' stroke-width=1 /></svg>"
    )
