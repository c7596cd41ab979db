"""Transport from coordinates: the plan is never stored; its entries are computed in tiles when they are needed."""
