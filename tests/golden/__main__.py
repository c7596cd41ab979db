"""Record everything again, or the records that are named: `python -m tests.golden [NAME ...]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.golden.records import RECORDS, write


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or RECORDS:
            compute = RECORDS[name]
            write(name, compute(Path(folder) / name))
            print(f"recorded {name}")


if __name__ == "__main__":
    main()
