"""Do the libraries agree? The same problems through each, their conventions converted, one judge for all."""
