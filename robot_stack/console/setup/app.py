"""The set-up page's server: what is connected, pictures, what the files would be, and writing them.

| request | answers |
| --- | --- |
| GET / and /static/NAME | the page |
| GET /api/found | what files offer and what is connected now |
| GET /api/picture?camera=NAME | a picture of a camera without a ROS driver, JPEG |
| POST /api/ros | what the drivers of a ROS domain publish, and where their arms stand |
| POST /api/servos | which servos answer at a serial port, and where their arm stands |
| POST /api/preview | the files as they would be, and what a run would refuse of them |
| POST /api/write | the files that were written, and what comes next |

Nothing is written before /api/write, and then only below ./hardware_configs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from robot_stack.config.files.library import config_root, search_path
from robot_stack.console.access import Gate
from robot_stack.console.browser.asked import asked
from robot_stack.console.messages import PageError
from robot_stack.console.setup.asked import AskedCell, AskedServos, Domain
from robot_stack.console.web import BROWSER, PageFiles, guarded, json_answer, json_body, refuse_host
from robot_stack.console.web import STATIC as SHARED
from robot_stack.sensing.connected import ConnectedCamera
from robot_stack.teleop.connected import ConnectedDevices
from robot_stack.types.errors import ConfigError
from robot_stack.types.surveyed import Surveyed, SurveyedServo
from robot_stack.workcell.setup.arms import CalibratedServos, first_box, joint_topic, known_arms, standing_arm
from robot_stack.workcell.setup.choices import Choices
from robot_stack.workcell.setup.own_files import check_together, refuse_name, refuse_taken, write_together
from robot_stack.workcell.setup.plan import PlannedCell, texts_of

STATIC = Path(__file__).with_name("static")
STILL_TICKS = 4
"""A servo that has turned by more between two looks moves; a third of a degree."""
C920, ANY_CAMERA = "logitech_c920", "generic_v4l2"
"""Files of the cameras that a device without a ROS driver is taken for."""
RAW, COMPRESSED = "generic_topic", "generic_compressed_topic"
"""Files of the cameras that a driver's topic is taken for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """The ways to look at this machine, each of which may take seconds and raise StackError.

    Attributes:
        cameras: Lists those without a ROS driver.
        picture: Takes one with such a camera, by the name of its model; a JPEG.
        devices: Lists those for an operator's hand.
        ports: Lists serial ports.
        calibrations: Lists calibration files of servos.
        ros: Listens to a ROS domain.
        servos: Asks the servos at a port where they stand and how they are calibrated.
        check: Loads a run from a folder as a run would be, or refuses it.
    """

    cameras: Callable[[], list[ConnectedCamera]]
    picture: Callable[[ConnectedCamera, str], bytes]
    devices: Callable[[], ConnectedDevices]
    ports: Callable[[], list[str]]
    calibrations: Callable[[], list[str]]
    ros: Callable[[int], Surveyed]
    servos: Callable[[str], Mapping[str, SurveyedServo]]
    check: Callable[[str, Path], object]


def camera_model(camera: ConnectedCamera) -> str:
    """Return the name of the file in cameras/ that a connected camera is taken for."""
    return C920 if "C920" in camera.name else ANY_CAMERA


class SetupPage:
    """Web application that makes the files of one new cell.

    Args:
        looks: Ways to look at this machine.
        gate: Who is let in.
    """

    def __init__(self, looks: Looks, gate: Gate) -> None:
        self._looks = looks
        self._gate = gate
        self._files = PageFiles([STATIC, BROWSER, SHARED])
        self._checking = asyncio.Lock()
        self._looking = asyncio.Lock()

    def app(self) -> Starlette:
        """Return the application, to be run by a server."""
        look = {"/api/found": self._found, "/api/picture": self._picture}
        do = {
            "/api/ros": self._ros,
            "/api/servos": self._servos,
            "/api/preview": self._preview,
            "/api/write": self._write,
        }
        return Starlette(
            routes=[
                Route("/", self._index),
                Route("/static/{name}", self._static),
                *(Route(path, guarded(self._gate, handler)) for path, handler in look.items()),
                *(Route(path, guarded(self._gate, handler), methods=["POST"]) for path, handler in do.items()),
            ]
        )

    async def run(self) -> None:
        """Do nothing beside the server, for as long as it lives."""
        await asyncio.Event().wait()

    def close(self) -> None:
        """Do nothing: what was not written is not wanted."""

    async def _index(self, request: Request) -> Response:
        return refuse_host(self._gate, request) or self._files.index()

    async def _static(self, request: Request) -> Response:
        return refuse_host(self._gate, request) or self._files.get(request.path_params["name"])

    # what is there -------------------------------------------------------------------------------------------------
    async def _found(self, _: Request) -> Response:
        def look() -> dict[str, Any]:
            choices, devices = Choices.of(search_path()), self._looks.devices()
            return {
                "arms": [{**asdict(arm), "first_box": first_box(arm.home)} for arm in choices.arms],
                "tasks": [asdict(task) for task in choices.tasks],
                "teleops": [asdict(device) for device in choices.devices],
                "safety": choices.safety,
                "cameras": [{**asdict(each), "model": camera_model(each)} for each in self._looks.cameras()],
                "devices": [asdict(each) for each in devices.devices],
                "hidden": devices.hidden,
                "ports": self._looks.ports(),
                "calibrations": self._looks.calibrations(),
            }

        return json_answer(await asyncio.to_thread(look))

    async def _picture(self, request: Request) -> Response:
        name = request.query_params.get("camera", "")
        async with self._looking:  # two programs cannot have one camera, nor one bus two at full size
            cameras = await asyncio.to_thread(self._looks.cameras)
            camera = next((each for each in cameras if each.name == name), None)
            if camera is None:
                raise PageError(f"camera {name[:80]!r} is not connected, must be one of those listed; look again")
            jpeg = await asyncio.to_thread(self._looks.picture, camera, camera_model(camera))
        return Response(jpeg, 200, media_type="image/jpeg")

    async def _ros(self, request: Request) -> Response:
        domain = asked(Domain, await json_body(request)).domain
        async with self._looking:
            found = await asyncio.to_thread(self._looks.ros, domain)
        published = {name for names in found.joints.values() for name in names}
        arms = await asyncio.to_thread(known_arms, search_path())
        images = [{**asdict(each), "model": COMPRESSED if each.compressed else RAW} for each in found.images]
        speaks = [arm.file for arm in arms if arm.speaks_of(published)]
        return json_answer(
            {
                "joints": found.joints,
                "robot": found.robot,
                "images": images,
                "speaks": speaks,
                "stands": await asyncio.to_thread(_stands, speaks, found),
                "left_out": found.left_out,
                "commanded": found.commanded,
            }
        )

    async def _servos(self, request: Request) -> Response:
        wish = asked(AskedServos, await json_body(request))
        if wish.port not in await asyncio.to_thread(self._looks.ports):
            raise PageError(f"port {wish.port[:80]!r} is not plugged in, must be one of those listed; look again")
        calibration = wish.calibration
        if calibration is not None and calibration not in await asyncio.to_thread(self._looks.calibrations):
            raise PageError(f"calibration {calibration[:80]!r} is not here, must be one of those listed; look again")
        async with self._looking:
            seen = dict(await asyncio.to_thread(self._looks.servos, wish.port))
            if wish.robot is None or calibration is None:
                return json_answer({"positions": {id: servo.ticks for id, servo in seen.items()}})
            again = dict(await asyncio.to_thread(self._looks.servos, wish.port))
        moving = {id: servo for id, servo in seen.items() if _turned(servo, again.get(id, servo))}

        def stand(robot: str, calibration: str) -> dict[str, Any]:
            servos = CalibratedServos.of(again, Path(calibration))
            now = standing_arm(robot, servos.angles, {}, search_path())
            return {
                "now": None if now is None or servos.refused else asdict(now),
                "moving": sorted(CalibratedServos.of(moving, Path(calibration)).angles),
                "refused": servos.refused,
            }

        positions = {id: servo.ticks for id, servo in again.items()}
        return json_answer({"positions": positions, **await asyncio.to_thread(stand, wish.robot, calibration)})

    # what would be, and is -----------------------------------------------------------------------------------------
    async def _preview(self, request: Request) -> Response:
        plan = asked(AskedCell, await json_body(request)).planned()
        async with self._checking:
            texts, refused = await asyncio.to_thread(self._checked, plan)
        files = [{"file": f"{kind}/{name}.yaml", "text": text} for (kind, name), text in texts.items()]
        return json_answer({"files": files, "refused": refused})

    async def _write(self, request: Request) -> Response:
        plan = asked(AskedCell, await json_body(request)).planned()
        async with self._checking:
            texts, refused = await asyncio.to_thread(self._checked, plan)
            if refused:
                raise ConfigError("\n".join(refused))
            written = await asyncio.to_thread(write_together, texts)
        arms = await asyncio.to_thread(known_arms, search_path())
        guessed = any(arm.file == plan.robot and arm.home is None for arm in arms)
        moving = ["calibrate workspace", "doctor --move"] if guessed else ["doctor --move", "calibrate workspace"]
        steps = [f"robot-stack {verb} {plan.name}" for verb in ("show", "doctor", *moving, "record", "up", "deploy")]
        return json_answer({"written": [str(path) for path in written], "next": steps})

    def _checked(self, plan: PlannedCell) -> tuple[Mapping[tuple[str, str], str], list[str]]:
        """Return the texts of a plan, and the sentences with which a run would refuse them."""
        texts: Mapping[tuple[str, str], str] = {}
        try:
            refuse_name(plan.name)
            texts = texts_of(plan, search_path())
            refuse_taken(plan.name, texts, config_root())
            check_together(texts, plan.name, self._looks.check)
        except ConfigError as error:
            return texts, str(error).splitlines()
        return texts, []


def _turned(before: SurveyedServo, after: SurveyedServo) -> bool:
    return abs(after.ticks - before.ticks) > STILL_TICKS


def _stands(arms: Sequence[str], found: Surveyed) -> dict[str, Any]:
    """Return arm -> where it is at home and now, and a first guess of its box, by what its driver says."""
    stands = {}
    for arm in arms:
        topic = joint_topic(arm, search_path())
        home = standing_arm(arm, None, found.descriptions, search_path())
        now = standing_arm(arm, found.angles.get(topic, {}), found.descriptions, search_path())
        places = {key: None if each is None else asdict(each) for key, each in (("home", home), ("now", now))}
        stands[arm] = {
            **places, "first_box": first_box(home), "topic": topic, "moving": found.moving.get(topic, []),
        }  # fmt: skip
    return stands
