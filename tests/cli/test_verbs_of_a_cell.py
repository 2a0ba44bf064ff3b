"""record, train, act, deploy and calibrate: what they start, where, and what they refuse."""

from __future__ import annotations

import io
import json
import os
import shutil
from pathlib import Path

import pytest

from robot_stack.cli import act, deploy, main, record, train, up
from robot_stack.cli.cell import measuring
from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.processes import launch_rows
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.runs.beginning import Beginning
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import AlarmRow, RewardFitRow
from robot_stack.transport.access.link_token import FILE, LinkToken
from robot_stack.types.errors import ConfigError
from robot_stack.types.event import Verdict
from robot_stack.types.transition import EndReason
from tests.datasets.data_rig import label, made_episode, write_folder

CELL = ("robot", "safety", "camera_wrist", "camera_front", "teleop", "command_recorder", "console")


@pytest.fixture
def supervised(monkeypatch, tmp_path):
    """Tables that would have been started, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    tables: list = []

    def supervise(resolved, ready, table, timeout_s=None, *, store, onward) -> int:
        tables.append((ready.folder, table))
        print(f"Next: {onward(0)}")
        return 0

    for verb in (record, act, deploy, up):
        monkeypatch.setattr(verb, "supervise", supervise)
    return tables


def names(table) -> tuple[str, ...]:
    return tuple(row.name for row in table)


def test_on_a_real_cell_what_was_recorded_is_trained_on_and_deployed(supervised, monkeypatch) -> None:
    for verb in ("record", "up"):
        assert main.main([verb, "fr3_table"]) == 0
    assert main.main(["up", "fr3_table", "--cell-only"]) == 0
    RunPaths(Path("runs/fr3_table")).policy("policy").touch()
    assert main.main(["deploy", "fr3_table"]) == 0
    assert [folder for folder, _ in supervised] == [Path("runs/fr3_table")] * 4


def test_a_real_run_is_not_gone_on_with_under_other_settings(supervised, capsys) -> None:
    assert main.main(["record", "fr3_table"]) == 0
    assert main.main(["up", "fr3_table", "--set", "run.seed=4"]) == 1
    assert "runs/fr3_table has run.seed = 0, asked for is 4; use the same settings" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["workcell", "learner"])
def test_a_launched_real_run_goes_on_where_it_was_recorded(kind: str, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    values = {"run": "fr3_table", "set": "cell.dds_domain=76", "folder": "", "address": ""}
    answers = io.StringIO()
    launch_rows.main([kind, json.dumps(values)], io.StringIO(), answers)
    assert json.loads(answers.getvalue().splitlines()[0])["said"].endswith("folder runs/fr3_table")


@pytest.mark.parametrize("kind", ["learner", "workcell"])
def test_launched_parts_that_meet_others_go_on_in_the_one_folder_of_the_run(monkeypatch, tmp_path, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    values = {"run": "peg_insert", "set": "cell.dds_domain=76", "folder": "", "address": "", "remote_learner": "true"}
    tokens = []
    for _ in range(2):
        answers = io.StringIO()
        launch_rows.main([kind, json.dumps(values)], io.StringIO(), answers)
        assert json.loads(answers.getvalue().splitlines()[0])["said"].endswith("folder runs/peg_insert")
        tokens.append([path.read_text() for path in Path("runs").rglob(FILE)])
    assert tokens[0] == tokens[1]


def test_the_launch_file_of_the_dry_run_refuses_a_real_arm(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    values = {"run": "fr3_table", "set": "cell.dds_domain=76", "folder": "", "cell_only": "true"}
    answers = io.StringIO()
    assert launch_rows.main(["sim", json.dumps(values)], io.StringIO(), answers) == 1
    refused = json.loads(answers.getvalue())["refused"]
    assert "arm fr3 of run fr3_table is real, must be simulated" in refused
    assert refused.endswith("ros2 launch robot_stack workcell.launch.py run:=fr3_table")
    assert not Path("runs").exists()


def test_record_starts_a_recorder_in_the_actors_place(supervised, capsys) -> None:
    assert main.main(["record", "sim", "--episodes", "7"]) == 0
    ((folder, table),) = supervised
    assert folder == Path("runs/peg_insert")
    assert names(table) == (*CELL, "actor", "bring_up")
    assert "robot_stack.nodes.actor.recorder" in table[-2].argv
    assert table[-2].argv[-3:] == ("--episodes", "7", "--managed")
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == "Next: robot-stack record sim --episodes 7, to go on", "nothing was recorded"


def test_record_wants_as_many_as_the_run_trains_on_unless_told(supervised) -> None:
    main.main(["record", "peg_insert", "--set", "training.demos=9"])
    ((_, table),) = supervised
    assert table[-2].argv[-3:-1] == ("--episodes", "9")


def test_act_goes_to_the_learner_that_the_cell_names(supervised) -> None:
    assert main.main(["act", "peg_insert", "--set", "cell.learner_address=gpu:1"]) == 0
    ((_, table),) = supervised
    assert names(table) == (*CELL, "actor", "bring_up")
    assert "gpu:1" in table[-2].argv


def test_a_second_actor_with_a_folder_of_its_own_has_the_learners_token(supervised) -> None:
    learners = LinkToken.keep(Path("runs/peg_insert"))
    assert main.main(["act", "peg_insert", "--id", "right", "--folder", "runs/right"]) == 0
    ((folder, _),) = supervised
    assert folder == Path("runs/right")
    assert LinkToken.read(folder).token == learners.token
    assert (folder / FILE).stat().st_mode & 0o777 == 0o600


def test_up_starts_everything(supervised) -> None:
    assert main.main(["up", "peg_insert"]) == 0
    ((folder, table),) = supervised
    assert names(table) == (*CELL, "learner", "actor", "bring_up")
    assert folder.parent == Path("runs/peg_insert")


def test_deploy_runs_a_saved_policy_without_a_learner(supervised) -> None:
    main.main(["act", "peg_insert"])
    supervised.clear()
    with pytest.raises(ConfigError, match="must be saved first; finish the run, or copy it from the learner's machine"):
        deploy.run("peg_insert")
    Path("runs/peg_insert/best.safetensors").touch()
    assert main.main(["deploy", "peg_insert", "--policy", "best", "--episodes", "3"]) == 0
    ((_, table),) = supervised
    assert names(table) == (*CELL, "actor", "bring_up")
    assert table[-2].argv[2] == "robot_stack.nodes.actor.deployed"
    assert "runs/peg_insert/best.safetensors" in table[-2].argv


@pytest.mark.parametrize(
    ("rows", "asked", "judge", "said"),
    [
        ((), (), "operator", "does not judge: there is none."),
        ((RewardFitRow(version="v1"),), (), "model", "success model v1 says when the task is done"),
        ((RewardFitRow(version="v1"),), ("--judge", "operator"), "operator", ""),
        ((RewardFitRow(version="v1"), RewardFitRow(version="gone")), (), "model", "success model v1 says"),
        (
            (RewardFitRow(version="v1"), AlarmRow(version="v1", alarm="stall", words="3 of 4 refused")),
            (),
            "operator",
            "does not judge: v1 is no longer trusted (stall: 3 of 4 refused).",
        ),
        (
            (AlarmRow(version="v0", alarm="stall"), RewardFitRow(version="v1")),
            (),
            "model",
            "success model v1 says when the task is done",
        ),
    ],
)
def test_who_says_that_a_deployed_task_is_done(supervised, capsys, rows, asked, judge, said) -> None:
    main.main(["act", "peg_insert"])
    supervised.clear()
    paths = RunPaths(Path("runs/peg_insert"))
    for path in (paths.policy("policy"), paths.trunk, paths.reward("v1")):
        path.touch()
    log = MetricsLog(paths.metrics)
    for row in rows:
        log.log(row)
    log.close()
    assert main.main(["deploy", "peg_insert", *asked]) == 0
    ((_, table),) = supervised
    argv = table[-2].argv
    assert argv[argv.index("--judge") + 1] == judge
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["record", "act", "train", "up"])
def test_a_folder_of_another_run_is_refused(verb, supervised, capsys) -> None:
    Path("runs/peg_insert").mkdir(parents=True)
    saved = RunPaths(Path("runs/peg_insert")).resolved
    saved.write_text(load_run("peg_insert", ["seed=4"]).to_yaml())
    before = saved.read_text()
    assert main.main([verb, "peg_insert", "--folder", "runs/peg_insert"]) == 1
    assert "has run.seed = 4, asked for is 0" in capsys.readouterr().err
    assert not supervised
    assert saved.read_text() == before


@pytest.mark.parametrize("kind", ["sim", "workcell", "learner"])
def test_a_launch_file_refuses_the_folder_of_another_run(kind, tmp_path) -> None:
    saved = RunPaths(tmp_path).resolved
    saved.write_text(load_run("peg_insert", ["seed=4"]).to_yaml())
    before = saved.read_text()
    values = {"run": "peg_insert", "set": "", "folder": str(tmp_path), "cell_only": "false", "address": ""}
    answers = io.StringIO()
    assert launch_rows.main([kind, json.dumps(values)], io.StringIO(), answers) == 1
    assert "has run.seed = 4, asked for is 0" in json.loads(answers.getvalue())["refused"]
    assert saved.read_text() == before


ANOTHER_ADDRESS = ("--set", "cell.learner_address=127.0.0.1:1")
"""The one setting with which a run may be gone on with, and that its folder tells."""


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (record, ("record", "peg_insert")),
        (act, ("act", "peg_insert")),
        (up, ("up", "peg_insert", "--folder", "runs/peg_insert")),
        (deploy, ("deploy", "peg_insert", "--policy", "best")),
        (train, ("train", "peg_insert")),
    ],
    ids=lambda of: of[0] if isinstance(of, tuple) else "",
)
def test_a_run_that_is_going_on_is_not_started_again(module, words, supervised, monkeypatch, capsys) -> None:
    main.main(["act", "peg_insert"])
    folder = Path("runs/peg_insert")
    (folder / "best.safetensors").touch()
    changed = () if module is deploy else ANOTHER_ADDRESS
    starts = []

    def goes_on(*_: object, **__: object) -> int:
        starts.append(words)
        if len(starts) == 1:
            before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
            assert main.main([*words, *changed]) == 1
            assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
        return 0

    if module is train:
        monkeypatch.setattr("robot_stack.learner.process.main", goes_on)
    else:
        monkeypatch.setattr(module, "supervise", goes_on)
    assert main.main(list(words)) == 0
    assert len(starts) == 1
    assert f"run runs/peg_insert is going on (process {os.getpid()}), must have ended" in capsys.readouterr().err


def test_learner_and_actor_of_one_machine_share_the_folder(supervised, monkeypatch) -> None:
    monkeypatch.setattr("robot_stack.learner.process.main", lambda words: main.main(["act", "peg_insert"]))
    assert main.main(["train", "peg_insert"]) == 0
    assert len(supervised) == 1


def test_train_serves_the_run_in_its_folder(monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    served: list[list[str]] = []
    monkeypatch.setattr("robot_stack.learner.process.main", lambda words: served.append(words) or 0)
    assert train.run("peg_insert", ["seed=3"], address="127.0.0.1:0") == 0
    assert served == [["--run", "runs/peg_insert/run.yaml", "--address", "127.0.0.1:0"]]
    assert load_resolved(RunPaths(Path("runs/peg_insert")).resolved).run.seed == 3
    again = "robot-stack train peg_insert --address 127.0.0.1:0 --set seed=3"
    assert capsys.readouterr().out.splitlines()[-1] == f"Next: {again}, to go on"
    Path("runs/peg_insert/policy.safetensors").touch()
    train.run("peg_insert", ["seed=3"], address="127.0.0.1:0")
    assert capsys.readouterr().out.splitlines()[-1] == "Next: robot-stack report runs/peg_insert"


def test_what_train_says_to_type_is_of_the_same_run(monkeypatch, tmp_path, own_files, capsys) -> None:
    monkeypatch.setattr("robot_stack.learner.process.main", lambda words: 0)
    given = ("--folder", "runs/mine", "--root", "hardware_configs", "--set", "seed=3")
    assert main.main(["train", "peg_insert", *given, "--address", "127.0.0.1:0"]) == 0
    begun, following = capsys.readouterr().out.splitlines()
    assert begun.endswith(f"On the robot's machine: robot-stack act peg_insert {' '.join(given)}")
    again = "robot-stack train peg_insert --folder runs/mine --address 127.0.0.1:0 --root hardware_configs --set seed=3"
    assert following == f"Next: {again}, to go on"
    beginning = Beginning.read(Path("runs/mine"))
    assert beginning is not None
    assert beginning.command == again


def test_what_record_says_to_type_is_of_the_same_run(supervised, monkeypatch, capsys) -> None:
    monkeypatch.setattr(record, "_recorded", lambda *_: 1)
    given = ("--folder", "runs/mine", "--set", "seed=3")
    assert main.main(["record", "sim", "--episodes", "1", *given]) == 0
    following = f"Next: robot-stack train peg_insert {' '.join(given)}"
    assert capsys.readouterr().out.splitlines()[-1] == following


@pytest.fixture
def own_files(monkeypatch, tmp_path) -> Path:
    """An operator's own configuration folder, in the working directory."""
    shutil.copytree(config_root(), tmp_path / "hardware_configs")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hardware_configs"


