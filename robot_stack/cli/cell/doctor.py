"""`robot-stack doctor CELL`: checks that all is there, fast enough and fit to be used. Moves nothing without `--move`.

A name starts the cell's processes for as long as it takes; the folder of a run that is going on is listened to.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from robot_stack.cli.cell.own_cell import CellWatch, Enter, own_cell, say
from robot_stack.cli.run_folder import load_cell
from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun, RunArm
from robot_stack.control.drivers.first_motion import Trouble
from robot_stack.control.drivers.handshake import WHY, Standing
from robot_stack.processes.shared_memory import SHARED_MEMORY
from robot_stack.processes.table import cell_processes, namespace_of
from robot_stack.runs.beginning import command_line
from robot_stack.runs.paths import RunPaths
from robot_stack.transport.access.security import security_of
from robot_stack.transport.calls import learner_status
from robot_stack.types.command import Mode
from robot_stack.types.errors import ConfigError, StackError
from robot_stack.types.finding import Finding, Level
from robot_stack.workcell.checkup import finding, graph, host, links, operator, streams

if TYPE_CHECKING:
    from robot_stack.nodes.tools.doctor import DoctorNode
    from robot_stack.nodes.tools.listening import Listening

RUNS = Path("runs")
OTHERS_S = 4.0
"""After the failure of a process that the cell needs, for the others at least; who still starts is waited for."""
START_S = 40.0
DEVICES_S, BRIEF_S = 6.0, 3.0
"""For cameras, arms and devices to be heard of once their processes live; and to listen for where some are not."""
PERSON_S = 60.0
ROUND_TRIPS = 50
REACHES = {
    "host": "Fast DDS on this machine only",
    "network": "Fast DDS on all network interfaces",
    "environment": "middleware and transports as this shell says",
}
NOT_NEEDED = {"camera", "teleop", "load", "dds", "gpu", "disk", "learner"}
"""What may fail before a first motion: nothing is seen or learned in it, and a device that is held has shown itself."""
ARMING_S = 15.0
MOVE_S = 120.0
MOVE_TEXT = "first motion: 1 cm and 2 degrees along each axis of the tool and back, at a tenth of the limits"
TELEOP, FIRST_MOTION = "robot_stack.nodes.teleop.node", "robot_stack.nodes.tools.first_motion"
LOOPBACK = ("127.", "localhost", "[::1]")


def run(
    name: str,
    overrides: Sequence[str] = (),
    root: Path | None = None,
    dry: bool = False,
    seconds: float = 60.0,
    as_json: bool = False,
    move: bool = False,
) -> int:
    """Check a cell and print what was found; the exit code is 1 if something must be mended.

    Raises:
        StackError: If the configuration is wrong, the cell's DDS domain is taken, or --move is asked of a run that is
            going on, or without an operator.
    """
    folder = Path(name) if RunPaths(Path(name)).resolved.is_file() else None
    if move and folder is not None:
        raise ConfigError(f"{name} is a run that is going on, must be a cell to be moved with --move; name the cell")
    resolved = load_resolved(RunPaths(folder).resolved) if folder is not None else load_cell(name, overrides, root)
    findings = [ros_finding(resolved), host.measure_disk(RUNS, resolved), host.judge_priority()]
    findings += [_memory(resolved), links.judge(resolved), *_learner(resolved)]
    if findings[0].level is not Level.FAIL:
        place = folder if folder is not None else RUNS / "doctor" / resolved.name
        with own_cell(resolved, place, running=folder is not None) as cell:
            findings += _examine(resolved, cell, seconds, Enter.on_terminal() if not dry else None, RunPaths(place).log)
    if move:
        findings += _first_motion(resolved, findings, dry=dry)
    again = command_line("doctor", name, overrides=overrides, root=root)
    onward = _onward(resolved, name if folder is None else resolved.run.cell, overrides, root)
    if as_json:
        print(json.dumps({"cell": resolved.run.cell, "findings": finding.plain(findings)}, indent=2))
    else:
        print(finding.table(findings))
        print(finding.closing(findings, again, onward))
    return finding.exit_code(findings)


def _onward(resolved: ResolvedRun, name: str, overrides: Sequence[str], root: Path | None) -> str:
    """Return the command that comes once nothing fails."""
    if resolved.simulated:
        return command_line("sim", root=root)
    return command_line("calibrate", "workspace", name, overrides=overrides, root=root)


def ros_finding(resolved: ResolvedRun) -> Finding:
    """Check that there is a ROS, and say which."""
    if importlib.util.find_spec("rclpy") is None:
        text = "rclpy cannot be imported; source the setup file of ROS 2 Jazzy, or pip install 'robot-stack[ros]'"
        return finding.fail("ros", text)
    try:
        which = f"wheels, rclpy {version('ros-rclpy')}"
    except PackageNotFoundError:
        which = os.environ.get("ROS_DISTRO", "of unknown origin; source its setup file")
    return finding.ok("ros", f"{which}; domain {resolved.cell.dds_domain}, {REACHES[resolved.cell.dds_reach]}")


def _memory(resolved: ResolvedRun) -> Finding:
    readers = sum(camera.backend == "topic" for camera in resolved.cameras.values())
    return host.judge_shared_memory(shutil.disk_usage(SHARED_MEMORY).free, readers)


def _learner(resolved: ResolvedRun) -> list[Finding]:
    """Check what the learner would compute on here or, for one on another machine, that it answers."""
    address = resolved.cell.learner_address
    if address.startswith(LOOPBACK):
        return [host.measure_gpu(resolved)]
    try:
        status = learner_status(address, security=security_of(resolved.cell.learner_certs, "actor"))
    except StackError as error:
        return [finding.warn("learner", f"{error}")]
    return [finding.ok("learner", f"{address} answers: {status.phase}")]


def _examine(resolved: ResolvedRun, cell: CellWatch, seconds: float, enter: Enter | None, logs: Path) -> list[Finding]:
    from robot_stack.nodes.tools.doctor import DoctorNode, commands, may_be_empty, round_trips
    from robot_stack.nodes.tools.listening import listening

    namespace = namespace_of(resolved)
    names = [row.name for row in cell_processes(resolved, RUNS)]
    with listening(lambda: DoctorNode(resolved, namespace, names)) as here:
        node = here.node
        say(f"waiting for {', '.join(names)}")
        here.listen(START_S + DEVICES_S, _Settled(node, cell))
        if cell.ending():
            return _not_started(resolved, here, cell, logs)
        if missing := node.missing():
            say(f"nothing is heard of {', '.join(missing)}: all else is looked at briefly, and nobody is asked")
            seconds, enter = min(seconds, BRIEF_S), None
        node.forget()
        here.starved_s = 0.0
        say(f"listening for {seconds:g} s; leave the device alone")
        here.listen(seconds, lambda: bool(cell.ending()))
        trips = round_trips(here, ROUND_TRIPS)
        alone = resolved.cell.learner_address.startswith(LOOPBACK)
        synchronised, error_s = host.clock_synchronised()
        findings = [
            *host.judge_load(here.starved_s),
            *graph.judge_nodes(names, list(node.beats), node.stages, logs, cell.failures),
            host.judge_round_trip(*trips),
            host.judge_clock(node.offsets_s, synchronised=synchronised, error_s=error_s, alone=alone),
            *graph.judge_graph(
                node.endpoints(),
                commands=[f"/{namespace}/{topic}" for topic in commands(list(resolved.robots))],
                absent=[f"/{namespace}/{topic}" for topic in may_be_empty(resolved)],
            ),
            *graph.judge_frames(
                [frame for robot in resolved.robots.values() for frame in (robot.base_frame, robot.tcp_frame)],
                node.frames,
            ),
            *(
                streams.judge_camera(each, node.cameras[each], camera, logs)
                for each, camera in resolved.cameras.items()
            ),
        ]
        for name, said in node.handshakes.items():
            findings += judge_handshake(resolved, name, said)
        for name, arm in resolved.arms.items():
            heard = node.arms[name]
            rest = streams.axis_means(list(heard.twists))
            findings += [
                *streams.judge_state(heard.states, heard.state, heard.fault, resolved, arm, logs),
                streams.judge_safety(heard.decisions, node.mode, resolved, logs),
                streams.judge_teleop(heard.samples, rest, logs, deadman=heard.deadman, config=arm.teleop),
            ]
        findings += [finding.fail("message", f"{topic}: {text}") for topic, text in node.refused.items()]
        return findings + _with_person(resolved, here, enter, missing)


class _Settled:
    """Condition that all of a cell that starts has come up, its processes and their devices, or that no more will.

    Args:
        node: Hears of them.
        cell: Watches their processes.
        least_s: For which others may still fail after the first failure; None to stop at the first.
    """

    def __init__(self, node: DoctorNode, cell: CellWatch, *, least_s: float | None = None) -> None:
        self._node, self._cell, self._least_s = node, cell, least_s
        self._heard, self._since_s = 0, time.monotonic()
        self._begun_s = self._since_s

    def __call__(self) -> bool:
        node, now_s = self._node, time.monotonic()
        if len(node.beats) > self._heard:  # a process has come up: its devices have their time from now on
            self._heard, self._since_s = len(node.beats), now_s
        failed = bool(self._cell.ending())
        if failed and (self._least_s is None or now_s < self._begun_s + self._least_s):
            return self._least_s is None
        dead = self._cell.failures if failed else {}  # before that, what has failed once is being started again
        if not node.missing(dead):
            return True
        silent = [name for name in node.silent() if name not in dead]
        waits_for_none = not silent or self._cell.hang(silent)
        return waits_for_none and now_s - self._since_s >= DEVICES_S


def judge_handshake(resolved: ResolvedRun, arm: str, said: Mapping[str, str]) -> list[Finding]:
    """Judge what an arm's driver answered about each field of its robot file; name the line to change."""
    part = f"robots.{arm}" if resolved.cell.arms else "robot"
    findings = []
    for field in [field for field, word in said.items() if word == Standing.CONTRADICTED]:
        node, _ = resolved.tree.nearest([*part.split("."), *field.split(".")])
        findings.append(finding.fail("driver", f"{node.mark.origin}: {said[field + WHY]}"))
    unasked = sorted(field for field, word in said.items() if word == Standing.UNASKABLE)
    if unasked:
        text = f"{arm}: {', '.join(unasked)} cannot be asked for here; compare by hand"
        findings.append(finding.warn("driver", text))
    agreed = sorted(field for field, word in said.items() if word == Standing.AGREED)
    if agreed and not findings:
        findings.append(finding.ok("driver", f"{arm}: says what the robot file says of {', '.join(agreed)}"))
    return findings


