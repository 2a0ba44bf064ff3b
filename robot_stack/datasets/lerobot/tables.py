"""Parquet files of a LeRobotDataset: rows, episodes and tasks."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.datasets import bounds
from robot_stack.datasets.extras import need
from robot_stack.datasets.lerobot import layout
from robot_stack.types.errors import StoreError

MEGABYTE = 1 << 20
BATCH_ROWS, BATCH_TEXTS = 65536, 16
"""Rows that are unpacked at once, before it is counted how much has come; fewer where a row may be of any length."""


def arrow_table(rows: Mapping[str, np.ndarray]) -> Any:
    """Build a table of float32, int64 or bool columns; shape (T, D) becomes lists of fixed size."""
    arrow = need("pyarrow", "pyarrow")

    def column(values: np.ndarray) -> Any:
        if values.ndim == 1:
            return arrow.array(values)
        return arrow.FixedSizeListArray.from_arrays(arrow.array(np.ascontiguousarray(values).ravel()), values.shape[1])

    return arrow.table({name: column(values) for name, values in rows.items()})


def read_bounded(path: Path, columns: Collection[str]) -> Any:
    """Read the columns of these names that a Parquet file has, once it is known how much they may unpack to.

    Raises:
        StoreError: If it says that they are more than a file of its size may hold, or they turn out to be.
        ArrowException: If it is damaged.
    """
    arrow, parquet = need("pyarrow", "pyarrow"), need("pyarrow.parquet", "pyarrow")
    with parquet.ParquetFile(path) as file:
        said = file.metadata
        most = bounds.unpacked_limit(path.stat().st_size)
        wanted = [name for name in file.schema_arrow.names if name in columns]
        values = sum(_said_bytes(said.row_group(group), wanted) for group in range(said.num_row_groups))
        if said.num_rows > bounds.MAX_ROWS or values > most:
            raise StoreError(
                f"size of {path} is {said.num_rows} rows and {values} bytes unpacked, must be at most "
                f"{bounds.MAX_ROWS} and {most}; take the dataset from somebody you trust"
            )
        found, rows, texts = [], BATCH_ROWS, any(_is_text(file.schema_arrow.field(name).type) for name in wanted)
        for batch in file.iter_batches(batch_size=BATCH_TEXTS if texts else rows, columns=wanted):
            most -= batch.nbytes
            if most < 0:
                raise StoreError(
                    f"unpacked size of {path} is {bounds.unpacked_limit(path.stat().st_size) - most} bytes or more, "
                    f"must be at most {bounds.unpacked_limit(path.stat().st_size)}; take the dataset from somebody you "
                    "trust"
                )
            found.append(batch)
        return arrow.Table.from_batches(found, arrow.schema([file.schema_arrow.field(name) for name in wanted]))


def _said_bytes(group: Any, wanted: Collection[str]) -> int:
    """Return the bytes that a row group says these columns unpack to: in its pages, or as values of eight bytes."""
    chunks = [group.column(number) for number in range(group.num_columns)]
    mine = [c for c in chunks if c.path_in_schema in wanted or _top(c.path_in_schema, wanted)]
    return sum(max(int(chunk.total_uncompressed_size), 8 * int(chunk.num_values)) for chunk in mine)


def _top(path: str, wanted: Collection[str]) -> bool:
    """Return True if a path in a schema lies in one of these columns, whose names have dots themselves."""
    return any(path.startswith(f"{name}.") for name in wanted)


def _is_text(kind: Any) -> bool:
    """Return True if values of a column have no fixed length: a page of one may repeat it a million times."""
    types = need("pyarrow.types", "pyarrow")
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _is_text(kind.value_type)
    return not types.is_primitive(kind)


class RollingTable:
    """A table over the files of a pattern, a row group per `add`; a new file begins once one has reached its size.

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
        """Return the number of the file that the next table goes to; closes one that has reached its size."""
        if self._writer is not None and self._content.tell() >= self._most:
            self.close()
        return self.number + (self._writer is None)

    def add(self, table: Any) -> int:
        """Append a table; return the number of the file it goes to."""
        self.number = self.turn()
        if self._writer is None:
            self._content = need("pyarrow", "pyarrow").BufferOutputStream()
            writer_of = need("pyarrow.parquet", "pyarrow").ParquetWriter
            self._writer = writer_of(self._content, table.schema, compression="snappy")
        self._writer.write_table(table)
        return self.number

    def close(self) -> None:
        """Write the open file, if there is one.

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
    """Write tasks.parquet: `task_index`, with the task's text as the index of a pandas frame, which LeRobot reads."""
    arrow, parquet = need("pyarrow", "pyarrow"), need("pyarrow.parquet", "pyarrow")
    table = arrow.table({"task_index": arrow.array(range(len(tasks)), arrow.int64()), "task": tasks})
    pandas = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [_pandas_column("task_index", "int64", "int64"), _pandas_column("task", "unicode", "object")],
        "creator": {"library": "pyarrow", "version": arrow.__version__},
        "pandas_version": "2.0.0",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), path)


def _pandas_column(name: str, pandas_type: str, numpy_type: str) -> dict[str, Any]:
    return {"name": name, "field_name": name, "pandas_type": pandas_type, "numpy_type": numpy_type, "metadata": None}


def numpy_rows(table: Any) -> dict[str, np.ndarray]:
    """Turn a table into arrays; the inverse of `arrow_table`.

    Lists of variable size are taken too; other columns are left out.

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
