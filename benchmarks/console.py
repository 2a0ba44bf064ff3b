"""What the operator's page costs, and how fast it is. Run: python -m benchmarks.console [--quick]

Real processes over DDS: safety, teleop and console. The benchmark publishes the robot's state, a policy's commands and
two cameras of 640x480 at 30 Hz, in a process of its own; one page is open in Chromium, four more are clients that show
nothing. Needs Playwright and Chromium.

update     from publishing what an operator is to do, on a topic, to the frame in which the page has drawn it
playing    the same while the page plays a recorded episode beside the live view
cpu        of the console's process meanwhile, share of one core
take-over  from the keys in the page, deadman and direction at once, to the arrival at the robot of the first command
           that the safety filter decided for the human and that moves
jitter     of the safety filter's ticks, with all pages open and with the console standing still
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sensor_msgs.msg import Image
from std_msgs.msg import String

from benchmarks.fed_cell import FedCell, fed_cell, fed_run
from robot_stack.console.access import ADDRESS_FILE
from robot_stack.console.hub import IMAGE_HEAD
from robot_stack.console.web import build_digest
from robot_stack.nodes import topics
from robot_stack.nodes.conversion import image_to_msg
from robot_stack.nodes.qos import LATCHED, NEWEST
from robot_stack.processes.table import console_process
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import EpisodeRow
from robot_stack.types.command import Mode, Source
from robot_stack.types.transition import EpisodeKind
from tests.datasets.data_rig import made_episode, made_spec, write_folder

DOMAIN = 91
ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT, IMAGES_HZ = 640, 480, 30.0
WATCHERS = 4
UPDATES, QUICK_UPDATES = 200, 20
TAKE_OVERS, QUICK_TAKE_OVERS = 60, 8
JITTER_S, QUICK_JITTER_S = 20.0, 4.0
UPDATE_LIMIT_MS, TAKE_OVER_LIMIT_MS, CPU_LIMIT = 150.0, 200.0, 0.25
WAIT_S, PATIENCE_S = 20.0, 3.0
MOVING = 1e-3
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync")  # fmt: skip
OBSERVE = """() => {
    window.drawn = {};
    const what = document.getElementById('do');
    new MutationObserver(() => {
        const text = what.textContent;
        requestAnimationFrame(() => { window.drawn[text] = window.drawn[text] || Date.now(); });
    }).observe(what, { childList: true, characterData: true, subtree: true });
}"""
PRESS = """(keys) => {
    const at = Date.now();
    for (const [key, code] of keys) dispatchEvent(new KeyboardEvent('keydown', { key, code, bubbles: true }));
    return at;
}"""
LET_GO = """(keys) => {
    for (const [key, code] of keys) dispatchEvent(new KeyboardEvent('keyup', { key, code, bubbles: true }));
}"""
KEYS = [(" ", "Space"), ("k", "KeyK")]
"""What is typed and the key that types it: the page lets go by the key, whatever is typed then."""
RECORDED, RECORDED_STEPS, RECORDED_PX = "000001-online-a", 600, 128
ROUNDS = 4
"""Of updates without and with a recording that plays, in turn: a busy machine is busy for both."""
PLAY = """(on) => {
    const play = document.getElementById('play');
    clearInterval(window.again);
    if ((play.getAttribute('aria-label') === 'pause') !== on) play.click();
    if (on) window.again = setInterval(() => { if (play.getAttribute('aria-label') === 'play') play.click(); }, 50);
}"""


LOOK_MS = 30
"""Between two looks of the benchmark into the page, which would keep it busy; the page takes the times itself."""


def comes(fits: Callable[[], object], page: Any, timeout_s: float) -> bool:
    """Whether something is so in time, letting the browser live meanwhile."""
    deadline_s = time.monotonic() + timeout_s
    while not fits():
        if time.monotonic() > deadline_s:
            return False
        page.wait_for_timeout(LOOK_MS)
    return True


def until(fits: Callable[[], object], what: str, page: Any) -> None:
    """Return once something is so.

    Raises:
        TimeoutError: If it never is.
    """
    if not comes(fits, page, WAIT_S):
        raise TimeoutError(f"{what} not within {WAIT_S:g} s")


def feed_images(cell: FedCell) -> None:
    """Two cameras with something to see, from the thread of the messages."""
    rng = np.random.default_rng(0)
    smooth = np.linspace(0, 255, WIDTH, dtype=np.uint8)[None, :, None] * np.ones((HEIGHT, 1, 3), np.uint8)
    picture = np.where(rng.random((HEIGHT, WIDTH, 1)) < 0.1, rng.integers(0, 256, smooth.shape, np.uint8), smooth)
    for camera in cell.run.cameras:
        publisher = cell.create_publisher(Image, topics.observation(camera), NEWEST)

        def publish(publisher: Any = publisher, camera: str = camera) -> None:
            picture[:8] = rng.integers(0, 256)
            publisher.publish(image_to_msg(picture, time.monotonic_ns(), camera))

        cell.steady_timer(IMAGES_HZ, publish)


def record(folder: Path) -> None:
    """Write an episode of a minute into a run's store, and tell the page of it."""
    paths, spec = RunPaths(folder), made_spec(side_px=RECORDED_PX)
    write_folder(paths.store.root, [made_episode(RECORDED, spec, steps=RECORDED_STEPS, kind=EpisodeKind.ONLINE)])
    log = MetricsLog(paths.metrics)
    seconds = RECORDED_STEPS / spec.rate_hz
    kind = EpisodeKind.ONLINE
    log.log(EpisodeRow(episode_id=RECORDED, episode_kind=kind, steps=RECORDED_STEPS, duration_s=seconds, success=True))
    log.close()


