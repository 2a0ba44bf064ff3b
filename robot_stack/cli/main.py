"""The command `robot-stack`: parses, then hands over to the file of the verb, which alone imports what it needs.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 robot or safety failed. `--help` answers at once, because
nothing but the standard library and the error types is imported here.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from robot_stack.cli.data.words import add_data, port_number
from robot_stack.cli.extras import EXTRA_OF, remedy
from robot_stack.config.files.patterns import ADDRESS, WORDS
from robot_stack.disk.durable import refused_file
from robot_stack.types.errors import SpecError, StackError
from robot_stack.types.event import LabelSource
from robot_stack.types.names import check_name

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

INTERRUPTED = 130
OF_A_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""Numbers of errors that are a disk's, also where no file is named."""
MOST_S = 30 * 86_400.0
"""Longest time after which a run may be told to end."""
WHICH_POLICY = "policy, best, bc for the imitation baseline, or base for the run's base policy by itself (policy)"
GOING_ON = "a run that is going on: its folder, or its name under runs/"
OF_THE_CELL = ("calibrate", "camera", "clear-stop", "doctor", "foxglove", "rviz", "scene")
ROOMS = {**dict.fromkeys(OF_THE_CELL, "cell."), "data": "data."}
"""Where the modules of a verb lie, if it is not beside this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb of the command.

    Attributes:
        help: One line.
        add: Declares its arguments, which are those of `run` in the verb's module, and says there what each is.
    """

    help: str
    add: Callable[[argparse.ArgumentParser], None]


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="a run in hardware_configs/runs, or a path to its file")
    _add_overrides(parser)


def _add_overrides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--root", type=Path, metavar="FOLDER", help="configuration folder that is searched first")
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="e.g. training.demos=10"
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", dest="as_json", action="store_true", help="for scripts")


