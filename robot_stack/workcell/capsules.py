"""`python -m robot_stack.workcell.capsules ROBOT --urdf FILE | --mjcf FILE`: prints the `collision` of a robot file.

Each shape of the model gets a capsule, in the frames of the robot file's kinematics. Look at them before they are
used: rounding makes small parts larger, and what a gripper holds is in no model. For use at a desk, never beside a
robot: MuJoCo is loaded for an MJCF.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import robot_stack.config.drivers  # noqa: F401 (its kinds belong to RobotConfig)
from robot_stack.config.collision import CollisionConfig
from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.config.robot import RobotConfig
from robot_stack.config.shapes.capsules import Hull
from robot_stack.control.kinematics.body import ArmBody, Capsule
from robot_stack.control.kinematics.chain import Chain
from robot_stack.control.kinematics.posed_arm import PosedArm
from robot_stack.control.kinematics.urdf_capsules import capsules_of_urdf
from robot_stack.types.errors import ConfigError, StackError
from robot_stack.workcell.build_arm import build_chain, joint_names
from robot_stack.workcell.build_safety import body_of

SAME_M = 0.002
"""Two models of one arm may differ by this."""
TRIES = 400
ALWAYS = 0.95
"""Pairs that are nearer than the margin in this share of all poses are at one joint in truth."""

Placed = list[tuple[str, int, Hull]]


def in_links(chain: Chain, angles: np.ndarray, placed: Placed) -> list[Capsule]:
    """Express capsules in the frames of the links that they are on.

    Args:
        chain: Kinematics of the robot file.
        angles: At which they were placed in the base frame, shape (J,).
        placed: Name, link and capsule of each.
    """
    frames = np.concatenate([np.eye(4)[None], chain.frames(angles)])
    capsules = []
    for name, link, hull in placed:
        local = hull.moved(np.linalg.inv(frames[link]))
        ends = (tuple(round(float(x), 4) for x in end) for end in (local.start_m, local.end_m))
        capsules.append(
            Capsule(name=name, link=link, from_m=next(ends), to_m=next(ends), radius_m=round(local.radius_m + 5e-4, 3))  # type: ignore[arg-type]
        )
    return capsules


def always_near(body: ArmBody, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Find the pairs of an arm's own parts that are nearer than the margin wherever the joints are."""
    posed, pairs = PosedArm("", body), body.self_pairs
    near = np.zeros(len(pairs))
    for _ in range(TRIES):
        posed.place(rng.uniform(low, high))
        near += posed.own_distances_m() < body.margin_m
    names = [capsule.name for capsule in body.capsules]
    return [(names[a], names[b]) for (a, b), count in zip(pairs, near) if count >= ALWAYS * TRIES]


def as_yaml(capsules: Sequence[Capsule], unwatched: Sequence[tuple[str, str]], margin_m: float) -> str:
    """Write capsules as the `collision` section of a robot file."""
    lines = ["collision:", f"  margin_m: {margin_m}", "  capsules:"]
    for each in capsules:
        ends = f"from_m: {list(each.from_m)}, to_m: {list(each.to_m)}"
        lines.append(f"    - {{name: {each.name}, link: {each.link}, {ends}, radius_m: {each.radius_m}}}")
    if unwatched:
        lines.append(f"  unwatched: [{', '.join(f'[{a}, {b}]' for a, b in unwatched)}]")
    return "\n".join(lines)


def derive(robot: RobotConfig, *, urdf: Path | None, mjcf: Path, base_link: str, packages: Path) -> str:
    """Derive the `collision` section of a robot, with a comment for each shape that is missing.

    Raises:
        ConfigError: If the files do not fit together.
    """
    chain = build_chain(robot)
    if chain is None:
        raise ConfigError(f"kinematics of {robot.name} are in no file, must be a table or a URDF file there; add them")
    limits = np.array([(joint.min_rad, joint.max_rad) for joint in robot.joints])
    rng = np.random.default_rng(0)

    def at(angles: np.ndarray) -> tuple[list[Capsule], list[str]]:
        if urdf is not None:
            placed, missing = capsules_of_urdf(
                urdf, base_link=base_link, joints=joint_names(robot), angles=angles, packages=packages
            )
            return in_links(chain, angles, placed), missing
        from sim.capsules import capsules_of_mjcf, read_model

        return in_links(chain, angles, list(capsules_of_mjcf(read_model(mjcf), joint_names(robot), angles))), []

    capsules, missing = at(np.array(robot.home_rad))
    again, _ = at(rng.uniform(limits[:, 0], limits[:, 1]))
    for one, other in zip(capsules, again, strict=True):
        apart = max(
            np.abs(np.subtract(one.from_m, other.from_m)).max(), np.abs(np.subtract(one.to_m, other.to_m)).max()
        )
        if apart > SAME_M:
            raise ConfigError(
                f"{one.name} moves by {apart:.3f} m in its link between two poses, must not: kinematics of robot "
                f"{robot.name} and the model differ; correct the base link, joint names or table"
            )
    body = body_of(chain, capsules, margin_m=CollisionConfig.model_fields["margin_m"].default)
    section = as_yaml(capsules, always_near(body, limits[:, 0], limits[:, 1], rng), body.margin_m)
    return "\n".join([section, *(f"# {sentence}" for sentence in missing)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the section of one robot; returns 0, or 1 after saying what does not fit."""
    parser = argparse.ArgumentParser(prog="python -m robot_stack.workcell.capsules", description=__doc__)
    parser.add_argument("robot", help="name of a file in robots/")
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--urdf", type=Path, help="with xacro expanded")
    model.add_argument("--mjcf", type=Path, help="with the arm's base at its origin")
    parser.add_argument("--base-link", help="link of the URDF whose frame is the robot file's base_frame")
    parser.add_argument("--packages", type=Path, default=Path(), help="folder of the packages that package:// names")
    asked = parser.parse_args(arguments)
    try:
        robot = load(config_root() / "robots" / f"{asked.robot}.yaml", ROBOTS)
        base_link = asked.base_link or robot.base_frame
        print(derive(robot, urdf=asked.urdf, mjcf=asked.mjcf, base_link=base_link, packages=asked.packages))
    except (StackError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
