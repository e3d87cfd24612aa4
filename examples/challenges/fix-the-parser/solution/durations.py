"""Durations such as 1h30m."""

import re

_DURATION = re.compile(
    r"\s*(?:([0-9]+)\s*d)?\s*(?:([0-9]+)\s*h)?\s*(?:([0-9]+)\s*m)?\s*(?:([0-9]+)\s*s)?\s*",
    re.IGNORECASE | re.ASCII,
)
_SIZES = (86400, 3600, 60, 1)


def seconds(text):
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None or not any(found.groups()):
        return None
    return sum(int(part or 0) * size for part, size in zip(found.groups(), _SIZES, strict=True))
