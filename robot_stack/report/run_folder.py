"""Record of a run, read from its folder for a report. Read only; what is missing or torn is named, never a crash."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.replay.stored_episode import StoredEpisode, read_episode
from robot_stack.runs.metrics import read_metrics
from robot_stack.types.errors import ConfigError, StoreError
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import ResetType

Row = dict[str, Any]
METRICS = "metrics.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Everything of a run that a report is made from.

    Attributes:
        folder: Where it lies; its name is the run's.
        resolved: The run as configured, or None.
        rows: Of the learner, in the order of writing.
        actor_rows: Of all actors.
        policy: Evaluation of the policy, or None.
        bc: Evaluation of behaviour cloning on the same demonstrations, or None.
        memory: {"peak_mb": ...}, or None.
        phases: Phase -> seconds of wall time, or None.
        problems: What could not be read, in words.
    """

    folder: Path
    resolved: ResolvedRun | None
    rows: list[Row]
    actor_rows: list[Row]
    policy: Row | None
    bc: Row | None
    memory: Row | None
    phases: Row | None
    problems: tuple[str, ...] = ()

    def of_kind(self, kind: str) -> list[Row]:
        """Return the learner's rows of one kind."""
        return [row for row in self.rows if row.get("kind") == kind]

    def episodes(self, kind: str) -> list[Row]:
        """Return one row per finished episode of a kind, in order.

        A resumed learner writes a row again; the last counts.

        Verdicts that arrived after the row was written are taken from the labels.
        """
        newest = {row["episode_id"]: row for row in self.of_kind("episode") if row.get("episode_kind") == kind}
        said = self._verdicts()
        return [newest[name] | said.get(name, {}) for name in sorted(newest)]

    def controls(self, kind: str) -> list[Row]:
        """Return the actors' rows about the ticks of episodes of a kind."""
        return [row for row in self.actor_rows if row.get("kind") == "control" and row.get("episode_kind") == kind]

    def updates(self) -> list[Row]:
        """Return one row per logged update count, rising.

        What a killed learner did after its checkpoint is done again, and the last row counts.
        """
        newest = {row["updates"]: row for row in self.of_kind("update")}
        return [newest[count] for count in sorted(newest)]

    def stored(self, episode_id: str, *, images: bool = True) -> StoredEpisode | None:
        """Return frames and motions of an episode, or None if it is not in the store.

        Without `images` no pixel is decoded.
        """
        try:
            return read_episode(self.folder / "store" / "episodes" / f"{episode_id}.zarr", images=images)
        except StoreError:
            return None

    def scores(self) -> dict[str, EpisodeScores]:
        """Return for each episode its scores by the newest reward model that scored it."""
        files = ScoreFiles(self.folder / "store" / "scores")
        fitted = [str(row["version"]) for row in self.of_kind("reward_fit")]
        found: dict[str, EpisodeScores] = {}
        for version in sorted(files.versions, key=lambda name: fitted.index(name) if name in fitted else -1):
            found |= {scores.episode_id: scores for scores in files.read(version)}
        return found

    def _verdicts(self) -> dict[str, Row]:
        said: dict[str, Row] = {}
        for label in read_metrics(self.folder / "store" / "labels.jsonl"):
            column = {"truth": "truth", "model": "declared"}.get(str(label.get("source")))
            if column is not None and "episode_id" in label:
                said.setdefault(label["episode_id"], {})[column] = label.get("verdict") == "success"
        return said


def read_run(folder: Path) -> RunRecord:
    """Read what there is in the folder of a run.

    Raises:
        StoreError: If the folder does not exist.
    """
    if not folder.is_dir():
        raise StoreError(f"run folder is {folder}, must be an existing folder; see `robot-stack report --help`")
    problems: list[str] = []
    return RunRecord(
        folder=folder,
        resolved=_resolved(folder / "run.yaml", problems),
        rows=read_metrics(folder / METRICS),
        actor_rows=_actor_rows(folder),
        policy=_json(folder / "eval_policy.json", problems),
        bc=_json(folder / "eval_bc.json", problems),
        memory=_json(folder / "memory.json", problems),
        phases=_json(folder / "phases.json", problems),
        problems=tuple(problems),
    )


def goes_back(row: Row) -> bool:
    """Return whether an episode's row is of a way back."""
    return row.get("reset") == ResetType.BACK.value


def numbers(rows: list[Row], key: str) -> np.ndarray:
    """Return all finite values under `key`, a number or a list of them in each row, float64, shape (n,)."""
    values = [np.asarray(row[key], dtype=np.float64).ravel() for row in rows if row.get(key) is not None]
    joined = np.concatenate(values) if values else np.zeros(0)
    return joined[np.isfinite(joined)]


def _resolved(path: Path, problems: list[str]) -> ResolvedRun | None:
    try:
        return load_resolved(path)
    except (ConfigError, OSError) as error:
        problems.append(f"run.yaml: {str(error).splitlines()[0]}")
        return None


def _json(path: Path, problems: list[str]) -> Row | None:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        problems.append(f"{path.name} is unreadable: {error}")
        return None
    return content if isinstance(content, dict) else None


def _actor_rows(folder: Path) -> list[Row]:
    beside = [path for path in folder.glob("*.jsonl") if path.name != METRICS]
    rows = [row for path in sorted([*beside, *folder.glob("actor*/*.jsonl")]) for row in read_metrics(path)]
    return sorted(rows, key=lambda row: float(row.get("t") or 0.0))