def _add_show(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    _add_json(parser)


def _add_sim(parser: argparse.ArgumentParser) -> None:
    text = "the run is in runs/NAME; the same name goes on (sim, or task, algorithm and seed)"
    parser.add_argument("--name", type=_name("name"), help=text)
    parser.add_argument("--seed", type=_count(0), default=0, help="of everything random (0)")
    parser.add_argument("--task", default="peg_insert", help="a run in hardware_configs/runs (peg_insert)")
    parser.add_argument(
        "--algorithm", metavar="NAME", help="learn with this one instead of the run's (docs/algorithms)"
    )
    parser.add_argument("--quick", action="store_true", help="every phase in minutes; reaches no figure")
    parser.add_argument("--plain", action="store_true", help="lines instead of a live display")
    _add_overrides(parser)


def _add_up(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    text = "of the run (runs/RUN, where a second start goes on; in simulation a new one below it)"
    parser.add_argument("--folder", type=Path, help=text)
    parser.add_argument("--cell-only", action="store_true", help="no actor, no learner")
    parser.add_argument("--remote-learner", action="store_true", help="the learner runs where the cell says")
    parser.add_argument("--timeout-s", type=_seconds(MOST_S), metavar="S", help="end the run after this long")


def _add_cell(parser: argparse.ArgumentParser, more: str = "") -> None:
    parser.add_argument("name", metavar="CELL", help=f"a cell, a run, or a path to a run's file{more}")
    _add_overrides(parser)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    _add_cell(parser, "; or the folder of a run that is going on")
    parser.add_argument("--dry", action="store_true", help="ask nothing of an operator")
    move = "with the deadman held, move each arm 1 cm and 2 degrees along each axis at a tenth of the limits"
    parser.add_argument("--move", action="store_true", help=move)
    parser.add_argument("--seconds", type=_seconds(), default=60.0, metavar="S", help="listen for so long (60)")
    _add_json(parser)


def _add_calibrate(parser: argparse.ArgumentParser) -> None:
    words = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    texts = {
        "crop": "the part of a camera's image that the policy sees",
        "workspace": "the box of the TCP, from where it is moved",
        "pose": "a place of the arm by name, for resets",
        "extrinsics": "where a camera is, from views of a printed board",
        "lens": "how a camera projects, from a calibration that ROS wrote",
    }
    parts = {what: words.add_parser(what, help=text, description=text) for what, text in texts.items()}
    for part in parts.values():
        _add_cell(part)
        part.add_argument("--arm", default="", metavar="NAME", help="that is moved, where the cell has several")
        part.add_argument("--seconds", type=_seconds(), default=60.0, metavar="S", help="watch for so long (60)")
        part.add_argument("--write", action="store_true", help="write it without asking")
    for what in ("crop", "extrinsics", "lens"):
        parts[what].add_argument("--camera", required=True, metavar="NAME", help="one of the cell's")
    numbers = "top,left,height,width in captured pixels (a box is proposed from what moves)"
    parts["crop"].add_argument("--roi", type=_four, metavar="T,L,H,W", help=numbers)
    parts["workspace"].add_argument("--margin-m", type=float, default=0.0, metavar="M", help="added on every side (0)")
    parts["pose"].add_argument("--pose", required=True, metavar="NAME", help="what it shall be called")
    parts["lens"].add_argument("--file", type=Path, required=True, help="as camera_calibration writes it (ost.yaml)")
    parts["extrinsics"].add_argument(
        "--mounted", choices=("base", "hand"), default="base", help="beside the arm, or on its hand (base)"
    )
    text = "write a board to be printed, for extrinsics"
    parts["board"] = words.add_parser("board", help=text, description=text)
    parts["board"].add_argument("name", metavar="FILE", help="ends in .png")
    for what in ("extrinsics", "board"):
        parts[what].add_argument("--square-m", type=float, default=0.030, metavar="M", help="side of a square (0.030)")
        parts[what].add_argument("--marker-m", type=float, default=0.022, metavar="M", help="side of a marker (0.022)")


def _add_own_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, help="of the run (runs/NAME, where a second start goes on)")


def _add_record(parser: argparse.ArgumentParser) -> None:
    _add_cell(parser)
    _add_own_folder(parser)
    text = "demonstrations that ended well, in all (as many as the run trains on)"
    parser.add_argument("--episodes", type=_count(1), metavar="N", help=text)


def _add_train(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    _add_own_folder(parser)
    text = "to listen at (the cell's learner_address)"
    parser.add_argument("--address", type=_address, metavar="HOST:PORT", help=text)


def _add_act(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    _add_own_folder(parser)
    text = "of this cell among several that one learner learns from; it names their episodes (actor)"
    parser.add_argument("--id", dest="actor_id", type=_name("id"), default="actor", metavar="ID", help=text)


def _add_deploy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="a folder of a run, or its name under runs/")
    parser.add_argument("--episodes", type=_count(1), default=20, metavar="N", help="how many (20)")
    parser.add_argument("--policy", default="policy", help=WHICH_POLICY)
    parser.add_argument(
        "--judge",
        choices=(LabelSource.MODEL, LabelSource.OPERATOR),
        help="who says that the task is done (the run's success model, if it has one that is trusted)",
    )


def _add_camera(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    parser.add_argument("camera", metavar="CAMERA", help="its name in the cell")
    parser.add_argument("--out", type=Path, default=Path("views"), metavar="FOLDER", help="of the pictures (views)")


def _add_env(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", nargs="?", help="of a run that has been started")


def _add_bag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="a folder of a run, or its name under runs/")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="a new one (bags/TIME in the run's folder)")
    parser.add_argument("--seconds", type=_seconds(), metavar="S", help="at most so long (until Ctrl-C)")
    text = "also what is outside the cell's namespace, such as a driver's own images"
    parser.add_argument("--everything", action="store_true", help=text)
    _add_json(parser)


def _add_completion(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "tcsh"), help="bash, zsh or tcsh")


def _add_certs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new one")
    parser.add_argument(
        "--host", dest="hosts", action="append", default=[], metavar="NAME",
        help="name or address of the learner, as actors call it; may be repeated (this machine's name)",
    )  # fmt: skip


def _add_check_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "files", type=Path, metavar="FILE", nargs="+",
        help="of runs/NAME/commands; those of several arms are judged against each other too",
    )  # fmt: skip
    _add_json(parser)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="RUN", nargs="+", help="folders of runs, or their names under runs/")
    _add_json(parser)