def test_a_crop_given_in_numbers_is_written_into_the_cells_file(own_files, capsys) -> None:
    before = (own_files / "cells/sim.yaml").read_text()
    assert main.main(["calibrate", "crop", "sim", "--camera", "wrist", "--roi", "10,20,100,120"]) == 0
    assert (own_files / "cells/sim.yaml").read_text() == before, "nothing is written unasked"
    assert main.main(["calibrate", "crop", "sim", "--camera", "wrist", "--roi", "10,20,100,120", "--write"]) == 0
    after = (own_files / "cells/sim.yaml").read_text()
    assert "wrist: {model: sim_wrist, roi_px: {top: 10, left: 20, height: 100, width: 120}}" in after
    assert len(after.splitlines()) == len(before.splitlines())
    assert load_run("peg_insert").cameras["wrist"].roi_px.width == 120
    assert capsys.readouterr().out.splitlines()[-1].endswith("Next: robot-stack doctor sim")


def test_a_shipped_file_is_copied_to_the_persons_own_folder(monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = (config_root() / "cells/sim.yaml").read_text()
    assert main.main(["calibrate", "crop", "sim", "--camera", "wrist", "--roi", "0,0,100,100", "--write"]) == 0
    assert (config_root() / "cells/sim.yaml").read_text() == shipped
    assert "roi_px" in (tmp_path / "hardware_configs/cells/sim.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["crop", "sim", "--camera", "left", "--roi", "0,0,9,9"],
            "camera is 'left', must be one of ['front', 'wrist']",
        ),
        (["crop", "sim", "--camera", "wrist", "--roi", "100,0,100,100"], "must be within 192 rows and 192 columns"),
        (["pose", "sim", "--pose", "Über"], "must be a name in lower case"),
        (["pose", "sim", "--pose", "p", "--arm", "left"], "arm is 'left', must be one of fr3"),
        (["pose", "sim_two_arms", "--pose", "p"], "arm is not given, must be one of left, right; name it with --arm"),
        (["extrinsics", "sim", "--camera", "wrist"], "must run on a terminal"),
        (["board", "board.txt"], "ends in .png"),
    ],
)
def test_a_wrong_wish_is_a_sentence_and_starts_nothing(words, said, own_files, capsys) -> None:
    assert main.main(["calibrate", *words]) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("roi", ["1,2,3", "1,2,3,x", "-1,2,3,4"])
