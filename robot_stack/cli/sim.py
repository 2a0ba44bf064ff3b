"""`robot-stack sim`: the dry run. The real processes, with MuJoCo in the robot's place, to a report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from policies.encoders.registry import find_encoder
from reward_models.live import find_live
from robot_stack.cli.checked_run import load_checked
from robot_stack.cli.extras import check_ros, check_torch
from robot_stack.cli.run_folder import RUNS
from robot_stack.cli.supervise import PageAddress
from robot_stack.config.cross import LEAST_DEMOS
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.disk.durable import write_durable
from robot_stack.processes.child import die_with_parent, terminate_as_interrupt
from robot_stack.processes.memory import tree_megabytes
from robot_stack.processes.prepared_run import PreparedRun, free_address, prepared
from robot_stack.processes.supervisor import ARM_LOST, Supervisor
from robot_stack.processes.table import ONE_THREAD, ProcessSpec, process_table
from robot_stack.report.live import LiveView, RunBudget
from robot_stack.runs.beginning import Beginning, command_line
from robot_stack.runs.evaluation import counted_before
from robot_stack.runs.folder import Part, begun, check_own
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.stage import Stage, StageName
from robot_stack.transport.access.security import actor_credentials
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.calls import learner_status
from robot_stack.types.errors import ConfigError, StackError, TransportError
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_local_cell

QUICK = (
    "training.demos=3",
    "training.max_episodes=6",
    "training.eval_episodes=4",
    "algorithm.settings.pretrain_updates=150",
)
"""Every phase in four minutes; the success figure needs the real thing."""
QUICK_ENCODER = "encoder.settings.steps=40"
"""For encoders that are trained."""
QUICK_REWARD = "reward.settings.steps=120"
"""For reward models that are."""
QUICK_CLONE = {
    "dsrl": "algorithm.settings.base_updates=100",
    "jump_start": "algorithm.settings.guide_updates=100",
    "residual": "algorithm.settings.base_updates=100",
}
"""What is cloned first must fit into the updates before online training."""
TASK = "peg_insert"
"""The run of a dry run that names none."""
MADE_BY = "MAKELEVEL"
"""Set by make for what it starts."""
POLL_S = 0.5
MEMORY_S = 5.0


def quick_settings(task: str, asked: Sequence[str], overrides: Sequence[str], root: Path | None) -> list[str]:
    """Return what was asked and the settings that make it quick, as far as the run's algorithm and encoder have them.

    Raises:
        ConfigError: If the run is wrong without them.
    """
    resolved = load_run(task, [*asked, *overrides], root)
    run, turns = resolved.run, len(resolved.task.turns)
    settings = [*asked, *QUICK]
    if turns > 1:
        settings.append(f"training.demos={LEAST_DEMOS * turns}")
    if "steps" in find_live(run.reward.name).config.model_fields:
        settings.append(QUICK_REWARD)
    if run.algorithm.name in QUICK_CLONE:
        settings.append(QUICK_CLONE[run.algorithm.name])
    if "steps" in find_encoder(run.encoder.name).config.model_fields:
        settings.append(QUICK_ENCODER)
    return settings


class ArmLostError(StackError):
    """End of online training because a process that holds the arm failed."""


@dataclass(slots=True, kw_only=True)
class DryRun:
    """State of a dry run: its folder, its configuration, and what it has taken so far.

    Attributes:
        plain: One line every few seconds instead of a live display.
        phases: Wall seconds spent so far, per phase, over all sessions of the run.
    """

    folder: Path
    resolved: ResolvedRun
    plain: bool
    phases: dict[str, float] = field(default_factory=dict)
    peak_mb: float = 0.0


def run(
    name: str | None = None,
    seed: int = 0,
    task: str = TASK,
    algorithm: str | None = None,
    quick: bool = False,
    plain: bool = False,
    overrides: Sequence[str] = (),
    root: Path | None = None,
) -> int:
    """Start or resume a dry run; returns the exit code.

    Args:
        name: Of its folder; None: what is asked for has a folder of its own.
        seed: Of everything random.
        task: The run that it rehearses.
        algorithm: Learns instead of the run's.
        quick: Every phase in minutes.
        plain: Lines instead of a live display.
        overrides: Texts `dotted.key=value`.
        root: Of the configuration, beside the shipped one.

    Raises:
        ConfigError: If the configuration is wrong, or the folder is of another run, or that is going on.
        KeyboardInterrupt: If an operator ended it; the text says how to go on.
    """
    name = name or _name(seed, task, algorithm)
    before = Beginning.read(RUNS / name)
    if before is not None and before.quick is not quick:
        has, wanted = ("quick", "whole") if before.quick else ("whole", "quick")
        raise ConfigError(f"{RUNS / name} has a {has} run, asked for is a {wanted} one; choose another NAME")
    asked = [f"seed={seed}"]
    if algorithm is not None:
        asked.append(f"algorithm.name={algorithm}")
    if quick:
        asked = quick_settings(task, asked, overrides, root)
    resolved = load(RUNS / name, task, [*asked, *overrides], root)
    again = _again(name, seed, task, algorithm, quick, overrides, root)
    _try(resolved)
    with begun(resolved, RUNS / name, *Part):
        dry_run = prepare(RUNS / name, resolved, plain=plain or not sys.stdout.isatty())
        return _run(dry_run, Beginning(command=again, quick=quick))


def _name(seed: int, task: str, algorithm: str | None) -> str:
    """Return the name of a dry run that was given none: what is asked for beside the usual."""
    parts = ["sim" if task == TASK else Path(task).stem, algorithm, f"seed{seed}" if seed else None]
    return "-".join(part for part in parts if part)


def _run(dry_run: DryRun, beginning: Beginning) -> int:
    """Go through the phases that are left of a dry run; returns the exit code."""
    say, folder = _Say(dry_run), dry_run.folder
    say.text(f"run {folder.name}: {dry_run.resolved.task.text} (seed {dry_run.resolved.run.seed}) in {folder}")
    beginning.write(folder)
    try:
        with prepared(dry_run.resolved, folder) as ready, terminate_as_interrupt():
            if (told := ready.taken_instead_of(dry_run.resolved.cell.dds_domain)) is not None:
                say.text(told)
            table = process_table(dry_run.resolved, folder)
            with _Window(table, ready, say) as window:
                rows = [row for row in table if not row.window]
                _to_the_report(dry_run, ready, rows, window, say, beginning.command)
    except ArmLostError as error:
        print(error, file=sys.stderr)
        return ARM_LOST
    except KeyboardInterrupt:
        told = f"\nThe robot holds and everything is saved. Go on with: {beginning.command}"
        raise KeyboardInterrupt(told) from None
    finally:
        say.close()
    print(f"Report: {RunPaths(folder).report}\nNext: {_evaluate_more(dry_run)}")
    return 0


def _to_the_report(
    dry_run: DryRun, ready: PreparedRun, table: Sequence[ProcessSpec], window: _Window, say: _Say, again: str
) -> None:
    """Go through the phases that are left, and tell the page's process how the run ends."""
    folder = dry_run.folder
    try:
        if not RunPaths(folder).policy("policy").exists():
            train_online(dry_run, ready, table, window, say)
        evaluate(dry_run, window, say)
        result = report(dry_run, say)
    except KeyboardInterrupt:
        text = "an operator ended it; the robot holds and everything is saved"
        Stage(name=StageName.ENDED, text=text, next_step=again).write(folder)
        raise
    except StackError as error:
        Stage(name=StageName.FAILED, text=str(error), next_step=again).write(folder)
        raise
    text = f"the report is {RunPaths(folder).report}"
    Stage(name=StageName.ENDED, text=text, result=result, next_step=_evaluate_more(dry_run)).write(folder)


