"""What is known of a model: evaluation, label-free scores, diagnosis."""