def test_a_crop_that_is_no_four_numbers_is_wrong_usage(roi) -> None:
    with pytest.raises(SystemExit) as left:
        main.main(["calibrate", "crop", "sim", "--camera", "wrist", f"--roi={roi}"])
    assert left.value.code == 2


def test_what_does_not_fit_the_cell_leaves_the_file_as_it_was(own_files, monkeypatch, capsys) -> None:
    before = (own_files / "cells/sim.yaml").read_text()
    (own_files / "cells/sim.yaml").chmod(0o664)
    wrong = measuring.Measured(edits={("workspace", "min_m"): [9.0, 0.0, 0.0]}, text="far away")
    monkeypatch.setitem(measuring.MEASURE, "workspace", lambda options, resolved: wrong)
    assert main.main(["calibrate", "workspace", "sim", "--write"]) == 1
    assert "does not fit the cell, nothing is written" in capsys.readouterr().err
    assert (own_files / "cells/sim.yaml").read_text() == before
    assert (own_files / "cells/sim.yaml").stat().st_mode & 0o777 == 0o664


def test_where_a_camera_is_goes_into_the_cells_file(own_files, monkeypatch) -> None:
    mount = {"parent": "base", "position_m": [0.6, 0.4, 0.5], "quaternion_xyzw": [1.0, 0.0, 0.0, 0.0], "error_m": 0.002}
    found = measuring.Measured(edits={("cameras", "wrist", "mount"): mount}, text="12 views agree")
    monkeypatch.setitem(measuring.MEASURE, "extrinsics", lambda options, resolved: found)
    assert main.main(["calibrate", "extrinsics", "sim", "--camera", "wrist", "--write"]) == 0
    written = load_run("peg_insert").cell.cameras["wrist"].mount
    assert written is not None
    assert written.position_m == (0.6, 0.4, 0.5)


