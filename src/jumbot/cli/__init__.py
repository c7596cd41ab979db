"""The `jumbot` command: one file per command, each with its options as a dataclass, all read by tyro."""

from jumbot.cli._app import main

__all__ = ["main"]
