"""ROS 2 face of the operator's page; what it shows and what it may do is decided in robot_stack.console.

A window only: nothing waits for it, and nobody notices when it dies but the operators who look through it. The one
thing that a page does to an arm goes through the teleop process, and only in simulation: of a real cell this process
has no publisher for it.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.client import Client
from rclpy.publisher import Publisher
from rclpy.serialization import deserialize_message
from rclpy.subscription import Subscription
from rclpy.task import Future
from sensor_msgs.msg import CompressedImage, Image, Joy
from std_msgs.msg import Bool, Header
from std_srvs.srv import Trigger

from robot_stack.console.access import (
    ADDRESS_FILE,
    TOKEN_FILE,
    Gate,
    is_local,
    read_port,
    split_address,
    write_address,
)
from robot_stack.console.banner import farewell
from robot_stack.console.figures import Diagnosed
from robot_stack.console.journal import Journal
from robot_stack.console.label_forwarder import LabelForwarder
from robot_stack.console.record_of import RunRecord
from robot_stack.console.session import ConsoleSession
from robot_stack.control.safety.admission import OLDEST_VERDICT_S, KeyAdmission
from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import (
    events_from_msg,
    events_to_msg,
    file_of,
    frame_and_session,
    header_of,
    image_from_msg,
    mode_from_text,
    page_to_msg,
    raw_stamp_ns,
    stamp_ns_of,
)
from robot_stack.nodes.diagnostics import Diagnosis, Due
from robot_stack.nodes.episode_status import EpisodeStatus, Phase
from robot_stack.nodes.qos import EVERY, LATCHED, NEWEST, SAMPLED, STATE
from robot_stack.nodes.sealed_text import listen_to_text
from robot_stack.nodes.tools.episode_pictures import EpisodePictures
from robot_stack.runs.paths import RunPaths
from robot_stack.sensing.pixels import jpeg_of
from robot_stack.teleop.bindings import Device
from robot_stack.teleop.messages import JoyPacket
from robot_stack.teleop.page import TOPIC as PAGE_TOPIC
from robot_stack.transport.access.link_token import LinkToken
from robot_stack.transport.access.security import actor_credentials
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError, StoreError
from robot_stack.types.event import Label, Verdict
from robot_stack.types.help import HelpRequest
from robot_stack.workcell.build_safety import stop_topics

if TYPE_CHECKING:
    from robot_stack.console.serving import PageServer  # a bare installation has no server

IMAGES_HZ, UNWATCHED_HZ = 10.0, 2.0
"""Of each camera, while a page is open and while none is: then only the pictures of the episodes need any."""
REQUESTS = ("arm", "resume", "clear_stop")
"""What a page may ask the safety filter for, in simulation."""
RECORD_HZ, PRESENCE_HZ = 1.0, 5.0
MOST_JPEG_BYTES = 8 << 20
JPEG_MAGIC = b"\xff\xd8"
FETCH_S, SAID_S = 1.5, 0.3
"""What open pages are left to fetch the report, and to hear a last word."""
GB = 1e9


class ConsoleNode(StackNode):
    """A ROS node that hears the cell, serves the pages and does what they ask for: `ConsoleActions`."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("console", settings.namespace, key=settings.key)
        self._run = run = settings.run
        self.show_settings(run, {"": "cell.console", "learner_address": "cell.learner_address"})
        self._folder: Path = settings.options.run.parent
        self._state: Path = settings.options.state or self._folder
        self._learner: str = settings.options.learner
        self._journal = Journal(self._folder)
        self._pictures = EpisodePictures(self._folder)
        self._record = RunRecord(self._folder)
        self._session = ConsoleSession(run, self, self._journal, self._pictures.has)
        self._heard = self._session.heard
        self._server: PageServer | None = None
        self._forwarder: LabelForwarder | None = None
        self._refused: dict[str, str] = {}
        self._pressing = threading.Lock()
        self._pressed_ns = 0
        self._keys = KeyAdmission(topics.EVENTS, OLDEST_VERDICT_S)
        self._whole: dict[int, Subscription] = {}
        self._stop_inputs: dict[str, bool] = {}
        self._events = self.create_publisher(Joy, topics.EVENTS, EVERY)
        self._operator = self.create_publisher(Header, topics.OPERATOR, NEWEST)
        self._hand: Publisher | None = (
            self.create_publisher(Joy, PAGE_TOPIC, NEWEST) if self._session.rights.drive else None
        )
        self._requests: dict[str, Client] = {}
        if self._session.rights.enable:
            self._requests = {name: self.create_client(Trigger, topics.safety_service(name)) for name in REQUESTS}
        self._subscribe()
        self.steady_timer(RECORD_HZ, self._read_record)
        self.steady_timer(PRESENCE_HZ, self._attend)
        self.steady_timer(PRESENCE_HZ, self._look_whole)

    def configure(self) -> None:
        """Read what is on disk, then open the page.

        Raises:
            StackError: If the folder cannot be written, or the address cannot be had.
        """
        self._journal.open()
        self._pictures.open()
        self._read_record()
        notes = self._journal.notes()
        with self._session.locked():
            self._heard.notes(notes)
            self._heard.labels(self._journal.waiting)
        self._server = server = self._serve()
        self._heard.facts.learner_asked = bool(self._learner)
        if self._learner:
            security = actor_credentials(self._run.cell.learner_certs, self._folder)
            self._forwarder = LabelForwarder(self._session, self._learner, server.change, security)
            self._forwarder.start()

    def diagnose(self) -> list[Diagnosis]:
        """Return a diagnosis of the open pages, and of messages that could not be read."""
        lock = self._session.operator_lock
        return [Diagnosis(task="pages", values={"pages": lock.pages, "operator": bool(lock.writer), **self._refused})]

    def safe_stop(self, reason: str) -> None:
        """Tell the pages how the run ended, then stop the server.

        To the teleop process a hand that drove is then a lost device.
        """
        if self._forwarder is not None:
            self._forwarder.stop()
        if self._server is None:
            return
        if self._server.watched:
            self._read_record()
            self._server.change()
            stage = self._heard.stage
            time.sleep(FETCH_S if stage is not None and stage.final else SAID_S)  # a page fetches the report meanwhile
            self._server.farewell(farewell(stage))
            time.sleep(SAID_S)
        self._server.stop()

    # ConsoleActions: called by the threads of the pages -------------------------------------------------------------
    def press(self, events: tuple[str, ...]) -> None:
        """Publish key events that an operator pressed on a page, out of `EVENTS`."""
        with self._pressing:  # a key that is older than the last one heard counts for nothing
            self._pressed_ns = max(time.monotonic_ns(), self._pressed_ns + 1)
            msg = events_to_msg(events, self._pressed_ns, Device.BROWSER)
            self._events.publish(self.sealer.seal(topics.EVENTS, msg))

    def request(self, name: str) -> None:
        """Call a service of the safety process; a refusal is told to the pages."""
        client = self._requests[name]
        if not client.service_is_ready():
            self._tell(f"{name} is not asked: the safety process is not there")
            return

        def answered(future: Future) -> None:
            answer = future.result()
            if answer is not None and not answer.success:
                self._tell(f"{name} refused: {answer.message}")

        client.call_async(Trigger.Request()).add_done_callback(answered)

    def move(self, packet: JoyPacket) -> None:
        """Publish what the hand at the page does, in simulation only."""
        if self._hand is not None:
            self._hand.publish(self.sealer.seal(PAGE_TOPIC, page_to_msg(packet, time.monotonic_ns())))

    def _tell(self, text: str) -> None:
        with self._session.locked():
            self._heard.tell(text, time.time())
        if self._server is not None:
            self._server.notice(text)
        self._changed()

    # what is heard ---------------------------------------------------------------------------------------------
    def _subscribe(self) -> None:
        for index, camera in enumerate(self._run.cameras):
            receive = self._on_image(index, camera)
            self.create_subscription(Image, topics.observation(camera), receive, SAMPLED, raw=True)
        for topic, take, profile in (
            (topics.MODE, self._on_mode, LATCHED),
            (topics.STATUS, self._on_status, LATCHED),
            (topics.CLAIM, self._on_claim, EVERY),
            (topics.PROMPT, self._on_prompt, LATCHED),
            (topics.HELP, self._on_help, LATCHED),
            (topics.CELL_STATUS, self._on_cell, LATCHED),
        ):
            refused = partial(self._refused.__setitem__, topic)
            listen_to_text(self, topic, take, profile, refused, repeats=topic == topics.MODE)
        for topic in (topics.STOP_INPUT, *stop_topics(self._run)):
            self.create_subscription(Bool, topic, partial(self._on_stop_input, topic), EVERY)
        self.create_subscription(Joy, topics.EVENTS, self._on_events, EVERY)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, STATE)

    def _on_image(self, index: int, camera: str) -> Callable[[bytes], None]:
        watched, unwatched = Due(IMAGES_HZ), Due(UNWATCHED_HZ)

        def receive(raw: bytes) -> None:
            """Count an image, and show it if one is due; most are dropped, as to unpack all of them would cost."""
            server = self._server
            open_pages = server is not None and server.watched
            due = watched if open_pages else unwatched
            try:
                stamp_ns = raw_stamp_ns(raw)
                image = image_from_msg(deserialize_message(raw, Image)) if due.now(time.monotonic_ns()) else None
                jpeg = jpeg_of(image) if open_pages and image is not None else b""
            except Exception as error:  # a stranger's bytes: whatever the libraries make of them, this process goes on
                self._refused[camera] = str(error)
                return
            with self._session.locked():
                self._heard.cameras[camera].frame(stamp_ns, time.monotonic_ns())
            if image is not None:
                self._pictures.look(camera, image)
            if jpeg and server is not None:
                server.show(index, jpeg)

        return receive

    def _look_whole(self) -> None:
        """Listen to the whole images that some page shows, and to no others."""
        wanted = self._server.whole if self._server is not None else frozenset[int]()
        for index, camera in enumerate(self._run.cameras):
            if index in wanted and index not in self._whole:
                receive = self._on_whole(index, camera)
                topic = topics.captured(camera)
                self._whole[index] = self.create_subscription(CompressedImage, topic, receive, SAMPLED)
            elif index not in wanted and index in self._whole:
                self.destroy_subscription(self._whole.pop(index))

    def _on_whole(self, index: int, camera: str) -> Callable[[CompressedImage], None]:
        def receive(msg: CompressedImage) -> None:
            jpeg = file_of(msg).tobytes() if len(msg.data) <= MOST_JPEG_BYTES else b""
            if not jpeg.startswith(JPEG_MAGIC):
                self._refused[f"{camera} whole"] = f"{len(msg.data)} bytes that are no JPEG or too many"
            elif self._server is not None:
                self._server.show_whole(index, jpeg)

        return receive

    def _on_mode(self, text: str) -> None:
        mode, reason = mode_from_text(text)
        with self._session.locked():
            self._heard.banner(mode, str(reason or ""), time.monotonic_ns(), time.time())
            self._heard.facts.estop = mode is Mode.STOP
        self._changed()

    def _on_stop_input(self, topic: str, msg: Bool) -> None:
        self._stop_inputs[topic] = msg.data
        with self._session.locked():
            self._heard.facts.stop_input = any(self._stop_inputs.values())
        self._changed()

    def _on_events(self, msg: Joy) -> None:
        now_ns = time.monotonic_ns()
        refusal = self._keys.refusal(self.sealer.sender(topics.EVENTS, msg), stamp_ns_of(msg.header), now_ns)
        with self._session.locked():
            device, _ = frame_and_session(msg.header.frame_id)
            events = [each for each in events_from_msg(msg) if refusal is None or each not in tuple(Verdict)]
            on_a_claim = self._heard.events(events, device, now_ns, time.time())
        if on_a_claim is not None:
            self._keep(on_a_claim)
        self._changed()

    def _keep(self, label: Label) -> None:
        """Keep a verdict that was said on a device; an operator hears of a disk that refuses it."""
        try:
            self._session.keep(label)
        except StoreError as error:
            self._tell(str(error))

    def _on_status(self, text: str) -> None:
        status, now_ns = EpisodeStatus.from_text(text), time.monotonic_ns()
        with self._session.locked():
            if status.phase is Phase.RUNNING and status.kind is not None:
                kind, task_id = status.kind.value, status.task_id
                self._heard.episode(status.episode_id, kind, now_ns, time.time(), task_id=task_id)
                self._pictures.begin(status.episode_id)
                over = False
            else:
                self._heard.no_episode(resetting=status.phase is Phase.RESETTING, now_ns=now_ns)
                over = True
        self._changed()
        if over and self._pictures.end():
            with self._session.locked():
                self._heard.version += 1
            self._changed()

    def _on_claim(self, text: str) -> None:
        with self._session.locked():
            if text in tuple(Verdict):
                self._heard.claimed(Verdict(text), time.monotonic_ns(), time.time())
        self._changed()

    def _on_prompt(self, text: str) -> None:
        with self._session.locked():
            self._heard.prompt = text
        self._changed()

    def _on_help(self, text: str) -> None:
        request = HelpRequest.from_text(text)
        with self._session.locked():
            self._heard.asked(request, time.time())
        self._changed()

    def _on_cell(self, text: str) -> None:
        with self._session.locked():
            self._heard.facts.cell = text

    def _on_diagnostics(self, msg: DiagnosticArray) -> None:
        now_ns = time.monotonic_ns()
        with self._session.locked():
            for status in msg.status:
                if status.hardware_id != self.get_namespace():
                    continue  # of another cell, or a foreign node
                said = Diagnosed(
                    level=int.from_bytes(status.level, "little"),
                    message=status.message,
                    values={pair.key: pair.value for pair in status.values},
                    heard_ns=now_ns,
                )
                self._heard.diagnosis(status.name, said, time.time())

    def _changed(self) -> None:
        if self._server is not None:
            self._server.change()

    # by the clock ----------------------------------------------------------------------------------------------
    def _read_record(self) -> None:
        """Read the run's files, and the room that is left on the disk for more."""
        news, free_gb = self._record.read(), shutil.disk_usage(self._folder).free / GB
        with self._session.locked():
            news.tell(self._heard)
            self._heard.facts.free_gb = free_gb
        if self._forwarder is None:
            try:
                self._session.stored(news.labels)
            except StoreError as error:
                self.get_logger().error(str(error))  # they are offered once more, which is harmless

    def _attend(self) -> None:
        if self._server is not None:
            self._server.check()
        now_ns = time.monotonic_ns()
        with self._session.locked():
            attended = self._session.operator_lock.attended(now_ns)
        if attended:
            self._operator.publish(self.sealer.seal(topics.OPERATOR, header_of(now_ns)))

    def _serve(self) -> PageServer:
        try:
            from robot_stack.console import serving
        except ModuleNotFoundError as error:
            raise RobotError(
                f"{error.name} is missing, must be installed for the page; pip install 'robot-stack[console]'"
            ) from error
        address, url = self._run.cell.console.address, self._folder / ADDRESS_FILE
        host, _ = split_address(address)
        token = "" if is_local(host) else LinkToken.keep(self._state, TOKEN_FILE).token
        listening, paths = serving.listen(address, read_port(url)), RunPaths(self._folder)
        gate = Gate(token)
        pages = serving.Pages(self._session, gate, paths.store.root, self._pictures.get, paths.report)
        server = serving.PageServer(pages, listening)
        server.start()
        shown = serving.page_address(listening, host, token)
        write_address(url, shown)
        self.get_logger().info(f"page: {shown.partition('#')[0]}")
        return server


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", type=Path, help="folder that keeps the token of a page beyond this machine")
    parser.add_argument("--learner", default="", help="host:port of the learner; none is asked without")


def main() -> int:
    """Run the console process and return its exit code."""
    return run_node("console", ConsoleNode, _arguments)


if __name__ == "__main__":
    sys.exit(main())