def _add_eval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="a folder of a run, or its name under runs/")
    parser.add_argument("--episodes", type=_count(1), metavar="N", help="held-out resets (as many as the run says)")
    parser.add_argument("--policy", default="policy", help=WHICH_POLICY)
    text = "who says that the task is done: the simulator, or the run's success model, as on a real cell (truth)"
    parser.add_argument("--judge", choices=(LabelSource.TRUTH, LabelSource.MODEL), default=LabelSource.TRUTH, help=text)
    text = "a table: success where light, cameras, friction and so on are not as in training, one after the other"
    parser.add_argument("--robustness", action="store_true", help=text)
    _add_json(parser)


def _add_reward(parser: argparse.ArgumentParser) -> None:
    words = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    text = "judge a reward model on labelled episodes: recorded ones of a run or a dataset, or synthetic ones"
    grade = words.add_parser("eval", help=text, description=text)
    source = grade.add_mutually_exclusive_group(required=True)
    source.add_argument("name", metavar="RUN", nargs="?", help="a run under runs/, or a folder of a run or dataset")
    source.add_argument("--generated", action="store_true", help="synthetic episodes with exact labels, no run needed")
    text = "any that a run could name, classifier, or a run whose own is meant (that of RUN; synthetic: one is fitted)"
    grade.add_argument("--model", metavar="NAME", help=text)
    text = "YAML with what stands under settings: in a run's file (as the run has them)"
    grade.add_argument("--settings", type=Path, metavar="FILE", help=text)
    grade.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="JSON; table and page go beside it (reward_eval.json, in the run if any; reward_robustness.json alone)",
    )
    grade.add_argument(
        "--episodes",
        type=_count(1),
        metavar="N",
        help="so many (synthetic: 224; of a run: all; of a row of --robustness: 112)",
    )
    grade.add_argument("--seed", type=_count(0), default=0, help="of everything random (0)")
    text = "score each n-th frame only (as a run would: 1, a large model 5)"
    grade.add_argument("--every", type=_count(1), metavar="N", help=text)
    text = "a table instead: synthetic episodes whose light, cameras, table and so on are not as in the demonstrations"
    grade.add_argument("--robustness", action="store_true", help=text)
    _add_json(grade)
    text = "ask a model about three known clips (finished, stalled, reversed): does it answer sensibly?"
    ask = words.add_parser("probe", help=text, description=text)
    text = "a large model, whose place --settings or --run says, or the URL of a server, up to and with /v1"
    ask.add_argument("target", metavar="MODEL|URL", help=text)
    ask.add_argument("--model", metavar="NAME", help="of a URL: which kind of model it serves")
    ask.add_argument("--served", default="", metavar="NAME", help="of a URL: as the server calls it (its only one)")
    text = "YAML with what stands under settings: in a run's file; with a URL, all but where it is"
    ask.add_argument("--settings", type=Path, metavar="FILE", help=text)
    text = "make the clips of two demonstrations of this run (of the simulator); its file may say where the model is"
    ask.add_argument("--run", dest="name", metavar="RUN", help=text)
    ask.add_argument("--seed", type=_count(0), default=0, help="of simulated demonstrations (0)")
    _add_json(ask)
    text = "adapt a run's embedded model to a changed scene by one demonstration; it becomes the run's newest"
    change = words.add_parser("adapt", help=text, description=text)
    change.add_argument("name", metavar="RUN", help="a folder of a run, or its name under runs/; not going on")
    text = "a run or a dataset of the same cell, recorded in the changed scene"
    change.add_argument("--demo", required=True, metavar="RUN|DATASET", help=text)
    change.add_argument("--episode", metavar="ID", help="which of its successes (the newest)")
    _add_json(change)
    text = "propose the stages of a run's successes by its encoder; the episode browser shows them to be accepted"
    cut = words.add_parser("stages", help=text, description=text)
    cut.add_argument("name", metavar="RUN", help="a folder of a run, or its name under runs/; not going on")
    _add_json(cut)
    text = "ask a large model which of two recorded moments got further; the embedded model learns from its answers"
    compare = words.add_parser("prefer", help=text, description=text)
    compare.add_argument("name", metavar="RUN", help="a run under runs/, or a folder of a run or dataset")
    text = "a large model that scores pairs or progress: lrm, vlac, grm, ..."
    compare.add_argument("--model", required=True, metavar="NAME", help=text)
    text = "YAML with what stands under settings: in a run's file (as the run has them)"
    compare.add_argument("--settings", type=Path, metavar="FILE", help=text)
    compare.add_argument("--pairs", type=_count(1), default=50, metavar="N", help="so many at most (50)")
    compare.add_argument("--seed", type=_count(0), default=0, help="of the choice (0)")
    _add_json(compare)
    text = "let a language model write progress and success of a run's task as formulas, tried on what was recorded"
    formulas = words.add_parser("write", help=text, description=text)
    formulas.add_argument("name", metavar="RUN", help="a folder of a run, or its name under runs/")
    text = "YAML with server: {url: ..., model: ...} of an OpenAI-compatible server"
    formulas.add_argument("--settings", type=Path, required=True, metavar="FILE", help=text)
    text = "a new one, settings of reward model expression"
    formulas.add_argument("--out", type=Path, required=True, metavar="FILE", help=text)
    formulas.add_argument("--rounds", type=_count(1), default=4, metavar="N", help="questions (4)")
    _add_json(formulas)
    text = "write the wording that a model was published with as a prompt_file, from its authors' own files"
    words_of = words.add_parser("prompt", help=text, description=text)
    words_of.add_argument("family", metavar="MODEL", help="grm or roboreward")
    text = "grm: examples/inference.py of Robo-Dopamine; roboreward: the card of its weights; or a folder with it"
    words_of.add_argument("source", type=Path, metavar="FILE|FOLDER", help=text)
    words_of.add_argument("--out", type=Path, required=True, metavar="FILE", help="a new one")
    text = "serve a checkpoint of this machine to `server:` of a run, on loopback, with log-probabilities"
    serve = words.add_parser("serve", help=text, description=text)
    serve.add_argument("checkpoint", metavar="CHECKPOINT", help="a folder, or what the hub calls it")
    text = "an adapter on it, asked under this name (repeatable; without, the checkpoint under its own)"
    serve.add_argument("--adapter", action="append", default=[], metavar="NAME=FOLDER", help=text)
    serve.add_argument("--port", type=port_number, default=8000, help="on 127.0.0.1; 0 takes a free one (8000)")
    serve.add_argument("--device", metavar="NAME", help="as torch names it (cuda where there is one)")
    serve.add_argument("--accept-license", metavar="ID", help="of weights that forbid commercial use")
    text = "grade a run's episodes by Φ, and its reward model by what was true"
    audit = words.add_parser("audit", help=text, description=text)
    audit.add_argument("name", metavar="RUN", help="a folder of a run, or its name under runs/")
    _add_json(audit)


