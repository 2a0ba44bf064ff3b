"""The simulated workcell: MuJoCo in the robot's place, behind the robot's own interfaces."""

import os

os.environ.setdefault("MUJOCO_GL", "egl")  # read by mujoco when it is first imported
