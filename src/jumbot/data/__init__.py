"""Data from files."""
