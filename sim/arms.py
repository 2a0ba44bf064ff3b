"""The arms a scene can be built around. Another arm is another entry and its MJCF file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mujoco

from robot_stack.types.errors import SpecError

MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmModel:
    """An arm with its hand.

    Attributes:
        arm_file: MJCF of the arm, with torque motors named like the joints and a site to mount the hand on.
        hand_file: MJCF of the gripper, with sites `tcp` and `wrench`, camera `wrist`, and actuator `gripper`.
        flange_site: Mount site in the arm file.
        joints: Joint names from base to flange.
        home_rad: A pose with the TCP pointing down in front of the base.
        gripper_open_m: Finger joint position when open.
    """

    arm_file: str
    hand_file: str
    flange_site: str
    joints: tuple[str, ...]
    home_rad: tuple[float, ...]
    gripper_open_m: float

    def attach_to(self, spec: mujoco.MjSpec) -> None:
        """Put the arm at the world's origin and the hand on its flange."""
        arm = mujoco.MjSpec.from_file(str(MODELS / self.arm_file))
        hand = mujoco.MjSpec.from_file(str(MODELS / self.hand_file))
        spec.attach(arm, frame=spec.worldbody.add_frame(), prefix="arm/")
        spec.attach(hand, site=spec.site(f"arm/{self.flange_site}"), prefix="hand/")


ARMS = {
    "fr3": ArmModel(
        arm_file="fr3.xml",
        hand_file="hand.xml",
        flange_site="flange",
        joints=tuple(f"joint{i}" for i in range(1, 8)),
        home_rad=(0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785),
        gripper_open_m=0.04,
    ),
}


def find_arm(name: str) -> ArmModel:
    """The arm of that name.

    Raises:
        SpecError: If there is none.
    """
    if name not in ARMS:
        raise SpecError(f"sim arm is {name!r}, must be one of {sorted(ARMS)}")
    return ARMS[name]
