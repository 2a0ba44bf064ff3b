"""Arms that a scene can be built around: a built-in one, or any other from its MJCF file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import mujoco

from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose

MODELS = Path(__file__).parent / "models"
FLANGE = "flange"
JOINT_DAMPING, JOINT_ARMATURE = 1.0, 0.1
"""Of a torque-driven joint, Nms/rad and kg m^2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """The changes that turn a published model of an arm into one that this controller drives.

    Attributes:
        body: Gets the hand.
        T_body_flange: Where on it; z points away.
        torques_nm: Largest of each joint.
    """

    body: str
    T_body_flange: Pose
    torques_nm: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmModel:
    """The model of an arm with its hand, from two MJCF files.

    Attributes:
        arm_file: MJCF of the arm. Without `twin` it has torque motors named like the joints and a site `flange`.
        hand_file: MJCF of the gripper, with sites `tcp` and `wrench`, camera `wrist`, and actuator `gripper`.
        joints: Joint names from base to flange.
        home_rad: A pose with the TCP pointing down in front of the base.
        gripper_open_m: Finger joint position when open.
        twin: For a model made by others.
    """

    arm_file: Path
    hand_file: Path
    joints: tuple[str, ...]
    home_rad: tuple[float, ...]
    gripper_open_m: float
    twin: Twin | None = None

    def attach_to(self, spec: mujoco.MjSpec, prefix: str, T_cell_base: Pose) -> None:
        """Attach the arm to the scene and the hand to its flange; their names begin with `prefix`arm/ and hand/.

        Raises:
            SpecError: If a twin's file cannot be used.
        """
        arm = mujoco.MjSpec.from_file(str(self.arm_file)) if self.twin is None else self._load_twin(self.twin)
        hand = mujoco.MjSpec.from_file(str(self.hand_file))
        x, y, z, w = T_cell_base.quaternion_xyzw
        base = spec.worldbody.add_frame(pos=T_cell_base.position_m, quat=[w, x, y, z])
        spec.attach(arm, frame=base, prefix=f"{prefix}arm/")
        spec.attach(hand, site=spec.site(f"{prefix}arm/{FLANGE}"), prefix=f"{prefix}hand/")

    def _load_twin(self, twin: Twin) -> mujoco.MjSpec:
        """Load a published model, with torque motors and their damping in place of its servos.

        Shapes, masses and joint ranges stay.
        """
        try:
            arm = mujoco.MjSpec.from_file(str(self.arm_file))
            arm.compile()  # meshes are read only here
        except ValueError as error:
            raise SpecError(
                f"twin {self.arm_file} cannot be loaded ({str(error).strip()}), must be an MJCF file with its meshes; "
                "fetch the model, or name its place with --set robot.twin.mjcf=FILE"
            ) from error
        joints = [joint.name for joint in arm.joints]
        if sorted(joints) != sorted(self.joints):
            raise SpecError(
                f"joints of twin {self.arm_file.name} are {joints}, must be {list(self.joints)}; take a model without "
                "a hand, and its names in the robot's file"
            )
        body = arm.body(twin.body)
        if body is None:
            bodies = [each.name for each in arm.bodies]
            raise SpecError(f"flange_body of twin {self.arm_file.name} is {twin.body!r}, must be one of {bodies}")
        for left_out in (*arm.actuators, *arm.keys, *arm.lights, *arm.cameras, *arm.sensors):
            arm.delete(left_out)
        for each in arm.bodies:
            each.gravcomp = 0.0  # the controller carries the weight
        for name, torque_nm in zip(self.joints, twin.torques_nm, strict=True):
            joint = arm.joint(name)
            joint.damping = [JOINT_DAMPING, 0.0, 0.0]  # its polynomial in the speed
            joint.frictionloss, joint.armature = 0.0, JOINT_ARMATURE
            motor = arm.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
            motor.set_to_motor()
            motor.ctrllimited, motor.ctrlrange = True, [-torque_nm, torque_nm]
        x, y, z, w = twin.T_body_flange.quaternion_xyzw
        if any(site.name == FLANGE for site in arm.sites):
            arm.delete(arm.site(FLANGE))
        body.add_site(name=FLANGE, pos=twin.T_body_flange.position_m, quat=[w, x, y, z])
        return arm


HAND, HAND_OPEN_M = MODELS / "hand.xml", 0.04
ARMS = {
    "fr3": ArmModel(
        arm_file=MODELS / "fr3.xml",
        hand_file=HAND,
        joints=tuple(f"joint{i}" for i in range(1, 8)),
        home_rad=(0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785),
        gripper_open_m=HAND_OPEN_M,
    ),
}


def find_arm(name: str) -> ArmModel:
    """Return the built-in arm of this name.

    Raises:
        SpecError: If there is none.
    """
    if name not in ARMS:
        raise SpecError(f"sim arm is {name!r}, must be one of {sorted(ARMS)}, or have a `twin`")
    return ARMS[name]