def _add_place(parser: argparse.ArgumentParser, folder: str) -> None:
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--hub", metavar="OWNER/NAME", help="a repository on the Hugging Face Hub")
    place.add_argument("--folder", type=Path, metavar="FOLDER", help=folder)


def _add_push(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="a folder of a run, or its name under runs/")
    _add_place(parser, "a new one; nothing is sent")
    parser.add_argument("--data", action="store_true", help="the recorded episodes, in LeRobot's format")
    parser.add_argument("--policy", default="policy", help="policy, best, or bc for the imitation baseline (policy)")
    parser.add_argument("--private", action="store_true", help="a repository that is made is for its owner alone")
    parser.add_argument("--license", dest="licence", default="", metavar="ID", help="as the Hub calls it, e.g. mit")


def _add_pull(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the policy becomes runs/NAME; with --data, the folder NAME")
    _add_place(parser, "that push has written")
    parser.add_argument("--data", action="store_true", help="episodes in LeRobot's format (with --hub)")
    parser.add_argument("--revision", default="", metavar="REV", help="branch, tag or commit (main)")


def _add_clear_stop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help=GOING_ON)


def _add_scene(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help=GOING_ON)
    parser.add_argument("--port", type=port_number, default=8643, help="of the view (8643, or another if it is taken)")


