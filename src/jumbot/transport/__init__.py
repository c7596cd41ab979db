"""One transport problem, or a batch of them: (cost, a, b, epsilon, tau, phi) -> Solution."""