def _evaluate_more(dry_run: DryRun) -> str:
    """Return the command that evaluates the policy of a run that has ended on more resets than it did itself."""
    episodes = 2 * dry_run.resolved.run.training.eval_episodes
    return f"robot-stack eval {dry_run.folder.name} --episodes {max(20, episodes)}"


class _Window:
    """The page's process of a dry run, which goes on when the cell has stopped."""

    def __init__(self, table: Sequence[ProcessSpec], ready: PreparedRun, say: _Say) -> None:
        rows = [row for row in table if row.window]
        environment = {**ready.environment, **ONE_THREAD}
        self._supervisor = Supervisor(rows, environment=environment, log_folder=ready.log_folder, say=say.text)
        self._address = PageAddress(ready.folder, say.text)

    def __enter__(self) -> _Window:
        self._supervisor.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._supervisor.stop()

    def look(self) -> None:
        """Start the process again if it has failed, and tell its address; called often."""
        self._supervisor.step()
        self._address.look()


def _again(
    name: str,
    seed: int,
    task: str,
    algorithm: str | None,
    quick: bool,
    overrides: Sequence[str],
    root: Path | None,
) -> str:
    """Return the command that goes on with this run, of make where make began it and has words for all of it."""
    if MADE_BY not in os.environ or overrides or root is not None:
        words = ["sim", "--name", name]
        words += ["--seed", str(seed)] if seed else []
        words += ["--task", task] if task != TASK else []
        words += ["--algorithm", algorithm] if algorithm is not None else []
        words += ["--quick"] if quick else []
        return command_line(*words, overrides=overrides, root=root)
    said = {
        "SEED": str(seed) if seed else None,
        "TASK": task if task != TASK else None,
        "ALGORITHM": algorithm,
        "QUICK": "1" if quick else None,
    }
    return " ".join(["make sim", f"NAME={name}", *(f"{key}={value}" for key, value in said.items() if value)])


