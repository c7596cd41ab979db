"""What needs no torch: names, options, recipes and places."""
