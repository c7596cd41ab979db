"""Record everything again: `python -m tests.golden`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.golden.records import RECORDS, write


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, compute in RECORDS.items():
            write(name, compute(Path(folder) / name))
            print(f"recorded {name}")


if __name__ == "__main__":
    main()
