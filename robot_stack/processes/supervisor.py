"""Starts the processes of a table, watches them, restarts or ends them. No ROS in here.

All stay in the session of whoever starts them, each in a process group of its own. The Linux scheduler gives every
session a queue of its own (autogroup), and in one that is mostly asleep a ready thread was seen to wait up to 200 ms
behind busy loops, while its neighbours ran; in a common queue it was 50 ms at most (Linux 6.18, two cores).
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from robot_stack.processes.child import LIBC, PR_SET_PDEATHSIG, take_priority
from robot_stack.processes.shared_memory import remove_stale
from robot_stack.processes.table import RESPAWN_DELAY_S, After, ProcessSpec, Restarts, program_of

POLL_S = 0.05
KILLED_S = 2.0
"""Within which a process that was killed is gone, unless it waits for a device in the kernel."""
FAILED, ARM_LOST = 1, 3
"""Exit codes of a run: a process that it needs failed; one that holds the robot did."""
NAMES = {number.value: number.name for number in signal.Signals}
"""Of signals; real-time ones have none."""
LOG_BYTES = 1 << 20
"""Of a process's log that are searched for its last words."""


class _Child:
    """Process of one row of the table, alive or not."""

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        self.process: subprocess.Popen[bytes] | None = None
        self.restart_s: float | None = None
        self.started_s = 0.0
        self.restarts = 0
        self.rule = Restarts(spec)
        self._log: Path | None = None
        self._logged = 0

    def start(self, environment: Mapping[str, str], log_folder: Path) -> None:
        self._log = log_folder / f"{self.spec.name}.log"
        with self._log.open("ab") as log:
            self._logged = log.tell()
            self.process = subprocess.Popen(
                self.spec.argv,
                env={**environment, **self.spec.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=None if self.spec.speaks else subprocess.STDOUT,
                process_group=0,  # Ctrl-C reaches the supervisor only, which then stops them in order
                preexec_fn=_prepare(self.spec),
            )
        self.started_s, self.restart_s = time.monotonic(), None

    def last_words(self) -> str:
        """Return how the program explained its end: its last line "program: why" since the start, or ""."""
        if self._log is None or len(self.spec.argv) < 3:
            return ""
        program = f"{program_of(self.spec.argv[2])}: "
        try:
            with self._log.open("rb") as log:
                log.seek(max(self._logged, log.seek(0, os.SEEK_END) - LOG_BYTES))
                lines = log.read().decode(errors="replace").splitlines()
        except OSError:  # whoever supervises arms goes on without its words
            return ""
        return next((line.removeprefix(program) for line in reversed(lines) if line.startswith(program)), "")

    def signal(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


class Supervisor:
    """Supervisor of a table of processes: starts, watches, restarts and ends them.

    Usage:
        with Supervisor(table, environment=env, log_folder=folder / "log") as supervisor:
            exit_code = supervisor.run()

    Start it from the main thread: its children get a SIGTERM when the thread that started them ends.
    """

    def __init__(
        self,
        table: Sequence[ProcessSpec],
        *,
        environment: Mapping[str, str],
        log_folder: Path,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Take a table of processes; nothing starts yet.

        Args:
            table: In the order of start.
            environment: Of all processes, whole.
            log_folder: Gets `<name>.log` each.
            say: Receives one sentence per start, end and restart.
        """
        self._children = {spec.name: _Child(spec) for spec in table}
        self._environment = dict(environment)
        self._log_folder = log_folder
        self._say = say
        self._ending: str | None = None
        self._exit_code = 0
        self.failures: dict[str, str] = {}
        """Process -> how it last ended, and in its own words why."""

    def __enter__(self) -> Supervisor:
        try:
            self.start()
        except BaseException:  # those that run by now hold an arm, or deliver to others
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def ending(self) -> str | None:
        """Return why the run is over, or None while it goes on."""
        return self._ending

    @property
    def exit_code(self) -> int:
        """Return the exit code of the run: 0 while it goes on."""
        return self._exit_code

    def pid(self, name: str) -> int:
        """Return the process id of a started process."""
        process = self._children[name].process
        if process is None:
            raise KeyError(f"{name} has not been started")
        return process.pid

    def cpu_s(self, name: str) -> float:
        """Return for how long a process has worked, on all cores together; 0 where it is not alive."""
        process = self._children[name].process
        try:
            fields = "" if process is None else Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2]
        except OSError:
            fields = ""
        return sum(int(ticks) for ticks in fields.split()[11:13]) / os.sysconf("SC_CLK_TCK")

    def restarts(self, name: str) -> int:
        """Return how often a process was started again."""
        return self._children[name].restarts

    def alive(self) -> tuple[str, ...]:
        """Return the names of the processes that run."""
        return tuple(n for n, c in self._children.items() if c.process is not None and c.process.poll() is None)

    def start(self) -> None:
        """Start all processes, in the order of the table."""
        self._log_folder.mkdir(parents=True, exist_ok=True)
        for child in self._children.values():
            child.start(self._environment, self._log_folder)

    def end(self, reason: str, exit_code: int = 0) -> None:
        """End the run: `run` returns. Callable from a signal handler."""
        if self._ending is None:
            self._ending, self._exit_code = reason, exit_code

    def step(self) -> None:
        """Look once at every process, and do what its row says if it has ended."""
        now_s = time.monotonic()
        for child in self._children.values():
            if child.restart_s is not None:
                if now_s >= child.restart_s:
                    child.restarts += 1
                    child.start(self._environment, self._log_folder)
            elif child.process is not None and child.process.poll() is not None:
                self._after_end(child, now_s)

    def run(self, timeout_s: float | None = None, each: Callable[[], None] = lambda: None) -> int:
        """Watch the processes until the run ends; returns the exit code.

        A required process, `end` or the timeout ends it.

        Args:
            timeout_s: Of the run.
            each: Called at each look at the processes.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while self._ending is None:
            self.step()
            each()
            if deadline_s is not None and time.monotonic() >= deadline_s:
                self.end(f"time limit of {timeout_s:g} s reached")
            time.sleep(POLL_S)
        self._say(f"the run ends: {self._ending}")
        return self.exit_code

    def stop_work(self) -> None:
        """Stop all processes but those that show the run or hold the arm: nothing is recorded any more.

        First come those that still deliver to others, the actor to the learner.
        """
        self.end("stopped")
        self._stop([child for child in self._children.values() if child.spec.stop_first])
        self._stop([child for child in self._children.values() if not (child.spec.stop_last or child.spec.window)])

    def stop(self) -> None:
        """Stop all processes: SIGTERM, after the grace of each SIGKILL.

        Those that hold the arm come last; of these the one that started first is the very last, by itself: the robot
        hears the zero of the safety process.
        """
        self.stop_work()
        self._stop([child for child in self._children.values() if not child.spec.stop_last])
        for child in reversed(self._children.values()):
            if child.spec.stop_last:
                self._stop([child])

    def _after_end(self, child: _Child, now_s: float) -> None:
        assert child.process is not None
        code, spec = child.process.returncode, child.spec
        child.process = None
        why = child.last_words() if code else ""
        how = f"{spec.name} ended {_in_words(code)}" + (f": {why}" if why else "")
        if code:
            self.failures[spec.name] = how
        then = child.rule.after(code, now_s - child.started_s)
        if then is After.RESPAWN:
            remove_stale()
            child.restart_s = now_s + RESPAWN_DELAY_S
            self._say(f"{how}; starting it again (log: {spec.name}.log)")
        elif then is After.NOTHING:
            self._say(how)
        else:
            log = self._log_folder / f"{spec.name}.log"
            failed = ARM_LOST if spec.stop_last else FAILED
            self.end(how if code == 0 or why else f"{how}; read {log}", failed if code else 0)

    def _stop(self, children: Iterable[_Child]) -> None:
        begun_s = time.monotonic()
        living = [child for child in children if child.process is not None]
        for child in living:
            child.restart_s = None
            child.signal(signal.SIGCONT)
            child.signal(signal.SIGTERM)
        for child in living:
            assert child.process is not None
            left_s = max(0.0, begun_s + child.spec.grace_s - time.monotonic())
            try:
                child.process.wait(left_s)
            except subprocess.TimeoutExpired:
                self._say(f"{child.spec.name} did not end within {child.spec.grace_s:g} s; killing it")
                self._kill(child, child.process)
            child.process = None

    def _kill(self, child: _Child, process: subprocess.Popen[bytes]) -> None:
        """Kill a process, and go on without it where the kernel does not let go of it: others hold the arm."""
        child.signal(signal.SIGKILL)
        try:
            process.wait(KILLED_S)
        except subprocess.TimeoutExpired:
            self._say(
                f"{child.spec.name} (pid {process.pid}) cannot be killed, the kernel holds it; going on without it"
            )


def _prepare(spec: ProcessSpec) -> Callable[[], None]:
    """Return what a child does before its program: die with the supervisor, take the wanted priority if allowed."""

    def prepare() -> None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        take_priority(spec.nice, spec.realtime)

    return prepare


def _in_words(code: int) -> str:
    if code < 0:
        return f"by {NAMES.get(-code, f'signal {-code}')}"
    return "cleanly" if code == 0 else f"with exit code {code}"
