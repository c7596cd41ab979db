"""What the files of a run, a comparison and a tuning hold, each as one dataclass: see `jumbot.schema`.

A module has the name of the file.  The headers of weights are in `jumbot.adaptation.training.checkpoint`.
"""
