"""Tests and suites written in Python, and running them against an agent."""
