"""The faces to Gymnasium: a simulated cell as an environment, and an environment as a cell.

Importing this package registers the environments with Gymnasium, which since its version 1.0 looks for no others.
"""

from __future__ import annotations

from robot_stack.types.errors import ConfigError

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ConfigError(
        "package gymnasium is missing, must be installed for robot_stack.suites; "
        "pip install 'robot-stack[suites]' -c constraints.txt"
    ) from error

RUNS = {
    "robot_stack/PegInsert-v0": "peg_insert",
    "robot_stack/TwoArmInsert-v0": "two_arm_insert",
    "robot_stack/PickInsert-v0": "pick_insert",
    "robot_stack/Drawer-v0": "drawer",
    "robot_stack/CablePlug-v0": "cable_plug",
}
"""Id of each environment -> the run whose cell and task it shows."""

for _id, _run in RUNS.items():
    gymnasium.register(_id, entry_point="robot_stack.suites.environment:CellEnvironment", kwargs={"run": _run})
