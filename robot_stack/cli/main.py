"""The command `robot-stack`: parses, then hands over to the file of the verb, which alone imports what it needs.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 stopped by the safety process. `--help` answers at once, because
nothing but the standard library and the error types is imported here.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from robot_stack.cli.data_words import add_data
from robot_stack.types.errors import StackError

INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A word of the command.

    Attributes:
        help: One line.
        add: Declares its arguments; their names are those of `run` in `robot_stack.cli.<verb>`.
    """

    help: str
    add: Callable[[argparse.ArgumentParser], None]


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="a run in hardware_configs/runs, or a path to its file")
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
    parser.add_argument("--name", default="sim", help="the run is in runs/NAME; the same name goes on (sim)")
    parser.add_argument("--seed", type=_count(0), default=0, help="of everything random (0)")
    parser.add_argument("--task", default="peg_insert", help="a run in hardware_configs/runs (peg_insert)")
    parser.add_argument(
        "--algorithm", metavar="NAME", help="learn with this one instead of the run's (docs/algorithms)"
    )
    parser.add_argument("--quick", action="store_true", help="every phase in minutes; reaches no figure")
    parser.add_argument("--plain", action="store_true", help="lines instead of a live display")


def _add_up(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    parser.add_argument("--folder", type=Path, help="of the run (a new one under runs/RUN)")
    parser.add_argument("--cell-only", action="store_true", help="no actor, no learner")
    parser.add_argument("--remote-learner", action="store_true", help="the learner runs where the cell says")
    parser.add_argument("--timeout-s", type=float, metavar="S", help="end the run after this long")


def _add_camera(parser: argparse.ArgumentParser) -> None:
    _add_run(parser)
    parser.add_argument("camera", metavar="CAMERA", help="its name in the cell")
    parser.add_argument("--out", type=Path, default=Path("views"), metavar="FOLDER", help="of the pictures (views)")


def _add_env(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of a run that has been started")


def _add_certs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new one")
    parser.add_argument(
        "--host", dest="hosts", action="append", default=[], metavar="NAME",
        help="name or address of the learner, as actors call it; may be repeated (this machine's name)",
    )  # fmt: skip


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="a folder of a run, or its name under runs/")
    _add_json(parser)


def _add_eval(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="RUN", help="a folder of a run, or its name under runs/")
    parser.add_argument("--episodes", type=_count(1), metavar="N", help="held-out resets (as many as the run says)")
    parser.add_argument("--policy", default="policy", help="policy, best, or bc for the imitation baseline (policy)")
    _add_json(parser)


def _add_reward(parser: argparse.ArgumentParser) -> None:
    words = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    text = "score labelled episodes: a run's own with its reward model, or made-up ones with a model fitted on others"
    grade = words.add_parser("eval", help=text, description=text)
    source = grade.add_mutually_exclusive_group(required=True)
    source.add_argument("name", metavar="RUN", nargs="?", help="a folder of a run, or its name under runs/")
    source.add_argument("--generated", action="store_true", help="made-up episodes with exact labels, no run needed")
    grade.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="JSON; table and page go beside it (reward_eval.json, in the run if any)",
    )
    grade.add_argument("--episodes", type=_count(1), metavar="N", help="so many (made-up: 128; of a run: all)")
    grade.add_argument("--seed", type=_count(0), default=0, help="of everything random (0)")
    grade.add_argument("--every", type=_count(1), default=1, metavar="N", help="score each n-th frame only (1)")
    _add_json(grade)
    text = "grade a run's episodes by Φ, and its reward model by what was true"
    audit = words.add_parser("audit", help=text, description=text)
    audit.add_argument("name", metavar="RUN", help="a folder of a run, or its name under runs/")
    _add_json(audit)


VERBS = {
    "show": Verb(help="print a run, each value with the file and line it came from", add=_add_show),
    "sim": Verb(help="the dry run: the whole system with MuJoCo in the robot's place", add=_add_sim),
    "up": Verb(help="start all processes of a run on this machine", add=_add_up),
    "camera": Verb(help="take a picture of what a camera sees and the policy gets, to crop by", add=_add_camera),
    "env": Verb(help="print exports that let ros2 commands see a run", add=_add_env),
    "certs": Verb(help="make keys for a learner on another machine than the robot", add=_add_certs),
    "eval": Verb(help="count successes of a saved policy on held-out resets", add=_add_eval),
    "data": Verb(help="episodes: list, check, edit, merge, split, export, import", add=add_data),
    "reward": Verb(help="how good a reward model is: on labelled episodes, or in a run", add=_add_reward),
    "report": Verb(help="write summary, plots and report.html of a run again", add=_add_report),
}


def _count(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"value is {text!r}, must be a whole number of at least {least}")
        return int(text)

    return parse


def parser() -> argparse.ArgumentParser:
    """Of the whole command."""
    top = argparse.ArgumentParser(
        prog="robot-stack",
        description="Human-in-the-loop reinforcement learning on real robots, over ROS 2.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 3 stopped by the safety process.",
    )
    words = top.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in VERBS.items():
        verb.add(words.add_parser(name, help=verb.help, description=verb.help))
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    options = vars(parser().parse_args(arguments))
    verb = options.pop("verb")
    try:
        code: int = importlib.import_module(f"robot_stack.cli.{verb}").run(**options)
        sys.stdout.flush()
    except StackError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has left, e.g. `robot-stack show RUN | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
