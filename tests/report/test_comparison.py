"""Runs side by side on one page."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from robot_stack.cli.main import main
from robot_stack.report.comparison import LOOKS, _read, by_configuration, draw, short_names, write_comparison
from robot_stack.types.errors import ConfigError, StoreError
from tests.report.fake_run import write_run


@pytest.fixture(scope="module")
def other_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of another seed, less trained online, with another number of demonstrations."""
    folder = tmp_path_factory.mktemp("others") / "peg_again"
    write_run(folder, demos=5, online=22, stored=0, seed=3)
    return folder


def rows_of(page: Path) -> dict[str, list[str]]:
    """First cell of each line of a table -> the others, as text."""
    lines = re.findall(r"<tr>(.*?)</tr>", page.read_text(encoding="utf-8"))
    cells = [
        [
            re.sub("<[^>]+>", "", cell).replace("\N{NO-BREAK SPACE}", " ")
            for cell in re.findall(r"<t[dh].*?>(.*?)</t[dh]>", line)
        ]
        for line in lines
    ]
    return {row[0]: row[1:] for row in cells}


def test_each_figure_stands_beside_its_like_and_its_target(own_run: Path, other_run: Path) -> None:
    rows = rows_of(write_comparison([own_run, other_run]))
    assert rows["figure"] == ["peg", "peg_again", "target"]
    assert rows["training episodes"] == ["30 ✓", "22 ✓", "at most 250"]
    assert rows["demonstrations"][:2] == ["3 ✓", "5 ✓"]


def test_a_score_that_one_run_has_alone_stands_beside_nothing(own_run: Path, other_run: Path) -> None:
    path = own_run / "eval_policy.json"
    parts = {"insertion": 75.0, "contact": -6.0}
    score = {"mean": 69.0, "most": 99.0, "parts": parts, "forced": 0, "touched": 1}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"score": score}))
    for runs in ([own_run, other_run], [other_run, own_run]):
        rows = rows_of(write_comparison(runs))
        beside = dict(zip(rows["figure"], rows["score of the policy as an insertion"], strict=True))
        assert beside["peg"].startswith("69.0 of 99")
        assert beside["peg_again"] == "-"
        assert rows["training episodes"] == ["30 ✓" if name == "peg" else "22 ✓" for name in rows["figure"][:2]] + [
            "at most 250"
        ]


def test_only_what_differs_in_the_configuration_is_listed(own_run: Path, other_run: Path) -> None:
    rows = rows_of(write_comparison([own_run, other_run]))
    assert rows["run.seed"] == ["0", "3"]
    assert not [key for key in rows if key.startswith("task.") or key == "run.cell"]


def test_a_run_and_its_copy_differ_in_nothing(own_run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(own_run, tmp_path / "again"))
    assert "the same configuration, to the letter" in write_comparison([own_run, copy]).read_text(encoding="utf-8")


def test_the_page_is_one_file_and_shows_the_curves(own_run: Path, other_run: Path) -> None:
    text = write_comparison([own_run, other_run]).read_text(encoding="utf-8")
    assert text.count("data:image/svg+xml;base64,") == 1
    assert not re.search(r"<script src|<link|url\(|(src|href)=['\"](?!data:)", text)


