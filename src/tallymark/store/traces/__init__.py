"""Production traces, and the rules that score them."""
