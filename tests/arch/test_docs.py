"""The pages speak of what there is: messages, verbs, files."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from robot_stack.cli.main import VERBS
from tests.arch.source_tree import PACKAGES, ROOT, python_files, tree
from tests.chromium import CHROMIUM, QUIET

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
HEADINGS = re.findall(r"^### (.+)$", (ROOT / "docs/troubleshooting.md").read_text(), flags=re.MULTILINE)
MESSAGES = [message for heading in HEADINGS for message in re.findall(r"`([^`]+)`", heading)]


@cache
def spoken() -> str:
    """All texts of the code, one a line, with a mark where a value goes."""
    texts = [(ROOT / "Makefile").read_text().replace("$$library", "…")]
    for path in python_files(*PACKAGES):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.JoinedStr):
                parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(re.sub(r"\{\w*\}", "…", node.value))
    return "\n".join(texts)


def is_spoken(message: str) -> bool:
    """True if one text of the code has all the parts of the message, in order."""
    parts = [re.escape(part.strip()) for part in message.split("…")]
    return re.search(".*".join(parts), spoken()) is not None


def test_made_up_message_is_not_found() -> None:
    assert not is_spoken("camera … has sent no picture; is its process running?")
    assert not is_spoken("number of … is missing from the mode of the checkpoint")


@pytest.mark.parametrize("message", MESSAGES)
def test_message_in_the_troubleshooting_page_is_one_that_the_code_says(message: str) -> None:
    assert is_spoken(message)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_nothing_is_left_to_be_filled_in(page: Path) -> None:
    assert re.findall(r"\b(?:FIGURES?|TODO|TBD|FIXME|XXX)\b", page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"(?<!!)\[[^\]]+\]\(([^)#]+)\)", page.read_text())
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as `make docs` builds them, without a warning."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_has_every_page(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert [page for page in pages if not (site / page).is_file()] == []


def test_formulas_are_drawn_by_the_browser_itself(site: Path) -> None:
    """No page shows the source of one."""
    for path in (ROOT / "docs").rglob("*.md"):
        text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.DOTALL)
        page = (site / path.relative_to(ROOT / "docs").with_suffix(".html")).read_text()
        assert page.count("<math") == len(re.findall(r"\$\$.+?\$\$|\$[^\s$][^$]*\$", text, flags=re.DOTALL)), path
        assert "arithmatex" not in page, path
    assert "<math" in (site / "algorithms/rlpd.html").read_text()


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")
def test_pages_are_read_and_searched_from_disk_and_fetch_nothing(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    fetched: list[str] = []
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        page = browser.new_page()
        page.on("request", lambda request: fetched.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.locator("input.md-search__input").click()
        page.keyboard.type("deadman")
        found = page.locator(".md-search-result__item").filter(has_text="Teleoperation devices")
        playwright.expect(found.first).to_be_visible(timeout=20_000)
        browser.close()
    assert not [url for url in fetched if not url.startswith(("file:", "data:", "blob:"))]


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_code_is_highlighted_and_copied_by_its_button_from_disk(site: Path, scheme: str) -> None:
    """Also on the start page, with its picture and the two commands."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        context = browser.new_context(color_scheme=scheme, permissions=["clipboard-read", "clipboard-write"])
        page = context.new_page()
        page.goto((site / "index.html").as_uri())
        playwright.expect(page.locator("article img").first).to_be_visible()
        assert page.evaluate("[...document.querySelectorAll('article img')].every((each) => each.naturalWidth > 0)")
        block = page.locator("article .highlight").filter(has_text="make sim").first
        block.hover()
        block.locator(".md-clipboard, [data-md-type=copy]").first.click()
        copied = page.wait_for_function("navigator.clipboard.readText()", timeout=20_000).json_value()
        assert copied.splitlines()[0].startswith("make sim")
        assert copied.strip() == block.locator("code").inner_text().strip()
        page.goto((site / "adding.html").as_uri())
        colours = page.evaluate(
            """() => [...document.querySelectorAll(".highlight code")].map((code) =>
                new Set([...code.querySelectorAll("span[class]")].map((each) => getComputedStyle(each).color)).size)"""
        )
        assert max(colours) >= 4
        browser.close()


def test_commands_in_the_pages_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    for page in PAGES:
        text = page.read_text()
        assert set(re.findall(r"`robot-stack (\w[\w-]*)", text)) <= set(VERBS), page
        assert set(re.findall(r"(?:`|^)make ([a-z]+)", text, flags=re.MULTILINE)) <= targets, page


def test_paths_in_backticks_exist() -> None:
    for page in PAGES:
        named = re.findall(
            r"`((?:robot_stack|policies|reward_models|sim|tests|docs|hardware_configs)/[\w./]*)`", page.read_text()
        )
        assert not [path for path in named if not (ROOT / path).exists()], page


def test_the_safety_page_has_a_measured_row_for_every_fault() -> None:
    text = (ROOT / "docs/safety.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", text, flags=re.MULTILINE)
    source = tree(ROOT / "tests/faults/matrix_rows.py")
    texts = {node.value for node in ast.walk(source) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    marked = {
        int(mark)
        for path in (ROOT / "tests/faults").glob("test_matrix_*.py")
        for mark in re.findall(r"@pytest\.mark\.row\((\d+)\)", path.read_text())
    }
    assert [int(row[0]) for row in rows] == sorted(marked)
    assert all({row[1], row[2]} <= texts for row in rows), "make faults, then python -m tests.faults.write_table"
