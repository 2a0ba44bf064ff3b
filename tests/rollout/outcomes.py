"""What an episode came to, made up."""

from __future__ import annotations

from robot_stack.rollout.control_loop import EpisodeOutcome, TickRecord
from robot_stack.types.event import Verdict
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind


def outcome(
    end: EndReason = EndReason.TIMEOUT,
    operator: Verdict | None = None,
    *,
    truth: bool | None = None,
    kind: EpisodeKind = EpisodeKind.ONLINE,
) -> EpisodeOutcome:
    header = EpisodeHeader(episode_id="0", kind=kind, task="t", actor="a", started_unix_s=0.0)
    return EpisodeOutcome(
        header=header, end=end, steps=1, human_steps=0, base_steps=0, declared=False, refused=False, operator=operator,
        truth=truth, duration_s=0.1, ticks=TickRecord(),
    )  # fmt: skip
