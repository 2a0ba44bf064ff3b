"""Where everything of a run lies in its folder."""

from __future__ import annotations

from pathlib import Path

from robot_stack.replay.layout import StorePaths

DEPLOYED = "deployed"
"""Actor id of the episodes of a deployed policy, and their folder inside the run's."""


class RunPaths:
    """The paths of a run's files and folders; none of them need exist.

    Args:
        folder: Of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.resolved = folder / "run.yaml"
        """The run as configured, with every default."""
        self.domain = folder / "domain"
        """Number of the DDS domain."""
        self.log = folder / "log"
        """A log per process."""
        self.store = StorePaths(folder / "store")
        """The recorded episodes."""
        self.deployed = folder / DEPLOYED
        """What its deployed policy recorded, a folder like that of a run."""
        self.metrics = folder / "metrics.jsonl"
        """What the learner logs, see `rows`."""
        self.actor = folder / "actor"
        """What actors log and keep: `<actor>.jsonl`, the spool, counters."""
        self.console = folder / "console"
        """What operators said at the page."""
        self.scene = folder / "scene.url"
        """Address of the view in three dimensions, while it is served."""
        self.commands = folder / "commands"
        """What reached the robot, a folder per arm."""
        self.checkpoints = folder / "checkpoints"
        """The learner's checkpoints."""
        self.start = folder / "start_from.pt"
        """What the run began with, if it started from an earlier one."""
        self.features = folder / "features"
        """Encoded frames of episodes."""
        self.trunk = folder / "trunk.safetensors"
        """The fitted image encoder."""
        self.first_trunk = folder / "first_trunk.safetensors"
        """The encoder that was fitted on the demonstrations, where another has taken its place."""
        self.next_trunk = folder / "next_trunk.safetensors"
        """The encoder that was fitted again and is not in use yet."""
        self.adopted = folder / "adopted.json"
        """A note of the encoder that was fitted again and is in use."""
        self.reward_trunk = folder / "reward_trunk.safetensors"
        """The reward model's own encoder, if it has one."""
        self.address = folder / "learner.address"
        """Where the learner listens, host:port."""
        self.summary = folder / "summary.json"
        """Figures of the run."""
        self.report = folder / "report.html"
        """The report's page."""
        self.plots = folder / "plots"
        """Pictures of the report."""
        self.memory = folder / "memory.json"
        """Peak memory of all processes, in MB."""
        self.phases = folder / "phases.json"
        """Seconds of wall time per phase."""
        self.stage = folder / "stage.json"
        """What the run does once its cell has stopped, and how it ended, see `Stage`."""
        self.beginning = folder / "beginning.json"
        """The command that goes on with the run, see `Beginning`."""

    def lock(self, part: str) -> Path:
        """Return the file that is locked while a part of the run is going on, see `holding`."""
        return self.folder / f"{part}.lock"

    def policy(self, name: str) -> Path:
        """Return the file of a policy's parameters: `policy`, `best`, `bc`, or what else was kept."""
        return self.folder / f"{name}.safetensors"

    def evaluation(self, name: str) -> Path:
        """Return the file of the evaluation of a policy."""
        return self.folder / f"eval_{name}.json"

    def robustness(self, name: str) -> Path:
        """Return the file of the table of a policy's robustness."""
        return self.folder / f"robustness_{name}.json"

    def rewards(self) -> list[Path]:
        """Return the files of all reward models that are there."""
        return sorted(self.folder.glob(self.reward("*").name))

    def reward(self, version: str) -> Path:
        """Return the file of a reward model."""
        return self.folder / f"progress_{version}.safetensors"
