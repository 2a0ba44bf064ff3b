"""The model of a run's `asking` section: when the policy asks an operator for help."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.section import Section

SignalName = Literal["stall", "distance", "samples", "critics"]
"""Values of `HelpKind`."""


class AskingConfig(Section):
    """The settings by which a policy asks for help in online training."""

    signals: Annotated[tuple[SignalName, ...], Field(min_length=1)] = ("stall", "distance", "samples")
    """What it goes by, `stall` among them; `critics` needs an algorithm whose critics can be sent to the actor."""
    missed: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Wanted share of the moments at which help was needed that no request came before."""
    needless: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Largest share of the episodes that end well alone in which a request is put up with; goes before `missed`."""
    least_evidence: Annotated[int, Field(ge=2, le=1000)] = 8
    """Moments of either kind, needed and not, before which it asks by the stall alone."""
    memory: Annotated[int, Field(ge=10, le=10_000)] = 100
    """Newest moments of either kind that are remembered: the policy changes, and old ones say little of it."""
    stall_s: Annotated[float, Field(gt=0, le=600)] = 1.5
    """Before there is evidence it asks after this long without progress."""
    stall_rise: Annotated[float, Field(gt=0, lt=1)] = 0.02
    """A rise of Φ above its best that counts as progress."""
    sustain_s: Annotated[float, Field(ge=0, le=10)] = 0.3
    """It asks once it would have asked for so long without a break."""
    calm_s: Annotated[float, Field(gt=0, le=60)] = 1.0
    """A request is withdrawn once it would not have been made for so long."""
    pause_s: Annotated[float, Field(ge=0, le=600)] = 2.0
    """After an answer it does not ask again for so long."""
    hold: bool = False
    """Whether the policy keeps the arm still from the request on, until somebody takes over or dismisses it."""
    hold_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    """It does so for no longer than this, then goes on; the episode's time goes on meanwhile."""
    base_after_s: Annotated[float, Field(gt=0, le=600)] | None = None
    """A request that nobody has answered for so long hands the arm to the run's base policy; null never does.

    Time counts while the policy has the arm, not while the safety filter holds it.
    """

    @field_validator("base_after_s")
    @classmethod
    def _after_the_hold(cls, base_after_s: float | None, info: ValidationInfo) -> float | None:
        hold, hold_s = info.data.get("hold"), info.data.get("hold_s")
        if base_after_s is not None and hold and hold_s is not None and base_after_s < hold_s:
            raise ValueError(
                f"base_after_s is {base_after_s:g}, must be at least hold_s ({hold_s:g}) with hold: until then the "
                "arm is kept still for whoever comes; raise it"
            )
        return base_after_s

    @field_validator("signals")
    @classmethod
    def _each_once_and_stall(cls, signals: tuple[SignalName, ...]) -> tuple[SignalName, ...]:
        if len(set(signals)) < len(signals):
            raise ValueError(f"signals are {', '.join(signals)}, must be named once each; remove the repetition")
        if "stall" not in signals:
            raise ValueError("signals have no 'stall', must have it: nothing else can ask before there is evidence")
        return signals