class Seen:
    """What an onlooker has seen, without a cell."""

    def __init__(self, state, positions) -> None:
        self.state, self.positions_m = state, positions


@pytest.fixture
def looked_at(monkeypatch):
    """What calibrate sees of a cell that was never started: the arm of the dry run at its start, moved in a box."""
    import numpy as np

    from robot_stack.workcell.build import build_world

    world = build_world(load_run("peg_insert"))
    world.reset(0)
    state = world.state()
    corners = [np.array([0.42, -0.1, 0.05]), np.array([0.58, 0.1, 0.2])]

    class Here:
        node = Seen(state, corners)

        def listen(self, seconds: float, until) -> bool:
            self.node.state = state
            return until()

    monkeypatch.setattr(measuring, "_watch", lambda options, resolved, look: look(Here(), lambda: ""))
    monkeypatch.setattr(measuring, "_move_the_arm", lambda options, text: lambda here, ending: None)
    return state


def test_a_workspace_and_a_pose_come_from_where_the_arm_was(own_files, looked_at) -> None:
    assert main.main(["calibrate", "workspace", "sim", "--margin-m", "0.01", "--write"]) == 0
    assert main.main(["calibrate", "pose", "sim", "--pose", "start", "--write"]) == 0
    cell = load_run("peg_insert").cell
    assert cell.workspace.min_m == (0.41, -0.11, 0.04)
    assert cell.workspace.max_m == (0.59, 0.11, 0.21)
    assert cell.poses["start"].position_m == pytest.approx(tuple(looked_at.T_base_tcp.position_m), abs=1e-4)
    assert len(cell.poses["start"].joints_rad) == 7


