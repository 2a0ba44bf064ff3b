"""Parquet files of a LeRobotDataset: rows, episodes and tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.datasets.extras import need
from robot_stack.datasets.lerobot import layout

MEGABYTE = 1 << 20


def arrow_table(rows: Mapping[str, np.ndarray]) -> Any:
    """A table of float32, int64 or bool columns; shape (T, D) becomes lists of fixed size."""
    arrow = need("pyarrow", "pyarrow")

    def column(values: np.ndarray) -> Any:
        if values.ndim == 1:
            return arrow.array(values)
        return arrow.FixedSizeListArray.from_arrays(arrow.array(np.ascontiguousarray(values).ravel()), values.shape[1])

    return arrow.table({name: column(values) for name, values in rows.items()})


class RollingTable:
    """Files of a pattern, a row group per table; a new file begins once one has reached its size.

    The open file is in memory until it is closed, so that a full disk is an error of a plain write.
    """

    def __init__(self, root: Path, pattern: str, most_mb: float) -> None:
        self.number = -1
        self._root = root
        self._pattern = pattern
        self._most = most_mb * MEGABYTE
        self._content: Any = None
        self._writer: Any = None

    def turn(self) -> int:
        """Number of the file that the next table goes to."""
        if self._writer is not None and self._content.tell() >= self._most:
            self.close()
        return self.number + (self._writer is None)

    def add(self, table: Any) -> int:
        """Append a table; returns the number of the file it goes to."""
        self.number = self.turn()
        if self._writer is None:
            self._content = need("pyarrow", "pyarrow").BufferOutputStream()
            writer_of = need("pyarrow.parquet", "pyarrow").ParquetWriter
            self._writer = writer_of(self._content, table.schema, compression="snappy")
        self._writer.write_table(table)
        return self.number

    def close(self) -> None:
        """Write the open file.

        Raises:
            OSError: If the disk refuses.
        """
        if self._writer is not None:
            self._writer.close()
            path = self._root / layout.place(self._pattern, self.number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._content.getvalue())
            self._writer = None


def write_tasks(path: Path, tasks: list[str]) -> None:
    """tasks.parquet: `task_index`, with the task's text as the index of a pandas frame, which LeRobot reads."""
    arrow, parquet = need("pyarrow", "pyarrow"), need("pyarrow.parquet", "pyarrow")
    table = arrow.table({"task_index": arrow.array(range(len(tasks)), arrow.int64()), "task": tasks})
    pandas = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [
            _pandas_column("task_index", "int64", "int64"),
            _pandas_column("task", "unicode", "object"),
        ],
        "creator": {"library": "pyarrow", "version": arrow.__version__},
        "pandas_version": "2.0.0",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)


def _pandas_column(name: str, pandas_type: str, numpy_type: str) -> dict[str, Any]:
    return {
        "name": name,
        "field_name": name,
        "pandas_type": pandas_type,
        "numpy_type": numpy_type,
        "metadata": None,
    }


def numpy_rows(table: Any) -> dict[str, np.ndarray]:
    """Inverse of `arrow_table`, also for lists of variable size; other columns are left out.

    Raises:
        ValueError: If the lists of a column differ in length.
    """
    arrow = need("pyarrow", "pyarrow")
    found = {}
    for name in table.column_names:
        values = table[name].combine_chunks()
        kind = values.type
        if arrow.types.is_list(kind) or arrow.types.is_fixed_size_list(kind) or arrow.types.is_large_list(kind):
            entries = values.flatten()
            if arrow.types.is_floating(entries.type) or arrow.types.is_integer(entries.type):
                found[name] = entries.to_numpy(zero_copy_only=False).reshape(len(values), -1)
        elif arrow.types.is_floating(kind) or arrow.types.is_integer(kind) or arrow.types.is_boolean(kind):
            found[name] = values.to_numpy(zero_copy_only=False)
    return found