def _first_motion(resolved: ResolvedRun, findings: Sequence[Finding], *, dry: bool) -> list[Finding]:
    """Move each arm a little while an operator holds the deadman, if nothing failed so far."""
    failed = sorted({each.check for each in findings if each.level is Level.FAIL} - NOT_NEEDED)
    if failed:
        text = f"nothing was moved, because of {', '.join(failed)}; mend that first"
        return [finding.warn("move", text)]
    simulated = resolved.simulated
    enter = None if dry else Enter.on_terminal()
    if not simulated and enter is None:
        return [finding.fail("move", "nobody was asked; run --move on a terminal, without --dry, at the arm")]
    from robot_stack.nodes.tools.doctor import DoctorNode
    from robot_stack.nodes.tools.listening import listening

    names = [row.name for row in cell_processes(resolved, RUNS)]
    place = RUNS / "doctor" / f"{resolved.name}_move"
    with (
        own_cell(resolved, place, running=False, stand_ins={TELEOP: FIRST_MOTION}) as cell,
        listening(lambda: DoctorNode(resolved, namespace_of(resolved), names)) as here,
    ):
        here.listen(START_S, lambda: bool(cell.ending()) or not here.node.missing())
        refusal = _begin_motion(here, cell.ending, enter if not simulated else None)
        if refusal:
            return [finding.fail("move", refusal)]
        here.listen(MOVE_S, lambda: bool(cell.ending()) or set(here.node.motions) == set(resolved.robots))
        _request(here, "end_episode")
        _request(here, "disarm")
        return [each for arm in resolved.robots for each in _verdicts(here, arm)]


