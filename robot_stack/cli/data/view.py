"""`robot-stack data view`: a page on which recorded episodes are listed, played, compared and mended."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from robot_stack.cli.data.common import Said, find_data, run_of
from robot_stack.cli.page import serve_page
from robot_stack.config.resolve import load_resolved
from robot_stack.console.access import Gate, is_local
from robot_stack.console.browser.making import Maker
from robot_stack.console.browser.relabels import Relabels
from robot_stack.console.browser.staging import Staging
from robot_stack.console.browser.viewer import RerunViewer, rerun_program
from robot_stack.datasets.catalogue import Catalogue
from robot_stack.processes.child import wrapped
from robot_stack.runs.beginning import command_line
from robot_stack.runs.paths import RunPaths
from robot_stack.transport.access.security import Credentials, actor_credentials
from robot_stack.transport.calls import send_label, send_mark
from robot_stack.types.errors import ConfigError, TransportError

Annotation = TypeVar("Annotation", contravariant=True)

NAME = "browser"
"""Of this peer, for a learner."""


def data_view(name: str, host: str, port: int, out: Path | None) -> Said:
    """Serve the page of a run or folder until Ctrl-C.

    Raises:
        ConfigError: If the page's libraries are not installed, or the address cannot be had.
        StackError: If there are no episodes.
    """
    try:
        from robot_stack.console.browser.app import Browser
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is missing, must be installed; pip install 'robot-stack[console]'") from error
    view, run = find_data(name), run_of(name)
    relabels, staging = Relabels(view.paths), Staging(view.paths)
    if run is not None:
        resolved = load_resolved(RunPaths(run).resolved)
        tell = partial(_tell, run, resolved.cell.learner_certs)
        relabels = Relabels(view.paths, partial(tell, send_label))
        staging = Staging(view.paths, resolved.task.stages, partial(tell, send_mark))
    place = out or (view.root.with_name(f"{view.root.name}-made") if run is None else run / "made")
    program = rerun_program()
    viewer = None
    if program is not None:
        ends_with_us = wrapped((program,), python=sys.executable, nice=0, realtime=0)
        viewer = RerunViewer(ends_with_us, place / "rerun.log")
    catalogue = Catalogue(view)
    catalogue.refresh()

    def make(gate: Gate) -> Browser:
        relabels.open()
        return Browser(catalogue, relabels, staging, Maker(place), gate, name, local=is_local(host), viewer=viewer)

    serve_page(host, port, make)
    return Said(document={"folder": str(view.root)}, lines=[f"Next: {command_line('data', 'list', name)}"])


class _Send(Protocol[Annotation]):
    def __call__(self, address: str, annotation: Annotation, /, *, security: Credentials | None, name: str) -> None: ...


def _tell(run: Path, certs: str | None, send: _Send[Annotation], annotation: Annotation) -> None:
    """Bring a label or a stage mark to the learner of a run on this machine."""
    try:
        address = RunPaths(run).address.read_text().strip()
    except OSError as error:
        raise TransportError(
            f"address of the learner in {RunPaths(run).address} is unreadable, must be there while it runs; wait for it"
        ) from error
    send(address, annotation, security=actor_credentials(certs, run), name=NAME)
