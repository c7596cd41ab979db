"""Evaluation of a model: measures, label-free scores, diagnosis."""
