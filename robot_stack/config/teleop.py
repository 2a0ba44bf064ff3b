"""teleop/*.yaml: the device in the person's hand, or the person that the simulator scripts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.section import Section


class TeleopScale(Section):
    """Share of the highest speed that a full deflection asks for."""

    linear: Annotated[float, Field(gt=0, le=1)]
    """Translation."""
    angular: Annotated[float, Field(gt=0, le=1)]
    """Rotation."""


class OperatorConfig(Section):
    """The scripted person; field for field what the simulator's operator takes."""

    reaction_s: Annotated[float, Field(ge=0, le=5)] = 0.3
    """Delay between what happens and what the person sees."""
    position_noise_m: Annotated[float, Field(ge=0, le=0.05)] = 0.0008
    """Standard deviation of how the goal is misjudged."""
    yaw_noise_rad: Annotated[float, Field(ge=0, le=0.5)] = 0.02
    """The same for yaw."""
    far_position_noise_m: Annotated[float, Field(ge=0, le=0.05)] = 0.004
    """What is added to it from far away, until the tool is near the aim."""
    far_yaw_noise_rad: Annotated[float, Field(ge=0, le=0.5)] = 0.12
    """The same for yaw."""
    attention: Annotated[float, Field(gt=0, le=1)] = 0.9
    """Probability per second of looking at the cell; 1 looks always."""
    speed: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of full deflection that is used."""
    tremor: Annotated[float, Field(ge=0, le=0.5)] = 0.05
    """Standard deviation of the hand's noise, in deflection."""
    stuck_s: Annotated[float, Field(gt=0, le=60)] = 1.5
    """Without progress for this long, the person steps in."""
    patience_s: Annotated[float, Field(gt=0, le=600)] = 4.4
    """This late in an episode the person steps in, unless the tip is going in."""
    off_course_m: Annotated[float, Field(gt=0, le=1)] = 0.025
    """Further than this from its best distance to the goal, the person steps in."""
    force_limit_n: Annotated[float, Field(gt=0, le=100)] = 18.0
    """Pushing harder than this, the person steps in."""
    verdict_s: Annotated[float, Field(gt=0, le=10)] = 0.6
    """The task must look finished for this long before the person says so."""


class TeleopConfig(Section):
    """A teleop device."""

    device: Literal["scripted", "keyboard", "gamepad", "spacemouse"]
    """Kind of device."""
    rate_hz: Annotated[float, Field(ge=10, le=500)]
    """How often it is read."""
    deadzone: Annotated[float, Field(ge=0, lt=1)]
    """Deflection below this is none."""
    scale: TeleopScale
    """Sensitivity."""
    release_s: Annotated[float, Field(ge=0, le=2)] = 0.3
    """From letting go to the policy's return."""
    blend_s: Annotated[float, Field(ge=0, le=2)] = 0.2
    """Length of the ramp at a handover."""
    operator: OperatorConfig | None = None
    """The scripted person; only with device: scripted."""

    @field_validator("operator")
    @classmethod
    def _only_scripted(cls, operator: OperatorConfig | None, info: ValidationInfo) -> OperatorConfig | None:
        device = info.data.get("device")
        if device is not None and (device == "scripted") != (operator is not None):
            have = "absent" if operator is None else "given"
            raise ValueError(
                f"operator is {have} with device '{device}', must be given with 'scripted' and only there; "
                f"{'add' if operator is None else 'remove'} it"
            )
        return operator