def load(folder: Path, task: str, overrides: list[str], root: Path | None) -> ResolvedRun:
    """Load the run of a dry run, whose folder is new or of the same one.

    Raises:
        ConfigError: If the configuration is wrong, or the folder is of another task, seed or spec.
        ModuleNotFoundError: If there is no torch here, or no ROS and the cell has nodes.
    """
    wanted = load_checked(task, [*overrides, f"cell.learner_address={free_address('127.0.0.1:0')}"], root)
    check_ros(wanted)
    check_torch()
    check_own(wanted, folder)
    return wanted


def _try(wanted: ResolvedRun) -> None:
    """Try a step of a run, before anything of it is on the disk.

    Raises:
        RobotError: If nothing can be rendered here.
        SpecError: If an environment's step is none.
    """
    tried = build_local_cell(wanted, 0)
    tried.reset(0)
    tried.start("tried", EpisodeKind.EVAL)
    tried.sleep_until_ns(tried.now_ns() + round(1e9 / wanted.run.rate_hz))
    tried.observe()  # GL, scene and cameras work, an environment makes a step, or a message says what to install
    tried.close()


def prepare(folder: Path, wanted: ResolvedRun, *, plain: bool) -> DryRun:
    """Make the folder of a run, or take up where an earlier start in it ended."""
    RunPaths(folder).log.mkdir(parents=True, exist_ok=True)
    write_durable(RunPaths(folder).resolved, wanted.to_yaml())
    phases = _read_json(RunPaths(folder).phases)
    memory = _read_json(RunPaths(folder).memory)
    return DryRun(folder=folder, resolved=wanted, plain=plain, phases=dict(phases), peak_mb=memory.get("peak_mb", 0.0))


def train_online(dry_run: DryRun, ready: PreparedRun, table: Sequence[ProcessSpec], window: _Window, say: _Say) -> None:
    """Run all processes of the cell until the learner has had enough.

    Raises:
        ArmLostError: If it was one that holds the arm.
        StackError: If a process gives up; the message names its log.
    """
    folder = dry_run.folder
    supervisor = Supervisor(
        table, environment={**ready.environment, **ONE_THREAD}, log_folder=ready.log_folder, say=say.text
    )
    with supervisor:
        _watch(dry_run, supervisor, window, say)
        Stage(name=StageName.CLOSING, text=f"online training is over: {supervisor.ending}").write(folder)
    if not RunPaths(folder).policy("policy").exists():
        logs = RunPaths(folder).log
        failure = ArmLostError if supervisor.exit_code == ARM_LOST else StackError
        raise failure(f"online training ended early: {supervisor.ending}; read {logs}, then run the same command again")


def _watch(dry_run: DryRun, supervisor: Supervisor, window: _Window, say: _Say) -> None:
    credentials = actor_credentials(dry_run.resolved.cell.learner_certs, dry_run.folder)
    before_s = sampled_s = time.monotonic()
    phase = "starting"
    while supervisor.ending is None:
        supervisor.step()
        window.look()
        time.sleep(POLL_S)
        try:
            status = learner_status(
                dry_run.resolved.cell.learner_address, security=credentials, timeout_s=1.0, name="sim"
            )
            phase = status.phase
            say.status(status)
        except TransportError:
            pass  # it starts, or starts again: the supervisor says which
        now_s = time.monotonic()
        dry_run.phases[phase] = dry_run.phases.get(phase, 0.0) + now_s - before_s
        before_s = now_s
        if now_s - sampled_s > MEMORY_S:
            sampled_s = now_s
            dry_run.peak_mb = max(dry_run.peak_mb, tree_megabytes(os.getpid()))
            write_durable(RunPaths(dry_run.folder).memory, json.dumps({"peak_mb": dry_run.peak_mb}))
            write_durable(RunPaths(dry_run.folder).phases, json.dumps(dry_run.phases))


