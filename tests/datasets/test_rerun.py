"""Episodes as Rerun recordings, read back by Rerun: every pixel, number and word at its step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from robot_stack.datasets.rerun_files import export_rerun
from robot_stack.datasets.store_view import StoreView
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Verdict
from robot_stack.types.reward import EpisodeScores
from tests.datasets.data_rig import full_disk, label, made_episode, two_arm_spec, write_folder

chunks = pytest.importorskip("rerun.chunk", reason="rerun-sdk is not installed: pip install 'robot-stack[rerun]'")

NAME = "000000-demo-a0"


def quiet(what: str, number: int, count: int) -> None:
    assert 1 <= number <= count


def read_back(path: Path) -> dict[str, dict[str, list[Any]]]:
    """Entity -> column -> its rows in the order of the steps; columns without a time line as they are."""
    found: dict[str, dict[str, list[Any]]] = {}
    for chunk in chunks.RrdReader(path).stream():
        batch = chunk.to_record_batch()
        columns = {name: _rows(batch.column(name)) for name in batch.schema.names}
        if "step" in columns:
            order = np.argsort(columns["step"])
            columns = {name: [rows[i] for i in order] for name, rows in columns.items()}
        for name, rows in columns.items():
            found.setdefault(chunk.entity_path, {}).setdefault(name, []).extend(rows)
    return found


def _rows(column: Any) -> list[Any]:
    """Durations as numbers: pyarrow gives no nanoseconds otherwise."""
    return list(column.cast("int64").to_pylist() if str(column.type) == "duration[ns]" else column.to_pylist())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoreView, dict[str, dict[str, list[Any]]]]:
    root = tmp_path_factory.mktemp("rerun")
    view = write_folder(root / "a", [made_episode(NAME, two_arm_spec())], [label(NAME, Verdict.SUCCESS)])
    progress = np.linspace(0, 1, 21, dtype=np.float32)
    scores = EpisodeScores(episode_id=NAME, version="v1", progress=progress, success=progress**2)
    ScoreFiles(view.root / "scores").append(scores)
    size = export_rerun(view, view.episodes, root / "out", on_episode=quiet)
    path = root / "out" / f"{NAME}.rrd"
    assert [path] == list((root / "out").iterdir())
    assert size == path.stat().st_size
    return view, read_back(path)


def test_every_pixel_and_number_is_at_its_step(made: tuple[StoreView, dict[str, dict[str, list[Any]]]]) -> None:
    view, found = made
    episode = view.read(NAME)
    for camera in view.spec.cameras:
        rows = found[f"/camera/{camera.name}"]
        assert rows["step"] == list(range(21))
        images = [cv2.imdecode(np.array(row[0], np.uint8), cv2.IMREAD_COLOR_RGB) for row in rows["EncodedImage:blob"]]
        np.testing.assert_array_equal(images, episode.arrays[IMAGE_PREFIX + camera.name])
    for entity in ("executed", "proposed", "human"):
        np.testing.assert_array_equal(found[f"/action/{entity}"]["Scalars:scalars"], episode.arrays[entity])
    parts = [found[f"/proprio/{field.name}"]["Scalars:scalars"] for field in view.spec.proprio]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), episode.arrays["proprio"])


def test_both_time_lines_are_those_of_the_ticks(made: tuple[StoreView, dict[str, dict[str, list[Any]]]]) -> None:
    view, found = made
    stamps = view.read(NAME).arrays["stamp_ns"]
    np.testing.assert_array_equal(found["/timing"]["time"], stamps - stamps[0])


def test_progress_has_a_line_for_each_model(made: tuple[StoreView, dict[str, dict[str, list[Any]]]]) -> None:
    _, found = made
    np.testing.assert_allclose(np.ravel(found["/progress"]["Scalars:scalars"]), np.linspace(0, 1, 21), atol=1e-6)
    assert found["/progress"]["SeriesLines:names"] == [["v1"]]


def test_who_moves_each_arm_and_what_was_said_are_in_words(
    made: tuple[StoreView, dict[str, dict[str, list[Any]]]],
) -> None:
    view, found = made
    sources = view.read(NAME).arrays["sources"]
    for index, arm in enumerate(view.spec.arms):
        said = [row[0] for row in found[f"/control/{arm.name}"]["StateChange:state"]]
        assert said == [Source(int(source)).name.lower() for source in sources[:, index]]
    about = found["/about"]["TextDocument:text"][0][0]
    assert "insert the peg" in about
    assert '"verdict": "success"' in about


def test_a_full_disk_leaves_nothing(tmp_path: Path, view: StoreView) -> None:
    with full_disk(), pytest.raises(StoreError, match="free space"):
        export_rerun(view, view.episodes, tmp_path / "out", on_episode=quiet)
    assert not (tmp_path / "out").exists()


def test_an_episode_that_is_not_there_is_named(tmp_path: Path, view: StoreView) -> None:
    with pytest.raises(StoreError, match="episode is '000009'"):
        export_rerun(view, ["000009"], tmp_path / "out", on_episode=quiet)
