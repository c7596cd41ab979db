"""Adapting a classifier from a labelled source domain to an unlabelled target domain."""
