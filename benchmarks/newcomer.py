"""What a newcomer waits for: from an empty folder and a new environment to the first frame on the operator's page.

Run: python -m benchmarks.newcomer [--options "..."]

A wheel of this checkout is built. Then, timed: a virtual environment is made, torch and the wheel with the extras of a
dry run are installed by pip (torch as it finds it, where `make sim` sees to a build for the CPU), `robot-stack sim
--quick` is started in an empty folder, and its page is opened in Chromium until a camera's picture is drawn. The
packages come from wherever pip finds them: the seconds say something only beside a warm cache. Megabytes are those of
the downloaded files and of the environment on the disk.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
EXTRAS = "ros,dry-run"
PATIENCE_S = 300.0
DRAWN = """() => [...document.querySelectorAll('.camera canvas')].some((canvas) =>
  canvas.width && canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(
    (value, at) => at % 4 < 3 && value > 20))"""
"""A picture that is not black is in one of the cameras' places."""


def run(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


def megabytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def page_of(started: subprocess.Popen[str]) -> str:
    """The address that the dry run tells.

    Raises:
        SystemExit: If it ends first.
    """
    assert started.stdout is not None
    for line in started.stdout:
        if found := re.match(r"page: (\S+)", line):
            return found[1]
    raise SystemExit("the dry run ended without a page, must tell its address; see its words above")


def measure(options: list[str]) -> dict[str, float]:
    """Seconds and megabytes of each part."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    assert chromium is not None, "chromium is missing"
    torch = re.findall(r"^torch==.+$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder / "dist", ROOT)
        wheel = f"{next((folder / 'dist').glob('*.whl'))}[{EXTRAS}]"
        pip = (folder / "venv" / "bin" / "python", "-m", "pip")
        constrained = ("-c", ROOT / "constraints.txt")
        began_s = time.monotonic()
        run(sys.executable, "-m", "venv", folder / "venv")
        run(*pip, "install", "--quiet", torch)
        run(*pip, "install", "--quiet", *constrained, wheel)
        installed_s = time.monotonic()
        (folder / "empty").mkdir()
        started = subprocess.Popen(
            [folder / "venv" / "bin" / "robot-stack", "sim", "--quick", "--plain", *options],
            cwd=folder / "empty",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
                page = browser.new_page()
                page.goto(page_of(started))
                page.wait_for_function(DRAWN, timeout=PATIENCE_S * 1e3, polling=50)
                drawn_s = time.monotonic()
                browser.close()
        finally:
            os.killpg(started.pid, signal.SIGINT)
            started.communicate(timeout=60)
        run(*pip, "download", "--quiet", "-d", folder / "files", *constrained, torch, wheel)
        return {
            "install_s": installed_s - began_s,
            "first_frame_s": drawn_s - installed_s,
            "in_all_s": drawn_s - began_s,
            "download_mb": megabytes(folder / "files"),
            "disk_mb": megabytes(folder / "venv"),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--options", type=shlex.split, default=[], help="of robot-stack sim")
    print(measure(parser.parse_args().options))