@contextmanager
def started(folder: Path) -> Iterator[tuple[FedCell, str]]:
    """The processes, and the page's address."""
    sizes = [
        f"cameras.{camera}.{key}={size}"
        for camera in ("wrist", "front")
        for key, size in (
            ("width_px", WIDTH), ("height_px", HEIGHT), ("policy_width_px", WIDTH), ("policy_height_px", HEIGHT),
        )
    ]  # fmt: skip
    run = fed_run(folder / "config", DOMAIN, "cell.console.address=127.0.0.1:0", *sizes, device=["cell.teleop=browser"])
    with fed_cell(run, folder / "run", [console_process(run, folder / "run")]) as cell:
        cell.joy_sends = False
        record(folder / "run")
        address = folder / "run" / ADDRESS_FILE
        cell.until(address.exists, "an address", WAIT_S)
        feed_images(cell)
        yield cell, address.read_text().strip()


def ordinary() -> None:
    """Not the feeder's priority."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextmanager
def watchers(url: str) -> Iterator[None]:
    """Clients that are sent everything, in a process of their own."""
    words = [sys.executable, "-m", "benchmarks.console", "--watch", url]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=ordinary) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.terminate()


async def watch(url: str) -> None:
    """As many pages as `WATCHERS`, until ended."""
    from websockets.asyncio.client import connect

    async def page(name: str) -> None:
        async with connect(url.replace("http://", "ws://") + "ws", max_size=None) as socket:
            await socket.send(json.dumps({"k": "hello", "token": "", "page": name, "build": build_digest()}))
            state = image = 0
            async for message in socket:
                if isinstance(message, bytes):
                    image = IMAGE_HEAD.unpack(message[: IMAGE_HEAD.size])[0]
                else:
                    state = json.loads(message).get("n", state)
                await socket.send(json.dumps({"k": "seen", "state": state, "image": image}))

    print("watching", flush=True)
    await asyncio.gather(*(page(f"watcher{number}") for number in range(WATCHERS)))


def updates_ms(cell: FedCell, page: Any, count: int) -> list[float]:
    """Milliseconds from a topic to the screen."""
    prompts = cell.create_publisher(String, topics.PROMPT, LATCHED)
    rng, delays = np.random.default_rng(0), []
    page.evaluate(OBSERVE)
    for number in range(count):
        page.wait_for_timeout(float(rng.uniform(50, 250)))
        shown = f"Do number {number}. Then press 'reset done' (R)."
        told_ms = 1e3 * time.time()
        prompts.publish(String(data=f"do number {number}"))
        until(lambda shown=shown: page.evaluate("(text) => window.drawn[text] || 0", shown), "the update", page)
        delays.append(page.evaluate("(text) => window.drawn[text]", shown) - told_ms)
    prompts.publish(String(data=""))
    return delays


def take_overs_ms(cell: FedCell, page: Any, count: int) -> list[float]:
    """Milliseconds from the keys in the page to the first command at the robot that moves for the human.

    One that fails is done again: on a busy machine a process may fall silent, so that the filter holds, or the page be
    so late that its hand is not believed and must be pressed anew.
    """
    rng, delays, failed = np.random.default_rng(1), [], 0
    while len(delays) < count and failed < count:
        policy_drives(cell, page)
        page.wait_for_timeout(float(rng.uniform(100, 300)))
        first, before = len(cell.decisions), len(cell.commands)
        pressed_ms = page.evaluate(PRESS, KEYS)
        offset_ns = time.time_ns() - time.monotonic_ns()

        def moving(first: int = first) -> int:
            """Stamp of the first decision that moves for the human, or 0."""
            for each in cell.decisions[first:]:
                if each.source is Source.HUMAN and float(np.abs(each.command.twist).max()) > MOVING:
                    return each.command.stamp_ns
            return 0

        comes(lambda moving=moving: moving() or cell.banner[0] is Mode.HOLD, page, PATIENCE_S)
        stamp_ns = moving()
        if stamp_ns:
            until(lambda stamp_ns=stamp_ns: cell.commands[-1].stamp_ns >= stamp_ns, "the command", page)
            arrived_ns = next(each.arrived_ns for each in cell.commands[before:] if each.stamp_ns >= stamp_ns)
            delays.append((arrived_ns + offset_ns) / 1e6 - pressed_ms)
        else:
            failed += 1
            print(f"not taken over: {cell.banner[0]} {cell.banner[1]}", flush=True)
        page.evaluate(LET_GO, KEYS)
        until(lambda: cell.decisions[-1].source is not Source.HUMAN, "letting go", page)
    return delays


def policy_drives(cell: FedCell, page: Any) -> None:
    """Armed, an episode of the policy running, and the page's hand believed."""
    until(cell.believed, "a hand that is believed", page)
    while cell.banner[0] is not Mode.POLICY:
        if cell.banner[0] is Mode.DISARMED:
            cell.request("arm")
        else:
            cell.recovered()
        page.wait_for_timeout(50)
    until(lambda: cell.decisions[-1].source is Source.POLICY, "the policy's turn", page)


