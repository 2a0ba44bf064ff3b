"""The simulated workcell: MuJoCo in the robot's place, behind the robot's own interfaces."""

import os

from robot_stack.types.errors import RobotError

NO_GL = (
    "no OpenGL for rendering with MUJOCO_GL={name} ({error}); install Mesa's EGL (Debian and Ubuntu: apt-get install "
    "libegl1 libgl1-mesa-dri libgles2) or OSMesa (apt-get install libosmesa6) and set MUJOCO_GL=egl or MUJOCO_GL=osmesa"
)

os.environ.setdefault("MUJOCO_GL", "egl")  # read by mujoco when it is first imported
try:
    import mujoco  # noqa: F401 - imported here, so that each process says in words which GL it misses
except ModuleNotFoundError:
    pass  # a machine without the simulator; what needs it says so
except Exception as error:  # its GL back ends raise whatever their loader raises
    raise RobotError(NO_GL.format(name=os.environ["MUJOCO_GL"], error=error)) from error
