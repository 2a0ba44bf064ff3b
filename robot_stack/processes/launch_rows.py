"""Prepares a run for `ros2 launch`, which runs in another Python: python -m robot_stack.processes.launch_rows KIND JSON

KIND is "sim", "workcell" or "learner", JSON the arguments of the launch file as texts, with `ros_namespace`: the one
that a launch file which includes it has pushed. The answer is a line of JSON on stdout: `said` for the terminal,
`respawn_delay_s`, the `namespace` of the nodes, and `rows` with name, cmd, env, grace_s, and whether it is a `node`; or
`refused` with a sentence. After it, each line {"ended": name, "code": exit code, "ran_s": seconds} on stdin is answered
by {"then": one of `After`}. The run's folder and DDS domain are claimed until stdin is closed.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from robot_stack.config.files.library import run_of_cell
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.disk.durable import write_durable
from robot_stack.processes.child import wrapped
from robot_stack.processes.prepared_run import choose_table, prepared, usual_folder
from robot_stack.processes.shared_memory import remove_stale
from robot_stack.processes.table import (
    ONE_THREAD,
    RESPAWN_DELAY_S,
    After,
    ProcessSpec,
    Restarts,
    learner_process,
    namespace_of,
)
from robot_stack.runs.folder import Part, begun
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError, StackError

KINDS = ("sim", "workcell", "learner")


def main(arguments: Sequence[str], questions: TextIO, answers: TextIO) -> int:
    """Prepare the run, say its rows and answer questions until there are no more; return the exit code."""
    with ExitStack() as claim:
        try:
            kind, values = arguments[0], json.loads(arguments[1])
            resolved = _run(kind, values)
            said, table, environment = _table(kind, resolved, values, claim)
        except StackError as error:
            _say(answers, {"refused": str(error)})
            return 1
        rows = [_row(spec, environment) for spec in table]
        answer = {"said": said, "respawn_delay_s": RESPAWN_DELAY_S, "namespace": f"/{namespace_of(resolved)}"}
        _say(answers, {**answer, "rows": rows})
        _answer(table, questions, answers)
    return 0


def _table(
    kind: str, resolved: ResolvedRun, values: Mapping[str, str], claim: ExitStack
) -> tuple[str, Sequence[ProcessSpec], Mapping[str, str]]:
    """Return what to say, the processes of the run, and the environment that they share."""
    if kind == "sim":
        _refuse_real_arms(resolved, values["run"])
    cell_only, remote_learner = (values.get(key) == "true" for key in ("cell_only", "remote_learner"))
    # a learner and its cell go on where `train` and `act` do, or they would not meet
    apart = kind == "learner" or (remote_learner and not cell_only)
    usual = Path("runs", resolved.name) if apart else usual_folder(resolved, Path("runs"))
    folder = Path(values["folder"]) if values["folder"] else usual
    parts = {Part.LEARNER} if kind == "learner" else {Part.CELL} if cell_only or remote_learner else set(Part)
    changed = claim.enter_context(begun(resolved, folder, *parts))
    if kind == "learner":
        write_durable(RunPaths(folder).resolved, resolved.to_yaml())
        spec = learner_process(folder, values["address"] or resolved.cell.learner_address)
        said = f"{resolved.name}: the learner; folder {folder}"
        return "\n".join((said, *changed)), [spec], {**os.environ, **ONE_THREAD}
    ready = claim.enter_context(prepared(resolved, folder))
    table = choose_table(
        resolved,
        folder,
        cell_only=cell_only,
        remote_learner=remote_learner,
        self_active=kind == "sim",
    )
    said = f"{resolved.name}: DDS domain {ready.domain}; folder {folder}"
    return "\n".join((said, *changed)), table, ready.environment


def _refuse_real_arms(resolved: ResolvedRun, name: str) -> None:
    """Refuse a run with a real arm where every node is active at once, instead of brought up in order."""
    if resolved.simulated or resolved.is_environment:
        return
    raise ConfigError(
        f"arm {', '.join(resolved.robots)} of run {name} is real, must be simulated: sim.launch.py activates all nodes "
        f"at once; ros2 launch robot_stack workcell.launch.py run:={name}"
    )


def _run(kind: str, values: Mapping[str, str]) -> ResolvedRun:
    if kind not in KINDS:
        raise ConfigError(f"kind of launch is {kind!r}, must be one of {', '.join(KINDS)}; correct the launch file")
    cell, run, overrides = values.get("cell", ""), values["run"], shlex.split(values["set"])
    if not cell and not run:
        raise ConfigError("cell is not given, must be named; cell:=NAME, or run:=NAME")
    name = run or run_of_cell(cell)
    resolved = load_run(name, overrides)
    if cell and resolved.run.cell != cell:
        raise ConfigError(f"cell is {cell!r}, must be {resolved.run.cell!r} with run {run!r}; leave one of them out")
    pushed = values.get("ros_namespace", "").strip("/")
    if not pushed:
        return resolved
    # in the run's own folder, so that the tools that read it look where the nodes are
    return load_run(name, [*overrides, f"cell.namespace={pushed}/{namespace_of(resolved)}"])


def _row(spec: ProcessSpec, environment: Mapping[str, str]) -> dict[str, Any]:
    command = wrapped(spec.argv, python=sys.executable, nice=spec.nice, realtime=spec.realtime)
    return {
        "name": spec.name,
        "cmd": command,
        "env": {**environment, **spec.env},
        "grace_s": spec.grace_s,
        "node": spec.argv[2].startswith("robot_stack.nodes."),
    }


def _answer(table: Iterable[ProcessSpec], questions: TextIO, answers: TextIO) -> None:
    rules = {spec.name: Restarts(spec) for spec in table}
    for line in questions:
        asked = json.loads(line)
        then = rules[asked["ended"]].after(asked["code"], asked["ran_s"])
        if then is After.RESPAWN:
            remove_stale()
        _say(answers, {"then": then})


def _say(answers: TextIO, what: Mapping[str, Any]) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin, sys.stdout))
