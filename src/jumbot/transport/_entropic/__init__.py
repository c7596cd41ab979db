"""epsilon > 0: one policy of sweeps, and the engines that run them."""
