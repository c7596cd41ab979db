"""What is compiled, and the threads that it runs in."""
