"""The implementation of `jumbot.shift`: whether two data sets differ, how far, where, and what to do about it."""
