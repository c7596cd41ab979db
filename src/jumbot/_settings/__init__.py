"""What can be said without torch: names, options, recipes and places."""
