"""Competing from one's own machine: what an agent is given, and how it is run and watched."""