def _begin_motion(here: Listening[DoctorNode], ending: Callable[[], str], enter: Enter | None) -> str:
    """Arm the cell and begin the first motion; return why that cannot be, or ""."""
    if ending():
        return ending()
    say(MOVE_TEXT)
    if enter is not None:
        enter.ask(
            "let go of the deadman, put a hand on the stop, press Enter to arm; then hold the deadman until it is over"
        )
        if not here.listen(PERSON_S, enter.pressed):
            return "nobody pressed Enter; run it again"
    refusals: list[str] = []

    def begun() -> bool:
        mode = None if here.node.mode is None else here.node.mode[0]
        refusal = _request(here, "arm") if mode is Mode.DISARMED else ""
        refusals.append(refusal or _request(here, "start_demo"))
        return not refusals[-1]

    return "" if here.listen(ARMING_S, begun) else f"cell was not armed: {refusals[-1]}"


def _verdicts(here: Listening[DoctorNode], arm: str) -> list[Finding]:
    verdicts = here.node.motions.get(arm)
    if verdicts is None:
        mode = here.node.mode
        state = "the safety process was silent" if mode is None else f"mode {mode[0]}: {mode[1] or 'no reason'}"
        return [finding.fail("move", f"{arm} was not moved along every axis within {MOVE_S:g} s; {state}")]
    return [
        (finding.ok if each.kind is Trouble.NONE else finding.fail)("move", f"{arm} {each.text}") for each in verdicts
    ]


