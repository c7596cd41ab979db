"""`python -m jumbot` is the `jumbot` command."""

import sys

from jumbot.cli import main

sys.exit(main())
