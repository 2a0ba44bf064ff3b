"""Holds the URDF reader against pinocchio on every URDF below a folder.

`python -m tests.makers.against_pinocchio FOLDER`, in an environment with pinocchio (pip's `pin`) and what
`robot_stack.control` needs. It prints what either refuses, and ends with 1 if this reader alone refuses a file or has a
link elsewhere. docs/robots.md has the figures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.control.kinematics.link_tree import LinkTree
from robot_stack.types.errors import ConfigError

APART = 1e-9
"""Largest difference of an entry of a link's pose, m or none."""


def farthest(tree: LinkTree, model: Any, pin: Any, rng: np.random.Generator) -> float:
    """Return by how much the pose of any link differs at random angles."""
    angles = {joint.name: float(rng.uniform(-1, 1)) for joint in tree.joints if not joint.mimics}
    tangent, data = np.zeros(model.nv), model.createData()
    for joint in tree.joints:
        if joint.kind != "fixed" and model.existJointName(joint.name):
            angle = angles.get(joint.mimics or joint.name, 0.0)
            value = joint.factor * angle + joint.offset if joint.mimics else angle
            tangent[model.joints[model.getJointId(joint.name)].idx_v] = value
    pin.forwardKinematics(model, data, pin.integrate(model, pin.neutral(model), tangent))
    pin.updateFramePlacements(model, data)

    def placed(link: str) -> np.ndarray:
        return np.asarray(data.oMf[model.getFrameId(link, pin.FrameType.BODY)].homogeneous)

    to_root = np.linalg.inv(placed(tree.root))
    return max(float(np.abs(pose - to_root @ placed(link)).max()) for link, pose in tree.frames(angles).items())


def main(folder: Path) -> int:
    """Compare all files below a folder; returns the exit code."""
    import pinocchio as pin

    rng, counts, wrong = np.random.default_rng(0), dict.fromkeys(("alike", "both refuse", "it alone refuses"), 0), 0
    for path in sorted(folder.rglob("*.urdf")):
        text, tree, why = path.read_text(encoding="utf-8", errors="surrogateescape"), None, ""
        try:
            tree = LinkTree(text, source=path.name)
        except ConfigError as error:
            why = str(error)
        try:
            model = pin.buildModelFromXML(text)
        except Exception:  # of any kind that its bindings throw
            counts["both refuse" if tree is None else "it alone refuses"] += 1
            continue
        if tree is not None and (apart := farthest(tree, model, pin, rng)) < APART:
            counts["alike"] += 1
            continue
        wrong += 1
        print(f"{path}: {why or f'a link is {apart:g} elsewhere'}")
    print(", ".join(f"{count} {what}" for what, count in counts.items()) + f", {wrong} wrong here")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
