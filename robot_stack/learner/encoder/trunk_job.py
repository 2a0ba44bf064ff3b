"""One fit of a run's image encoder as a value: what it needs, how it is done, and doing it in a process of its own.

    python -m robot_stack.learner.encoder.trunk_job < JOB > ANSWER

A job is JSON; it names the episodes, and the process reads them itself.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path

from policies.encoders.config import EmbeddedConfig
from robot_stack.learner import elsewhere, fitting
from robot_stack.replay.stored_episode import read_episode
from robot_stack.types.spec import Spec

OWN = "robot_stack.learner.encoder.trunk_job"
ONLINE = "online_episodes"
"""Key of the file's metadata: how many episodes of online training had ended before the fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrunkJob:
    """Everything that a fit depends on.

    Attributes:
        episodes: Paths of the recorded episodes to fit on, all of which succeeded.
        spec: Of the cell.
        settings: Of the fit.
        seed: Of its weights, batches and augmentation.
        online: Episodes of online training that had ended before.
        target: Where the encoder is written.
    """

    episodes: tuple[Path, ...]
    spec: Spec
    settings: EmbeddedConfig
    seed: int
    online: int
    target: Path

    def fit(self, on_step: fitting.OnStep = lambda step, steps, loss: None) -> str:
        """Fit an encoder and write it, durable on return; returns its identity.

        Raises:
            StoreError: If an episode cannot be read, or the disk refuses.
        """
        trunk = fitting.fit_trunk(
            self.target,
            [read_episode(path) for path in self.episodes],
            self.spec,
            "embedded",
            self.settings,
            seed=self.seed,
            on_step=on_step,
            about={ONLINE: str(self.online)},
        )
        return trunk.identity

    def to_bytes(self) -> bytes:
        """Write the job as JSON."""
        told = {
            "episodes": [str(path) for path in self.episodes],
            "spec": self.spec.to_json(),
            "settings": self.settings.model_dump(mode="json"),
            "seed": self.seed,
            "online": self.online,
            "target": str(self.target),
        }
        return json.dumps(told).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> TrunkJob:
        """Read a job that `to_bytes` wrote."""
        told = json.loads(content)
        return cls(
            episodes=tuple(map(Path, told["episodes"])),
            spec=Spec.from_json(told["spec"]),
            settings=EmbeddedConfig.model_validate_json(json.dumps(told["settings"])),
            seed=told["seed"],
            online=told["online"],
            target=Path(told["target"]),
        )


def fit_elsewhere(job: TrunkJob, stopping: threading.Event) -> None:
    """Do a fit in a process of its own, and wait for it.

    Raises:
        Stopped, FitError, StoreError: See `elsewhere.fit_elsewhere`.
    """
    elsewhere.fit_elsewhere(OWN, job.to_bytes(), stopping, of="image encoder")


if __name__ == "__main__":
    elsewhere.answer(lambda content: TrunkJob.from_bytes(content).fit())
