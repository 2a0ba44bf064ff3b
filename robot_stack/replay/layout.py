"""Where the parts of an episode store lie in its folder."""

from __future__ import annotations

from pathlib import Path

SUFFIX = ".zarr"


class StorePaths:
    """The paths of an episode store's parts; none of them need exist."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.identity = root / "store.json"
        """Which spec and task all episodes share."""
        self.id = root / "id"
        """A random name, by which a store that is made anew in the same place is another."""
        self.episodes = root / "episodes"
        """A folder per episode, see `episode`."""
        self.labels = root / "labels.jsonl"
        """Verdicts, one a line."""
        self.stages = root / "stages.jsonl"
        """Marks of where stages begin, one a line."""
        self.preferences = root / "preferences.jsonl"
        """Which of two moments got further, one answer a line."""
        self.preferences_lock = root / "preferences.lock"
        """Held by whoever appends one; the learner only reads them."""
        self.scores = root / "scores"
        """Scores by model version and episode, see `annotations.ScoreFiles`."""
        self.notes = root / "notes.jsonl"
        """What operators wrote about episodes."""
        self.relabels = root / "relabels.jsonl"
        """Verdicts that the episode browser keeps back while they can be undone."""
        self.origin = root / "origin.json"
        """What a store was made from, if it was made from others."""
        self.quarantine = root / "quarantine"
        """Broken episodes."""
        self.lock = root / "writer.lock"
        """Held by the one process that writes."""

    def episode(self, episode_id: str) -> Path:
        """Return the folder of an episode."""
        return self.episodes / (episode_id + SUFFIX)
