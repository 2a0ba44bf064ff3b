"""The arms a scene can be built around. Another arm is another entry and its MJCF file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mujoco

from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose

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

    def attach_to(self, spec: mujoco.MjSpec, prefix: str, T_cell_base: Pose) -> None:
        """Put the arm where it stands and the hand on its flange; their names begin with `prefix`arm/ and hand/."""
        arm = mujoco.MjSpec.from_file(str(MODELS / self.arm_file))
        hand = mujoco.MjSpec.from_file(str(MODELS / self.hand_file))
        x, y, z, w = T_cell_base.quaternion_xyzw
        base = spec.worldbody.add_frame(pos=T_cell_base.position_m, quat=[w, x, y, z])
        spec.attach(arm, frame=base, prefix=f"{prefix}arm/")
        spec.attach(hand, site=spec.site(f"{prefix}arm/{self.flange_site}"), prefix=f"{prefix}hand/")


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
