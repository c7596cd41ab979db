"""`python -m jumbot.cli` is the `jumbot` command, which torchrun can start by that name."""

import sys

from jumbot.cli import main

sys.exit(main())
