"""Files that unpack to far more than they are, and files that lie about what is in them."""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from robot_stack.datasets.bag import messages
from robot_stack.types.spec import Spec
from tests.datasets.data_rig import made_episode, made_spec


def about(spec: Spec, **changes: object) -> dict[str, Any]:
    """What a good file says of itself."""
    episode = made_episode("000000-demo-a", spec)
    good = {
        "header": asdict(episode.header), "end": "success", "labels": [], "spec": json.loads(spec.to_json()),
        "task": "peg_insert", "text": "insert the peg",
    }  # fmt: skip
    return {**good, **changes}


def bag(path: Path, said: dict[str, Any], rows: list[tuple[str, str, dict[str, Any], int]], **writer: Any) -> None:
    """A bag with these messages: topic, type, message, and how often."""
    from mcap_ros2.writer import Writer

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        made = Writer(file, **writer)
        schemas = {name: made.register_msgdef(name, text) for name, text in messages.DEFINITIONS.items()}
        made.write_message(messages.ABOUT, schemas[messages.STRING], {"data": json.dumps(said)}, log_time=0)
        for topic, kind, message, times in rows:
            for number in range(times):
                made.write_message(topic, schemas[kind], message, log_time=number + 1)
        made.finish()


def image(height: int, width: int) -> dict[str, Any]:
    """A black image."""
    return {
        "header": {"stamp": {"sec": 0, "nanosec": 0}, "frame_id": "front"}, "height": height, "width": width,
        "encoding": "rgb8", "is_bigendian": 0, "step": 3 * width, "data": bytes(3 * height * width),
    }  # fmt: skip


def zeros_bag(path: Path, images: int = 300) -> None:
    """25 KB of packed black images."""
    spec = made_spec(side_px=512, cameras=("front",))
    bag(path, about(spec), [("/front/obs", messages.IMAGE, image(512, 512), images)])


if __name__ == "__main__":  # child of a test: import a folder under a look at its memory
    from robot_stack.datasets.bag.read import import_mcap
    from robot_stack.types.errors import StoreError

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        import_mcap(Path(sys.argv[1]), Path(sys.argv[2]), on_episode=lambda *_: None)
        said = "taken"
    except StoreError as error:
        said = str(error)
    print(json.dumps({"said": said, "mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10}))
