"""Writes what `make faults` measured into docs/safety.md, between its two marks.

python -m tests.faults.write_table build/faults.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.faults.matrix_rows import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "safety.md"
BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
HEAD = "| # | injected | what must happen | bound | measured |\n| --- | --- | --- | --- | --- |\n"


def table(measured: dict[str, str]) -> str:
    """All rows, in order."""
    rows = (f"| {n} | {row.fault} | {row.then} | {row.rule} | {measured[str(n)]} |\n" for n, row in ROWS.items())
    return HEAD + "".join(rows)


def main(file: Path) -> int:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(json.loads(file.read_text()))}{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