def jitter_ms(cell: FedCell, seconds: float, live: Callable[[float], None]) -> float:
    """99th percentile of how far the safety filter's ticks are from their period."""
    first = len(cell.decisions)
    live(seconds)
    stamps = np.array([each.command.stamp_ns for each in cell.decisions[first:]], dtype=np.float64)
    return float(np.percentile(np.abs(np.diff(stamps) / 1e6 - 1e3 / cell.run.safety.rate_hz), 99))


def cpu_s(pid: int) -> float:
    """Time that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(quick: bool = False) -> dict[str, float]:
    """Milliseconds and shares; none without a browser."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("no Chromium: apt-get install chromium")
        return {}
    seconds = QUICK_JITTER_S if quick else JITTER_S
    with (
        tempfile.TemporaryDirectory() as name,
        sync_playwright() as playwright,  # before the feeder takes its priority, which a browser must not have
        playwright.chromium.launch(executable_path=chromium, args=list(FLAGS)) as browser,
        started(Path(name)) as (cell, url),
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(url)
        until(
            lambda: page.evaluate("document.getElementById('seat').textContent").startswith("you are"), "a page", page
        )
        pid = cell.supervisor.pid("console")
        with watchers(url):
            page.locator(f"[data-play='{RECORDED}']").click()
            until(lambda: page.locator("#moment").is_visible(), "the episode", page)
            delays: dict[bool, list[float]] = {False: [], True: []}
            shares: dict[bool, list[float]] = {False: [], True: []}
            for playing in [False, True] * ROUNDS:
                page.evaluate(PLAY, playing)
                begun_s, before_s = time.monotonic(), cpu_s(pid)
                delays[playing] += updates_ms(cell, page, (QUICK_UPDATES if quick else UPDATES) // ROUNDS)
                shares[playing].append((cpu_s(pid) - before_s) / (time.monotonic() - begun_s))
            page.locator("#unplay").click()  # a reload would leave the seat to a watcher
            taken = take_overs_ms(cell, page, QUICK_TAKE_OVERS if quick else TAKE_OVERS)
            with_it = jitter_ms(cell, seconds, lambda s: page.wait_for_timeout(1e3 * s))
            os.kill(pid, signal.SIGSTOP)
            try:
                without = jitter_ms(cell, seconds, time.sleep)
            finally:
                os.kill(pid, signal.SIGCONT)
    return {
        "console_update_ms_p50": float(np.percentile(delays[False], 50)),
        "console_update_ms_p95": float(np.percentile(delays[False], 95)),
        "console_update_playing_ms_p50": float(np.percentile(delays[True], 50)),
        "console_update_playing_ms_p95": float(np.percentile(delays[True], 95)),
        "console_cpu_share": float(np.mean(shares[False])),
        "console_cpu_playing_share": float(np.mean(shares[True])),
        "console_take_over_ms_p50": float(np.percentile(taken, 50)),
        "console_take_over_ms_p95": float(np.percentile(taken, 95)),
        "console_jitter_ms_p99": with_it,
        "console_jitter_without_ms_p99": without,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few of each, to see that it runs")
    parser.add_argument("--watch", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.watch:
        asyncio.run(watch(options.watch))
        return
    figures = measure(quick=options.quick)
    for name, value in figures.items():
        print(f"{name:>32} {value:.3f}")
    limits = (
        ("console_update_ms_p95", UPDATE_LIMIT_MS),
        ("console_take_over_ms_p95", TAKE_OVER_LIMIT_MS),
        ("console_cpu_share", CPU_LIMIT),
    )
    over = [name for name, limit in limits if name in figures and figures[name] > limit]
    if over:
        sys.exit(f"over the limit: {', '.join(over)}")


if __name__ == "__main__":
    main()