def _request(here: Listening[DoctorNode], name: str) -> str:
    from robot_stack.nodes.tools.doctor import request

    return request(here, name)


def _not_started(resolved: ResolvedRun, here: Listening[DoctorNode], cell: CellWatch, logs: Path) -> list[Finding]:
    """Return all that is missing beside a process that has failed, so that it is mended at once.

    That is every other process that fails or says nothing, and every camera, arm and device that is not heard of
    although its process lives.
    """
    node = here.node
    here.listen(START_S, _Settled(node, cell, least_s=OTHERS_S))
    dead = cell.failures
    return [
        *(finding.fail("node", how) for how in list(dead.values()) or [cell.ending()]),
        *graph.judge_silent([name for name in node.silent() if name in cell.alive() and name not in dead], logs),
        *(streams.judge_camera(each, node.cameras[each], resolved.cameras[each], logs) for each in node.blind(dead)),
        *(
            each
            for name in node.still(dead)
            for each in streams.judge_state(node.arms[name].states, None, None, resolved, resolved.arms[name], logs)
        ),
        *(
            streams.judge_teleop(node.arms[name].samples, {}, logs, deadman=False, config=resolved.arms[name].teleop)
            for name in node.untold(dead)
        ),
    ]


def _with_person(
    resolved: ResolvedRun, here: Listening[DoctorNode], enter: Enter | None, missing: Sequence[str]
) -> list[Finding]:
    """Check axes, deadman and emergency stop, if there is an operator to ask and nothing is missing."""
    if any(teleop.device == "scripted" for teleop in resolved.teleops.values()):
        return [operator.skipped(check, "the device is a script") for check in ("teleop", "estop")]
    if enter is None:
        once = "nobody is asked before all is there" if missing else "nobody was asked"
        why = f"{once}; run it on a terminal, without --dry"
        return [operator.skipped(check, why) for check in ("teleop", "estop")]
    return [*(_axes(arm, here, enter) for arm in resolved.arms.values()), _estop(here, enter)]


def _axes(arm: RunArm, here: Listening[DoctorNode], enter: Enter) -> Finding:
    heard, axes, device = here.node.arms[arm.name], arm.action.axes, arm.teleop.device
    heard.reaches, heard.deadman = {}, False
    enter.ask(
        f"drive {arm.name}: move {', '.join(axes)} of the {device} both ways, press its deadman; Enter skips the rest"
    )
    here.listen(PERSON_S, lambda: enter.pressed() or (heard.deadman and not operator.unmoved(heard.reaches, axes)))
    return operator.judge_axes(device, heard.reaches, axes, deadman=heard.deadman)


def _estop(here: Listening[DoctorNode], enter: Enter) -> Finding:
    from robot_stack.nodes.tools.doctor import request

    node = here.node
    node.stops, node.stop_pressed_ns = [], None
    enter.ask("press the emergency stop; Enter skips")
    pressed = here.listen(PERSON_S, lambda: enter.pressed() or any(stopped for _, stopped in node.stops))
    pressed = any(stopped for _, stopped in node.stops)
    if not pressed:
        return operator.judge_estop(pressed=False, seen_ms=None, released=False, refusal="")
    seen_ms = (node.stops[0][0] - node.stop_pressed_ns) / 1e6 if node.stop_pressed_ns is not None else None
    refusal, deadline_s = "", time.monotonic() + PERSON_S
    enter.ask("release it, then press Enter: that clears the stop")
    while time.monotonic() < deadline_s:
        if not here.listen(PERSON_S, enter.pressed):
            break
        refusal = request(here, "clear_stop")
        if not refusal:
            break
        enter.ask(f"not cleared: {refusal}; press Enter to try again")
    released = here.listen(1.0, lambda: not node.stops[-1][1])
    return operator.judge_estop(pressed=True, seen_ms=seen_ms, released=released, refusal=refusal)