def test_a_run_that_has_not_trained_online_has_figures_and_no_curve(own_run: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    text = write_comparison([empty, Path(shutil.copytree(empty, tmp_path / "also"))]).read_text(encoding="utf-8")
    assert "not known" in text
    assert "data:image" not in text
    beside = write_comparison([own_run, empty]).read_text(encoding="utf-8")
    assert "the configuration of empty cannot be read" in beside
    assert "Different tasks: an unknown task, peg_insert" in beside


@pytest.mark.parametrize(("count", "words"), [(1, "are 1, must be 2 to 100"), (101, "are 101, must be 2 to 100")])
def test_too_few_or_too_many_are_refused(tmp_path: Path, count: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        write_comparison([tmp_path / str(number) for number in range(count)])


def test_runs_of_one_configuration_are_pooled_over_their_seeds(own_run: Path, other_run: Path) -> None:
    """The evaluations of the fakes are 97 and 52 of 100 each; dry runs have ports of their own."""
    text = (own_run / "run.yaml").read_text()
    assert "127.0.0.1:50051" in text
    (own_run / "run.yaml").write_text(text.replace("127.0.0.1:50051", "127.0.0.1:41093"))
    page = write_comparison([own_run, other_run])
    rows = rows_of(page)
    assert rows["peg and 1 more of its kind"][:3] == [
        "2",
        "194 of 200 (94 to 99 %); by seed 97, 97",
        "104 of 200 (45 to 59 %); by seed 52, 52",
    ]
    groups = by_configuration([_read(own_run, "a"), _read(other_run, "b")])
    assert [[run.name for run in group] for group in groups] == [["a", "b"]]


def test_a_second_run_of_a_seed_is_no_further_seed(own_run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(own_run, tmp_path / "again"))
    assert [len(group) for group in by_configuration([_read(own_run, "a"), _read(copy, "b")])] == [1, 1]


def test_a_run_that_has_only_gone_back_is_left_out_of_the_line_of_the_first_task(
    own_run: Path, other_run: Path, tmp_path: Path
) -> None:
    back = Path(shutil.copytree(other_run, tmp_path / "back"))
    rows = [json.loads(line) for line in (back / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        if "first_task" in row:
            row["first_task"] = False
    (back / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert draw([[_read(own_run, "a"), _read(back, "b")]], tmp_path / "plots/x.png")
    assert draw([[_read(back, "b")]], tmp_path / "plots/y.png")


def test_another_setting_is_another_configuration(own_run: Path, other_run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(other_run, tmp_path / "changed"))
    text = (copy / "run.yaml").read_text()
    (copy / "run.yaml").write_text(text.replace("\n    demos: 6", "\n    demos: 7"))
    page = write_comparison([own_run, copy])
    assert rows_of(page)["run.training.demos"] == ["6", "7"]
    assert "Seeds together" not in page.read_text(encoding="utf-8")


def changed(run: Path, folder: Path, demos: int, seed: int = 0) -> Path:
    """A copy of a run, of another configuration or seed."""
    shutil.copytree(run, folder)
    text = (run / "run.yaml").read_text()
    assert "\n    demos: 6" in text
    assert "\n  seed: 0" in text
    text = text.replace("\n    demos: 6", f"\n    demos: {demos}").replace("\n  seed: 0", f"\n  seed: {seed}")
    (folder / "run.yaml").write_text(text)
    return folder


def test_every_run_of_a_study_is_on_the_page(tmp_path: Path) -> None:
    """Twenty-four of them: eight configurations, three seeds each."""
    run = tmp_path / "one"
    write_run(run, demos=3, online=24, stored=0)
    folders = [
        changed(run, tmp_path / f"demos{demos}_seed{seed}", demos, seed) for demos in range(3, 11) for seed in range(3)
    ]
    page = write_comparison(folders)
    rows = rows_of(page)
    assert rows["figure"] == [*(folder.name for folder in folders), "target"]
    assert rows["run.seed"] == [str(seed) for _ in range(8) for seed in range(3)]
    assert "<title>24 runs, from demos3_seed0 to demos10_seed2</title>" in page.read_text(encoding="utf-8")
    assert sum(name.endswith("and 2 more of its kind") for name in rows) == 8
    told = json.loads((folders[0] / "plots/comparison.json").read_text())
    assert len(told[0]["curves"]) == 16, "success and human steps of each configuration"


def test_lines_of_different_configurations_look_different() -> None:
    assert len(set(LOOKS)) == len(LOOKS) == 36
    assert len({colour for colour, _ in LOOKS[:6]}) == 6


def test_more_configurations_than_looks_of_a_line_are_refused(own_run: Path, tmp_path: Path) -> None:
    text, folders = (own_run / "run.yaml").read_text(), []
    for number in range(37):
        folder = tmp_path / f"demos{number}"
        folder.mkdir()
        (folder / "run.yaml").write_text(text.replace("\n    demos: 6", f"\n    demos: {number + 3}"))
        folders.append(folder)
    with pytest.raises(ConfigError, match="of 37 configurations, must be of at most 36"):
        write_comparison(folders)


def test_one_named_twice_and_one_that_is_not_there_are_refused(own_run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must differ"):
        write_comparison([own_run, own_run / ".." / own_run.name])
    with pytest.raises(StoreError, match="must be an existing folder"):
        write_comparison([own_run, tmp_path / "nowhere"])
    assert not (own_run / "comparison.html").exists()


def test_namesakes_are_told_apart_by_their_parents() -> None:
    assert short_names([Path("/a/peg"), Path("/b/peg")]) == ["a/peg", "b/peg"]
    assert short_names([Path("/a/one"), Path("/a/two")]) == ["one", "two"]


def test_from_the_command_line(own_run: Path, other_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(own_run), str(other_run)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"Report: {folder / 'report.html'}" for folder in (own_run, other_run)]
    assert lines[2] == f"Side by side: {own_run.resolve() / 'comparison.html'}"
