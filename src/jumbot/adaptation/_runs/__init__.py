"""Run folders: how they are written, finished and compared."""
