"""The account of one episode's requests: who answered them, whether they were needed, and what attention they took."""

from __future__ import annotations

from dataclasses import dataclass, field

from robot_stack.types.help import HelpEnd, HelpKind


@dataclass(slots=True, kw_only=True)
class AskedHelp:
    """A request that was made.

    Attributes:
        kind, text: Its reason.
        calibrated: Whether evidence decided on it, or the stall alone.
        hold: Whether the policy kept the arm still.
        asked_s: When, in seconds of the episode.
        open_s: For how long it was open.
        end: How it ended.
        needed: Whether help was needed; None if nothing tells.
        base_s: For how long the base policy led the arm, as nobody answered.
    """

    kind: HelpKind
    text: str
    calibrated: bool
    hold: bool
    asked_s: float
    open_s: float = 0.0
    end: HelpEnd = HelpEnd.OVER
    needed: bool | None = None
    base_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class HelpAccount:
    """The account of an episode.

    Attributes:
        requests: In their order.
        missed: Needs that no request came before.
        asked_s: Seconds in which a request was open and nobody had the arm.
        in_hand_s: Seconds in which an operator had it.
        evaluate_s: What asking took of each tick, after the action was sent.
    """

    requests: list[AskedHelp] = field(default_factory=list)
    missed: int = 0
    asked_s: float = 0.0
    in_hand_s: float = 0.0
    evaluate_s: list[float] = field(default_factory=list)
