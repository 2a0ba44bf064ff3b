"""`robot-stack data`: every command of the page about datasets, in order, and what is refused."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from robot_stack.cli.main import main
from robot_stack.datasets.store_view import open_store
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.types.command import Source
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.datasets.data_rig import changed, contents, label, made_episode, made_spec, write_folder

PAGE = Path(__file__).parents[2] / "docs/datasets.md"
COMMANDS = [
    line
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if line.startswith("robot-stack data ")  # the others are of a run that is going on
]
EXCHANGE = [line for line in COMMANDS if re.match(r"robot-stack data (export|import) ", line)]
HERE = all(importlib.util.find_spec(name) for name in ("pyarrow", "av", "mcap_ros2", "rerun"))


def week(root: Path) -> None:
    """Two runs of the same cell, without faults."""
    online = {"kind": EpisodeKind.ONLINE, "end": EndReason.TIMEOUT, "source": Source.POLICY}
    for day, actor in (("monday", "a0"), ("tuesday", "b0")):
        episodes = [
            *(made_episode(f"{i:06d}-demo-{actor}") for i in range(3)),
            *(made_episode(f"{i:06d}-online-{actor}", **online) for i in (3, 4)),
        ]
        labels = [label(f"000003-online-{actor}", Verdict.SUCCESS, LabelSource.MODEL)]
        write_folder(root / "runs" / day / "store", episodes, labels)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("week")
    week(root)
    return root


@pytest.fixture
def there(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with copies of the two runs, which is the current one."""
    shutil.copytree(recorded / "runs", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def say(line: str) -> int:
    program, *arguments = shlex.split(line)
    assert program == "robot-stack"
    return main(arguments)


def test_every_word_is_on_the_page() -> None:
    words = {line.split()[2] for line in COMMANDS}
    assert words == {"list", "show", "check", "edit", "merge", "split", "export", "import"}


def test_commands_of_the_page_work_in_their_order(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(there / "runs")
    for line in COMMANDS:
        if line in EXCHANGE and not HERE:
            continue
        if "import foreign" in line:
            foreign(there / "week-lerobot", there / "foreign")
        if "--advantage" in line:
            scored(there / "week")
        assert say(line) == 0, (line, capsys.readouterr())
        assert capsys.readouterr().out.splitlines()[-1].startswith("Next: "), line
    assert contents(there / "runs") == before
    assert len(open_store(there / "week").episodes) == 10
    assert len(open_store(there / "week-split" / "train").episodes) == 8
    if HERE:
        assert len(open_store(there / "demos-back").episodes) == 5  # one of six is discarded
        assert len(open_store(there / "foreign-store").episodes) == 5
        assert len(list((there / "week-rerun").glob("*.rrd"))) == 9


def scored(folder: Path) -> None:
    """Scores of a reward model for every episode, as a run would have left them."""
    for episode_id in open_store(folder).episodes:
        frames = open_store(folder).read(episode_id, images=False).length + 1
        progress = np.linspace(0, 1, frames, dtype=np.float32)
        found = EpisodeScores(episode_id=episode_id, version="v1", progress=progress, success=progress)
        ScoreFiles(folder / "scores").append(found)


def foreign(ours: Path, out: Path) -> None:
    """The same dataset as another program would have written it."""
    import pyarrow.parquet as pq

    shutil.copytree(ours, out)
    (out / "meta/robot_stack.json").unlink()
    path = out / "meta/episodes/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["robot_stack"]), path)


@pytest.mark.parametrize("line", ["list monday", "show monday", "show monday 000000-demo-a0", "check monday"])
def test_json_is_all_there_is_on_stdout(line: str, there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert say(f"robot-stack data {line} --json") == 0
    assert isinstance(json.loads(capsys.readouterr().out), dict)


def test_list_names_what_is_set_aside(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = there / "runs/monday/store"
    (store / "quarantine").mkdir()
    (store / "episodes/000004-online-a0.zarr").rename(store / "quarantine/000004-online-a0")
    (store / "quarantine/000004-online-a0/reason.txt").write_text("checksum is wrong\n")
    assert say("robot-stack data list monday") == 0
    out = capsys.readouterr().out
    assert "FAIL quarantined 000004-online-a0: checksum is wrong" in out
    assert "000003-online-a0" in out
    assert "4 episodes, 80 steps" in out
    assert re.search(r"000003-online-a0 +online +20 +2\.0 success +model +0%", out)


def test_a_folder_with_a_space_is_one_word_of_the_next_command(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (there / "runs/monday").rename(there / "a week")
    for word, following in (("list", "check"), ("show", "list")):
        main(["data", word, "a week"])
        assert f"robot-stack data {following} 'a week'" in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.skipif(not HERE, reason="pip install 'robot-stack[export,rerun]'")
def test_the_command_for_a_bag_names_one_file_as_ros2_takes_it(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert say("robot-stack data export monday --format mcap --out 'the bags' --kind online") == 0
    command = capsys.readouterr().out.splitlines()[-1].partition(", or ")[2]
    assert shlex.split(command) == ["ros2", "bag", "info", "the bags/000003-online-a0.mcap"]
    assert (there / "the bags/000003-online-a0.mcap").is_file()


def test_check_says_what_is_wrong_and_fails(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = made_episode("000009-demo-a0")
    stamps = good.arrays["stamp_ns"] + 300_000_000 * (np.arange(21) > 5)
    write_folder(there / "bad", [changed(good, stamp_ns=stamps)])
    assert say("robot-stack data check bad") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("FAIL dropped: episode 000009-demo-a0, frames 5 to 6: 0.40 s lie between them")
    assert lines[-2] == "1 episodes checked: 1 failed, 0 warned"
    assert say("robot-stack data show bad 000009-demo-a0") == 0
    assert "FAIL dropped" in capsys.readouterr().out


def test_split_and_merge_say_what_is_where(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert say("robot-stack data split monday --out parts --by kind --json") == 0
    assert json.loads(capsys.readouterr().out)["parts"] == {"demo": 3, "online": 2}
    write_folder(there / "other", [made_episode("000000-demo-a0", seed=9)])
    assert say("robot-stack data merge monday other --out all --json") == 0
    assert json.loads(capsys.readouterr().out)["renamed"] == {"other/000000-demo-a0": "000000-demo-a0-2"}


REFUSED: dict[str, str] = {
    "list nothing": r"run is 'nothing', must be one of monday, tuesday",
    "list runs": r"folder is runs, must hold store\.json or store/store\.json",
    "show monday 000000-demo-b0": r"did you mean '000000-demo-a0'\?",
    "edit monday --out x": "number of changes is 0",
    "edit monday --out x --relabel 000000-demo-a0=good": "is 'good', must be success or failure",
    "edit monday --out x --relabel 000000-demo-a0": r"--relabel is '000000-demo-a0', must be NAME=VALUE",
    "edit monday --out x --note a=1 --note a=2": "--note of a is given twice",
    "edit monday --out x --trim 000000-demo-a0=5": r"is '5', must be A:B",
    f"edit monday --out x --trim 000000-demo-a0={5000 * '9'}:5": r"is '9{59}\.\.\., must be A:B",
    "edit monday --out x --trim 000000-demo-a0=5:99": r"is 5:99, must be two frames of 0:20",
    "edit monday --out x --discard 000000-demo-a0 --relabel 000000-demo-a0=success": "is relabelled and discarded",
    "edit monday --out runs --discard 000000-demo-a0": "output folder is runs, must not exist yet",
    "merge monday --out x": "is 1, must be at least 2",
    "merge monday other --out x": r"spec\.cameras\[0\]\.height_px is 32, must be 16",
    "split monday --out x --share a=0.5 --share b=0.2": "add up to 1",
    "split monday --out x --share a=nan --share b=0.2": "add up to 1",
    "split empty --out x --by kind": "number of episodes in .*empty is 0, must be at least 1",
    "split empty --out x --share a=0.5 --share b=0.5": "number of episodes in .*empty is 0, must be at least 1",
    f"edit monday --out {'x' * 300} --discard 000000-demo-a0": "failed: File name too long",
    "split monday --out x --share a=much --share b=0.2": "share of a is 'much', must be a number; e.g. a=0.8",
    "split monday --out x --share a=0.99 --share b=0.01": "share 'b' is 0 of 5 episodes",
    "export monday --format mcap --out x --kind eval": "is 0 of 5, must be at least 1",
    "import runs --format mcap --out x": r"number of \.mcap files in runs is 0",
    "import runs --format lerobot --out x": r"file runs/meta/info\.json is missing",
    "import runs --format lerobot --out x --like tusday": "tusday",
    "import runs --format lerobot --out x --only-task wipe": "are given without --like, must be with it",
}


@pytest.mark.parametrize("line", REFUSED)
def test_wrong_request_is_one_sentence_and_writes_nothing(
    line: str, there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_folder(there / "other", [made_episode("e", made_spec(side_px=32))])
    (there / "empty/episodes").mkdir(parents=True)
    shutil.copy(there / "runs/monday/store/store.json", there / "empty")
    before = contents(there)
    assert say(f"robot-stack data {line}") == 1
    said = capsys.readouterr()
    assert re.search(REFUSED[line], said.err), said.err
    assert not said.out
    assert contents(there) == before


@pytest.mark.parametrize(
    "line",
    ["", "dance monday", "list", "edit monday", "split monday --out x", "split monday --out x --by luck",
     "export monday --out x", "export monday --out x --format csv", "split monday --out x --by kind --share a=1"],
)  # fmt: skip
def test_wrong_usage_is_exit_code_two(line: str) -> None:
    with pytest.raises(SystemExit) as left:
        say(f"robot-stack data {line}")
    assert left.value.code == 2


def test_damaged_episode_is_left_out_by_name(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunk = next((there / "runs/monday/store/episodes/000001-demo-a0.zarr/proprio").glob("c.*"))
    chunk.write_bytes(b"")
    assert say("robot-stack data edit monday --out x --discard 000000-demo-a0") == 0
    assert "FAIL left out 000001-demo-a0: checksum of" in capsys.readouterr().out
    assert "000001-demo-a0" not in open_store(there / "x").episodes
    assert say("robot-stack data show monday 000001-demo-a0") == 1
    assert "is broken (checksum" in capsys.readouterr().err


@pytest.fixture
def asked(there: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    def ask(line: str) -> str:
        assert say(f"robot-stack data {line}") == 0
        return capsys.readouterr().out

    return ask


def test_note_and_discard_show_in_the_list(asked: Callable[[str], str]) -> None:
    asked("edit monday --out x --discard 000000-demo-a0 --note '000001-demo-a0=slipped = twice'")
    found = {line.split()[0]: line for line in asked("list x").splitlines()}
    assert "discard   operator" in found["000000-demo-a0"]
    assert found["000001-demo-a0"].endswith("slipped = twice")


@pytest.mark.skipif(not HERE, reason="a package is missing: pip install 'robot-stack[export,rerun]'")
def test_export_states_the_image_error_and_leaves_discarded_ones_at_home(
    there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert say("robot-stack data edit monday --out x --discard 000000-demo-a0") == 0
    capsys.readouterr()
    assert say("robot-stack data export x --format lerobot --out y --kind demo") == 0
    said = capsys.readouterr()
    assert re.search(r"camera front: pixels differ by \d\.\d\d of 255 on average, .* \(PSNR \d\d\.\d dB\)", said.out)
    assert "y: 2 episodes, 40 rows, videos h264" in said.out
    assert "exported episode 2 of 2" in said.err
    assert say("robot-stack data export x --format lerobot --out z --episode 000000-demo-a0 --json") == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 1
