"""Transport from coordinates: the plan is never stored, its entries are computed in tiles as they are needed."""