def _add_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="of the new cell, task and run")
    parser.add_argument("--like", default="", metavar="RUN", help="a shipped run to copy (fr3_table)")
    parser.add_argument("--host", default="127.0.0.1", help="address of the page that chooses the parts, without NAME")
    parser.add_argument("--port", type=port_number, default=0, help="port of that page (any that is free)")


VERBS = {
    "init": Verb(help="a cell, task and run of your own: copied, or from what is connected", add=_add_init),
    "show": Verb(help="print a run, each value with the file and line it came from", add=_add_show),
    "sim": Verb(help="the dry run: the whole system with MuJoCo in the robot's place", add=_add_sim),
    "doctor": Verb(help="check a cell: ROS, disk, cameras, robot, device, emergency stop", add=_add_doctor),
    "calibrate": Verb(help="measure a part of a cell and write it into the cell's file", add=_add_calibrate),
    "camera": Verb(help="take a picture of what a camera sees and the policy gets, to crop by", add=_add_camera),
    "record": Verb(help="demonstrations by hand, each on disk when it ends; no learner needed", add=_add_record),
    "data": Verb(help="episodes: list, view, check, edit, merge, split, export, import", add=add_data),
    "reward": Verb(help="how good a reward model is: on labelled episodes, or in a run", add=_add_reward),
    "up": Verb(help="start all processes of a run on this machine", add=_add_up),
    "train": Verb(help="the learner alone, on the machine with the GPU", add=_add_train),
    "act": Verb(help="cell and actor, on the robot's machine; the learner runs where the cell says", add=_add_act),
    "eval": Verb(help="count successes of a saved policy on held-out resets", add=_add_eval),
    "deploy": Verb(help="a saved policy on the cell, without a learner; every episode is recorded", add=_add_deploy),
    "clear-stop": Verb(help="end the STOP of a cell, at the word of an operator who has looked", add=_add_clear_stop),
    "check-log": Verb(help="prove recorded commands against the limits that were in force", add=_add_check_log),
    "report": Verb(
        help="write summary, plots and report.html of a run again; of several, a page side by side", add=_add_report
    ),
    "push": Verb(help="a policy or its episodes with a card, into a folder or on the Hugging Face Hub", add=_add_push),
    "pull": Verb(help="a policy or episodes that somebody has pushed", add=_add_pull),
    "env": Verb(help="print exports that let ros2 commands find this package, and see a run", add=_add_env),
    "bag": Verb(help="record the live topics of a run that is going on into MCAP files", add=_add_bag),
    "scene": Verb(help="a running cell in three dimensions, in a browser of this machine", add=_add_scene),
    "foxglove": Verb(help="print a layout for Foxglove with the topics of a run's cell", add=_add_run),
    "rviz": Verb(help="print a configuration for RViz with the topics and frames of a run's cell", add=_add_run),
    "completion": Verb(help="print what lets a shell complete verbs and options", add=_add_completion),
    "certs": Verb(help="make keys for a learner on another machine than the robot", add=_add_certs),
}


def _count(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"value is {text!r}, must be a whole number of at least {least}")
        return int(text)

    return parse


