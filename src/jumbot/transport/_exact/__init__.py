"""epsilon = 0: one problem at a time, float64 arrays in, plan and potentials out."""
