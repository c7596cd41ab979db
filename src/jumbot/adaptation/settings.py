"""The options of training, which are keywords of `jumbot.adapt` and options of the command."""

from jumbot._settings.training import Training as Training

__all__ = ["Training"]