def _name(what: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        try:
            return check_name(text, what)
        except SpecError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse


def _address(text: str) -> str:
    if not re.search(ADDRESS, text):
        rule, example = WORDS[ADDRESS]
        raise argparse.ArgumentTypeError(f"address is {text!r}, must be {rule}; e.g. {example}")
    return text


def _four(text: str) -> tuple[int, int, int, int]:
    parts = text.split(",")
    if len(parts) != 4 or not all(part.strip().isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"value is {text!r}, must be four whole numbers: top,left,height,width")
    top, left, height, width = (int(part) for part in parts)
    return top, left, height, width


def _seconds(most: float = 3600.0) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0.0 < value <= most:
            raise argparse.ArgumentTypeError(f"value is {text!r}, must be a number of seconds within 0 to {most:.0f}")
        return value

    return parse


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it and end."""
        print(f"robot-stack {version('robot-stack')}")
        parser.exit()


class _Stream(io.FileIO):
    """Standard output or error of a command, which works on and keeps its exit code when its reader left."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "w", closefd=False)
        self._of_terminal = self.isatty()

    def write(self, data: ReadableBuffer, /) -> int:
        """Write, to nowhere once it cannot be.

        Raises:
            OSError: If the disk refuses.
        """
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            closed = self._of_terminal and error.errno == errno.EIO
            if closed or isinstance(error, BrokenPipeError):  # e.g. `robot-stack show RUN | head`
                return super().write(data)
            name = "standard output" if self.fileno() == 1 else "standard error"
            raise OSError(error.errno, error.strerror, name) from error


def _lasting(given: TextIO | None) -> TextIO:
    """Return a standard stream in which what its encoding lacks is replaced; nowhere, if it was closed."""
    if given is None:
        return open(os.devnull, "w")
    raw = _Stream(given.fileno())
    at_once = isinstance(given, io.TextIOWrapper) and given.write_through
    return io.TextIOWrapper(
        cast("BinaryIO", raw) if at_once else io.BufferedWriter(raw),
        encoding=given.encoding,
        errors="replace",
        line_buffering=bool(given.line_buffering),
        write_through=at_once,
    )


def parser() -> argparse.ArgumentParser:
    """Build the argument parser of the whole command."""
    top = argparse.ArgumentParser(
        prog="robot-stack",
        description="Human-in-the-loop reinforcement learning on real robots, over ROS 2.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 robot or safety failed.",
    )
    top.add_argument("--version", action=_Version, nargs=0, dest=argparse.SUPPRESS, help="show the version and exit")
    words = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in VERBS.items():
        verb.add(words.add_parser(name, help=verb.help, description=verb.help))
    return top


def module_of(verb: str) -> str:
    """Return the name of the module that has the verb's `run`."""
    return f"robot_stack.cli.{ROOMS.get(verb, '')}{verb.replace('-', '_')}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code.

    Args:
        arguments: Of the verb; None: those of this process, whose standard streams are the command's then.
    """
    if arguments is None:
        sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr)
    said = list(sys.argv[1:] if arguments is None else arguments)
    top = parser()
    if said and not said[0].startswith("-") and said[0] not in VERBS:
        near = get_close_matches(said[0], VERBS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(VERBS)}"
        top.error(f"there is no verb {said[0]!r}; {hint}")
    options = vars(top.parse_args(said))
    verb = options.pop("verb")
    try:
        code: int = importlib.import_module(module_of(verb)).run(**options)
        sys.stdout.flush()
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    except ModuleNotFoundError as error:
        if error.name not in EXTRA_OF:
            raise
        print(f"{error.name} is missing, must be there for `{verb}`; {remedy(error.name, verb)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as end:
        print(str(end) or "interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        if error.filename is None and error.errno not in OF_A_DISK:
            raise
        what = f"{error.strerror or error} ({refused_file(error) or 'no file named'})"
        print(f"{verb} failed: {what}; choose another place, free space or fix permissions", file=sys.stderr)
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
