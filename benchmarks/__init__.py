"""Peers side by side: jumbot, POT, OTT-JAX and GeomLoss on the same problems, to the same accuracy."""
