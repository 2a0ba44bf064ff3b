"""Arguments of `robot-stack data`. Loads nothing but the standard library, so that `--help` answers at once."""

from __future__ import annotations

import argparse
from pathlib import Path

DATA = "a run (folder, or name under runs/), or a folder that data has made"
FORMATS = ("lerobot", "mcap")
OUT_ONLY = ("rerun",)


def add_data(parser: argparse.ArgumentParser) -> None:
    """Declare the words of `robot-stack data` and their arguments."""
    words = parser.add_subparsers(dest="what", metavar="WHAT", required=True)

    text = "one line per episode: kind, length, how it counts and who says so, how much an operator did"
    _one(words, "list", text)
    text = "what a folder of episodes holds, or all about one episode"
    show = _one(words, "show", text)
    show.add_argument("episode", metavar="EPISODE", nargs="?", help="its id (the whole folder)")
    text = "a page that lists the episodes, plays and compares them, takes verdicts, trims and exports"
    view = words.add_parser("view", help=text, description=text)
    view.add_argument("name", metavar="DATA", help=DATA)
    view.add_argument(
        "--port", type=port_number, default=8643, metavar="N", help="of the page; another if it is taken (8643)"
    )
    view.add_argument("--host", default="127.0.0.1", help="beyond this machine the page asks for a token (127.0.0.1)")
    view.add_argument("--out", type=Path, metavar="FOLDER", help="where trims and exports go (beside the episodes)")
    text = "find dropped, frozen, late, impossible, jerky and mislabelled frames and episodes"
    _one(words, "check", text)

    text = "a changed copy; what was read stays as it is"
    edit = _one(words, "edit", text)
    _add_out(edit)
    edit.add_argument("--relabel", action="append", default=[], metavar="EPISODE=VERDICT", help="success or failure")
    edit.add_argument(
        "--discard", action="append", default=[], metavar="EPISODE", help="keep it, but never train on it"
    )
    edit.add_argument("--trim", action="append", default=[], metavar="EPISODE=A:B", help="keep frames A to B")
    edit.add_argument("--note", action="append", default=[], metavar="EPISODE=TEXT", help="for people")

    text = "one folder of the episodes of several, if they are of one cell and task"
    merge = words.add_parser("merge", help=text, description=text)
    merge.add_argument("names", metavar="DATA", nargs="+", help=DATA)
    _add_out(merge)
    _add_json(merge)

    text = "several folders of the episodes of one"
    split = _one(words, "split", text)
    _add_out(split)
    how = split.add_mutually_exclusive_group(required=True)
    how.add_argument("--by", choices=("outcome", "kind"), help="a folder for each")
    how.add_argument(
        "--share", dest="shares", action="append", default=[], metavar="NAME=SHARE", help="e.g. train=0.8 and val=0.2"
    )
    split.add_argument("--seed", type=int, default=0, help="of the draw for --share (0)")

    text = "write episodes for other programs"
    out = _one(words, "export", text)
    _add_out(out)
    out.add_argument("--format", choices=(*FORMATS, *OUT_ONLY), required=True)
    out.add_argument("--codec", default="h264", help="of LeRobot's videos: h264, h264-lossless or av1 (h264)")
    text = "add progress, advantage and their weights for LeRobot's RA-BC (format lerobot)"
    out.add_argument("--advantage", action="store_true", help=text)
    text = "whose progress, by the version of a reward model; by default that which scored most episodes (--advantage)"
    out.add_argument("--scores", metavar="VERSION", help=text)
    out.add_argument("--kind", choices=("demo", "online", "eval"), help="only these")
    out.add_argument("--outcome", choices=("success", "failure", "open"), help="only these (all but discarded ones)")
    out.add_argument("--episode", dest="episodes", action="append", default=[], metavar="ID", help="only these")

    text = "read what another program, or export, has written"
    come = words.add_parser("import", help=text, description=text)
    come.add_argument("folder", type=Path, metavar="FOLDER", help="of the dataset")
    come.add_argument("--format", choices=FORMATS, required=True)
    come.add_argument("--like", metavar="RUN", help="a run of the same cell, for a dataset of another program")
    come.add_argument("--only-task", metavar="TEXT", help="of a dataset of another program, the task that is taken")
    text = "entries that another program calls otherwise than the run mean the same, in the same order"
    come.add_argument("--names-differ", action="store_true", help=text)
    _add_out(come)
    _add_json(come)


def port_number(text: str) -> int:
    """Parse the port of a page."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"port is {text!r}, must be a whole number up to 65535; 0 takes any free one")
    return int(text)


def _one(words: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str) -> argparse.ArgumentParser:
    parser = words.add_parser(name, help=text, description=text)
    parser.add_argument("name", metavar="DATA", help=DATA)
    _add_json(parser)
    return parser


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", dest="as_json", action="store_true", help="for scripts")


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="a new one")
