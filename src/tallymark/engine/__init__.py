"""Engines for bulk work: processes of this machine, or a Ray cluster."""
