"""A recorder of every command at each arm, with what it was based on, in runs/NAME/commands.

The format is told in workcell.command_log.

`robot-stack check-log FILE` proves such a file, of one arm, against the limits. Nobody waits for this process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import JointState, Joy

from robot_stack.config.cell import CommandLogConfig
from robot_stack.control.safety.admission import OnceAdmission
from robot_stack.nodes import topics
from robot_stack.nodes.base import FOREVER_S, NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import decision_from_msg, fault_from_msg, stamp_ns_of, state_from_msg, twist_from_msg
from robot_stack.nodes.diagnostics import Diagnosis
from robot_stack.nodes.qos import EVERY, LATCHED
from robot_stack.nodes.sealed_text import listen_to_text
from robot_stack.nodes.state_admission import StateAdmission
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import SpecError
from robot_stack.types.finding import Level
from robot_stack.types.reason import Fault
from robot_stack.workcell.command_log import CommandLog, limits_from

FLUSH_HZ = 1.0
RETRY_S = 10.0
"""After an error of the disk, until a file is begun again."""


class ArmRecorder:
    """Records one arm's commands in files; a full disk is said, and no reason to end.

    Args:
        node: Subscribes.
        arm: Its name.
        run: Name of the run, for the reader of a file.
        folder: Of the files.
        config: How large they get, and how many are kept.
    """

    def __init__(self, node: StackNode, arm: str, run: str, folder: Path, config: CommandLogConfig) -> None:
        self._node = node
        self._arm = arm
        self._run = run
        self._folder = folder
        self._config = config
        self._path = folder / "none"
        self._begun: list[Path] = []
        self._log: CommandLog | None = None
        self._on_disk = False
        """Whether some of the file has reached the disk; until then no older one is given up for it."""
        self._retry_s = 0.0
        self._newest: dict[str, str] = {}
        self._error = ""
        self._refused = 0
        self._latched = (topics.LIMITS, topics.MODE)
        self._fault: Fault | None = None
        self._labels = OnceAdmission("label", topics.label(arm), FOREVER_S)
        self._states = StateAdmission(node.sealer, arm, FOREVER_S)
        node.create_subscription(Joy, topics.label(arm), self._on_label, EVERY)
        node.create_subscription(TwistStamped, topics.applied(arm), self._on_applied, EVERY)
        node.create_subscription(JointState, topics.state(arm), self._on_state, EVERY)
        node.create_subscription(DiagnosticArray, topics.fault(arm), self._on_fault, LATCHED)
        for topic in self._latched:
            listen_to_text(node, topic, partial(self._keep_newest, topic))

    def diagnose(self) -> Diagnosis:
        """Return a diagnosis of the file being written, and why it is not if so."""
        values = {"file": str(self._path), "refused": self._refused}
        level = Level.FAIL if self._error else Level.OK
        return Diagnosis(task=f"command log of {self._arm}", level=level, message=self._error or "ok", values=values)

    def close(self) -> None:
        """End the file that is being written."""
        self._try(lambda log: log.close())
        self._log = None

    def flush(self) -> None:
        """Hand what there is to the operating system; a large file is ended, the next one begins."""
        if self._log is None and topics.LIMITS in self._newest:
            self._begin()
        self._try(self._flush)

    def _on_label(self, msg: Joy) -> None:
        session = self._node.sealer.sender(topics.label(self._arm), msg)
        if self._labels.refusal(session, stamp_ns_of(msg.header), time.monotonic_ns()) is not None:
            self._refused += 1
            return
        try:
            decision = decision_from_msg(msg, self._arm)
        except (SpecError, ValueError, IndexError):
            self._refused += 1
            return
        self._try(lambda log: log.decision(decision))

    def _on_applied(self, msg: TwistStamped) -> None:
        self._try(lambda log: log.applied(twist_from_msg(msg), stamp_ns_of(msg.header)))

    def _on_fault(self, msg: DiagnosticArray) -> None:
        if self._node.sealer.sender(topics.fault(self._arm), msg) is None:
            self._refused += 1
            return
        try:
            self._fault = fault_from_msg(msg)
        except SpecError:
            self._refused += 1
            return
        self._try(lambda log: log.fault(self._fault, time.monotonic_ns()))

    def _on_state(self, msg: JointState) -> None:
        if self._states.refusal(msg) is not None:
            self._refused += 1
            return
        try:
            state = state_from_msg(msg, self._arm, self._fault)
        except SpecError:
            self._refused += 1
            return
        self._try(lambda log: log.state(state))

    def _keep_newest(self, topic: str, text: str) -> None:
        self._newest[topic] = text
        if self._log is None and topic == topics.LIMITS:
            self._begin()
        else:
            self._try(lambda log: self._say(log, topic))

    def _say(self, log: CommandLog, topic: str) -> None:
        text, now_ns = self._newest[topic], time.monotonic_ns()
        if topic == topics.LIMITS:
            log.limits(limits_from(json.loads(text)[self._arm]), now_ns)
        else:
            log.mode(text, now_ns)

    def _begin(self) -> None:
        """Begin a new file with what is latched, so that it can be checked by itself; soon after an error, none."""
        if time.monotonic() < self._retry_s:
            return
        stamp = f"{time.strftime('%Y-%m-%d_%H%M%S')}-{time.monotonic_ns() % 1000:03d}"
        self._path = self._folder / self._arm / f"{stamp}.jsonl.gz"
        self._begun.append(self._path)
        self._on_disk = False
        try:
            self._log = CommandLog(self._path, arm=self._arm, run=self._run)
        except OSError as error:
            self._fail(error)
        for topic in self._latched:
            if topic in self._newest:
                self._try(lambda log, topic=topic: self._say(log, topic))  # type: ignore[misc]
        self._try(lambda log: log.fault(self._fault, time.monotonic_ns()))

    def _flush(self, log: CommandLog) -> None:
        """Flush the file; once some of it is on disk, remove the oldest of too many; end it if it is large.

        Files are named by the wall clock, which may have been ahead: those of this process are the newest.
        """
        log.flush()
        if not self._on_disk:
            self._on_disk = True
            begun = {path: number for number, path in enumerate(self._begun)}
            files = self._path.parent.glob("*.jsonl.gz")
            for old in sorted(files, key=lambda path: (begun.get(path, -1), path))[: -self._config.files]:
                old.unlink()
        if self._path.stat().st_size > self._config.file_mb << 20:
            log.close()
            self._log = None

    def _try(self, write: Callable[[CommandLog], None]) -> None:
        """Write to the file if there is one: none before the limits are known, nor between two files."""
        if self._log is None:
            return
        try:
            write(self._log)
            self._error = ""
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        if self._log is not None:
            with suppress(OSError):
                self._log.close()
        self._log = None
        if not self._on_disk:
            with suppress(OSError):
                self._path.unlink()
        self._retry_s = time.monotonic() + RETRY_S
        said = f"{self._path} is not written ({error.strerror}); free some space, and leave its folder"
        if said != self._error:
            self._error = said
            self._node.get_logger().error(said)


class CommandRecorderNode(StackNode):
    """A ROS node that records the commands at each arm, in files of its own."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("command_recorder", settings.namespace, key=settings.key)
        run, folder = settings.run, RunPaths(settings.options.run.parent).commands
        self.show_settings(run, {"": "cell.command_log"})
        self._arms = [ArmRecorder(self, arm, run.name, folder, run.cell.command_log) for arm in run.robots]
        self.steady_timer(FLUSH_HZ, self._flush)

    def diagnose(self) -> list[Diagnosis]:
        """Return a diagnosis of each arm's file."""
        return [arm.diagnose() for arm in self._arms]

    def safe_stop(self, reason: str) -> None:
        """End every arm's file."""
        for arm in self._arms:
            arm.close()

    def _flush(self) -> None:
        for arm in self._arms:
            arm.flush()


def main() -> int:
    """Run the recorder of commands and return its exit code."""
    return run_node("command_recorder", CommandRecorderNode)


if __name__ == "__main__":
    sys.exit(main())
