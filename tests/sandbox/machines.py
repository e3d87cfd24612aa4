"""Machines that have some layers of the sandbox and lack others."""

from __future__ import annotations

from tallymark.sandbox.machine_probe import Layer, Machine

ALL = (
    *("bubblewrap", "user namespaces", "landlock", "landlock signals", "seccomp", "pidfd"),
    "memory groups",
)


def machine(*missing: str) -> Machine:
    layers = tuple(
        Layer(
            name=name,
            guards="something",
            why_not=f"no {name} here" if name in missing else None,
            install=f"install {name}",
        )
        for name in ALL
    )
    return Machine("6.12", "3.11.7", 6, layers)
