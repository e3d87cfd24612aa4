"""The documentation as pages: what there is, in which order, and how it is searched."""