def evaluate(dry_run: DryRun, window: _Window, say: _Say) -> None:
    """Evaluate policy and imitation baseline on the same held-out resets, side by side on two cores.

    Raises:
        StackError: If one of them fails.
    """
    from robot_stack.rollout.params_file import load_params  # loads torch

    started_s = time.monotonic()
    folder = dry_run.folder
    episodes = dry_run.resolved.run.training.eval_episodes
    if not RunPaths(folder).policy("bc").exists():
        text = "the baseline: imitation of the same demonstrations"
        say.phase("cloning", text)
        Stage(name=StageName.CLONING, text=text).write(folder)
        _wait([_python(folder, "baseline", "robot_stack.learner.baseline")], window.look)
    paths = RunPaths(folder)
    versions = {name: load_params(paths.policy(name)).version for name in ("policy", "bc")}
    names = [name for name, now in versions.items() if counted_before(paths.evaluation(name), now) < episodes]
    logs = [RunPaths(folder).log / f"eval_{name}.log" for name in names]
    for log in logs:
        log.unlink(missing_ok=True)

    text = f"{episodes} held-out resets for {' and '.join(names)}"

    def show() -> None:
        window.look()
        done = sum(len(log.read_text().splitlines()) for log in logs if log.exists())
        share = done / max(1, episodes * len(names))
        say.phase("evaluating", text, {"share": share})
        Stage(name=StageName.EVALUATING, text=text, share=share).write(folder)

    _wait([_evaluation(folder, name, episodes) for name in names], show)
    dry_run.phases["evaluation"] = dry_run.phases.get("evaluation", 0.0) + time.monotonic() - started_s
    write_durable(RunPaths(folder).phases, json.dumps(dry_run.phases))


def report(dry_run: DryRun, say: _Say) -> tuple[str, ...]:
    """Write summary, plots and the report, then print the figures on the terminal and return them."""
    from robot_stack.report.write import write_report

    say.phase("report")
    Stage(name=StageName.REPORT, text="it is written").write(dry_run.folder)
    write_report(dry_run.folder)
    say.close()
    summary = json.loads(RunPaths(dry_run.folder).summary.read_text())
    lines = []
    for name in ("policy", "bc"):
        result = summary[name]
        low, high = result["wilson95"] or (0.0, 1.0)
        cycle = "" if result["cycle_s"] is None else f", cycle {result['cycle_s']} s"
        figures = (
            f"{result['success']} of {result['episodes']} held-out resets "
            f"(95 % interval {100 * low:.0f} to {100 * high:.0f} %){cycle}"
        )
        print(f"{name:>6}: {figures}")
        lines.append(f"{name}: {figures}")
    return tuple(lines)


class _Say:
    """Display of a dry run for its operator: live on a terminal, lines elsewhere."""

    def __init__(self, dry_run: DryRun) -> None:
        training = dry_run.resolved.run.training
        budget = RunBudget(
            demos=training.demos,
            max_episodes=training.max_episodes,
            max_robot_minutes=training.max_robot_minutes,
            eval_episodes=training.eval_episodes,
            rate_hz=dry_run.resolved.run.rate_hz,
        )
        self._started_s = time.monotonic() - sum(dry_run.phases.values())  # a run that goes on has worked before
        self._view: LiveView | None = LiveView(budget, title=dry_run.folder.name, plain=dry_run.plain)
        self._view.__enter__()

    def status(self, status: LearnerStatus) -> None:
        if status.phase != "done":
            self.phase(status.phase, status.message, status.counters)

    def phase(self, phase: str, message: str = "", counters: Mapping[str, float] | None = None) -> None:
        if self._view is not None:
            shown = {"phase": phase, "message": message, "counters": counters or {}}
            self._view.update(shown, time.monotonic() - self._started_s)

    def text(self, text: str) -> None:
        if self._view is not None:
            self._view.say(text)

    def close(self) -> None:
        if self._view is not None:
            self._view.__exit__(None, None, None)
            self._view = None


def _evaluation(folder: Path, name: str, episodes: int) -> subprocess.Popen[bytes]:
    return _python(
        folder, f"eval_{name}", "robot_stack.rollout.evaluate",
        "--policy", str(RunPaths(folder).policy(name)),
        "--episodes", str(episodes), "--out", str(RunPaths(folder).evaluation(name)),
    )  # fmt: skip


def _python(folder: Path, log: str, module: str, *more: str) -> subprocess.Popen[bytes]:
    with (RunPaths(folder).log / f"{log}.log").open("ab") as file:
        return subprocess.Popen(
            [sys.executable, "-m", module, "--run", str(RunPaths(folder).resolved), *more],
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ONE_THREAD},
            preexec_fn=die_with_parent,
        )


def _wait(processes: list[subprocess.Popen[bytes]], show: Callable[[], None] = lambda: None) -> None:
    try:
        while any(process.poll() is None for process in processes):
            show()
            time.sleep(POLL_S)
    except BaseException:
        for process in processes:
            process.terminate()
        raise
    codes = [process.returncode for process in processes]
    if any(codes):
        raise StackError(f"evaluation ended with exit codes {codes}, must be 0; read the logs of the run")


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {}
