"""What is kept of production traces, and of the rules that score them."""