def test_of_several_arms_the_one_that_is_named_is_written(own_files, looked_at) -> None:
    before = load_run("two_arm_insert").cell.arms
    assert main.main(["calibrate", "pose", "sim_two_arms", "--arm", "right", "--pose", "start", "--write"]) == 0
    assert main.main(["calibrate", "crop", "sim_two_arms", "--camera", "front", "--roi", "0,0,99,99", "--write"]) == 0
    arms = load_run("two_arm_insert").cell.arms
    assert arms["right"].poses["start"].position_m == pytest.approx(tuple(looked_at.T_base_tcp.position_m), abs=1e-4)
    assert arms["left"] == before["left"]
    assert arms["right"].workspace == before["right"].workspace
    small = ["calibrate", "workspace", "sim_two_arms", "--arm", "left", "--margin-m=-0.045", "--write"]
    assert main.main(small) == 0
    assert load_run("two_arm_insert").cell.arms["left"].workspace.min_m == (0.465, -0.055, 0.095)


def test_demonstrations_are_counted_while_their_recorder_still_has_the_store(tmp_path) -> None:
    resolved = load_run("peg_insert")
    root = RunPaths(tmp_path).store.root
    ends = [EndReason.SUCCESS, EndReason.FAILURE, EndReason.SUCCESS]
    shown = [made_episode(f"00000{at}-demo-hand", steps=3, end=end) for at, end in enumerate(ends)]
    write_folder(root, shown, labels=[label(shown[2].header.episode_id, Verdict.DISCARD)])
    with EpisodeStore(root, shown[0].spec, shown[0].header.task):
        assert record._recorded(resolved, tmp_path) == 1
    assert record._recorded(resolved, tmp_path / "empty") == 0


def test_a_store_that_the_disk_does_not_give_is_no_episodes(tmp_path, monkeypatch) -> None:
    def refused(root):
        raise OSError("input/output error")

    monkeypatch.setattr("robot_stack.datasets.store_view.open_store", refused)
    assert record._recorded(load_run("peg_insert"), tmp_path) == 0
