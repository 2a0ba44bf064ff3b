"""Publication of a learner's parameters to the actors, and what a learner hears of their episodes before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from policies.acting import actor_metadata, pack_tensors
from policies.encoders.trunk import Trunk
from policies.familiarity import Familiarity
from policies.learner import Learner, PublishesCritic, WatchesEpisodes
from robot_stack.learner.backend import ParamsBoard
from robot_stack.learner.settings import LearningSettings
from robot_stack.runs.statistics import EpisodeStatistics, awaited
from robot_stack.transport.bundle import SPEC_DIGEST, seal
from robot_stack.types.params import Params
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EpisodeKind

VERSIONS_PER_LIFE = 20_000
"""A learner of a run that has been driven numbers this far above what is known: actors hold versions that nothing on
disk has seen."""


class Publisher:
    """A publisher of a learner's parameters, which first tells the learner how the episodes since have ended.

    Args:
        learner: Whose parameters they are.
        spec: Of the cell.
        settings: Of the learning side.
        trunk: What the policy sees through.
        statistics: Of all episodes.
        board: Where actors find the parameters.
        familiarity: The demonstrations to compare features with, where the policy asks for help by that.
        with_critics: Whether the critics go along, where it asks by them.

    Attributes:
        version: Of the newest parameters.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        spec: Spec,
        settings: LearningSettings,
        trunk: Trunk,
        statistics: EpisodeStatistics,
        board: ParamsBoard,
        familiarity: Familiarity | None = None,
        with_critics: bool = False,
    ) -> None:
        self.version = 0
        self._learner = learner
        self._spec = spec
        self._settings = settings
        self._trunk = trunk
        self._statistics = statistics
        self._board = board
        self._familiar = {} if familiarity is None else familiarity.tensors()
        self._with_critics = with_critics
        self._told: list[str] = []
        self._untold: list[str] = []
        """Online episodes that have ended, in the order in which they were seen to end."""

    def publish(self) -> None:
        """Publish the parameters to all actors; the learner first hears how the episodes since have ended."""
        self._tell(final=False)
        self.version += 1
        self._board.publish(self.seal())

    def finish(self) -> Params:
        """Return the last parameters: all verdicts are here, so the learner hears of every episode first."""
        self._tell(final=True)
        self.version += 1
        return self.seal()

    def seal(self) -> Params:
        """Seal the actor's parameters as they are now, under the newest version."""
        metadata = actor_metadata(
            self._trunk,
            algorithm=self._settings.algorithm,
            config=self._settings.config,
            trained=self._settings.trained_encoder,
        )
        return seal(
            version=self.version,
            tensors=pack_tensors(
                self._trunk,
                self._learner.actor_tensors(),
                self._learner.trunk_tensors(),
                critic=self._critic_tensors(),
                familiar=self._familiar,
            ),
            metadata={**metadata, SPEC_DIGEST: self._spec.digest},
        )

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of the publications."""
        return {"params_version": self.version, "told_episodes": self._told, "untold_episodes": self._untold}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what a checkpoint kept; versions go on far above it."""
        self.go_on_above(state["params_version"])
        self._told, self._untold = state["told_episodes"], state["untold_episodes"]

    def go_on_above(self, version: int) -> None:
        """Number the next parameters far above those that an earlier learner of this run had published.

        Args:
            version: The newest that is known of it.
        """
        self.version = max(version, self._driven_by()) + VERSIONS_PER_LIFE

    def go_on_without_checkpoint(self) -> None:
        """Number the next parameters far above those that drove a recorded episode; from 1 if none did."""
        if self._driven_by():
            self.go_on_above(0)

    def pass_over_ended(self) -> None:
        """Tell the learner of none of the episodes that have ended so far: another drove them."""
        self._told = [account.header.episode_id for account in self._statistics.ended(EpisodeKind.ONLINE)]

    def _driven_by(self) -> int:
        """Return the newest version by which an episode of this run was driven, 0 for none."""
        driven = (a for a in self._statistics.accounts if a.header.kind in (EpisodeKind.ONLINE, EpisodeKind.EVAL))
        return max((account.params_version for account in driven), default=0)

    def _critic_tensors(self) -> dict[str, np.ndarray]:
        if self._with_critics and isinstance(self._learner, PublishesCritic):
            return self._learner.critic_tensors()
        return {}

    def _tell(self, *, final: bool) -> None:
        """Tell a learner that watches episodes of each once, in the order in which they ended.

        Unless it is the last time, it is not told yet of those on which a verdict may still come, see `awaited`.
        """
        if not isinstance(self._learner, WatchesEpisodes):
            return
        online = (a for a in self._statistics.ended(EpisodeKind.ONLINE) if not a.header.goes_back)
        ended = {account.header.episode_id: account for account in online if not account.discarded}
        seen = dict.fromkeys((*self._untold, *ended))  # the statistics are in the order of their start
        told = set(self._told)
        untold = [name for name in seen if name in ended and name not in told]
        waiting = set() if final else awaited([ended[name] for name in untold])
        due = [name for name in untold if name not in waiting]
        for name in due:
            self._learner.episode_ended(success=ended[name].success, alone=ended[name].alone)
        self._told += due
        self._untold = [name for name in untold if name in waiting]
