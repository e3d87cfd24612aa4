"""The events of a YAML text, and what the parser raises.

A module of its own, since either library takes time to load: only a file that is read pays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# libyaml is 20 times as fast, but PyYAML may have been built without it; ruamel.yaml works
# everywhere. Both give the same events, and neither decides what plain text means: we do.
try:
    from yaml.cyaml import CParser  # type: ignore[import-untyped]
    from yaml.error import YAMLError  # type: ignore[import-untyped]
except ImportError:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    def read_events(text: str) -> Iterator[Any]:
        """From ruamel.yaml."""
        return iter(YAML(typ="safe", pure=True).parse(text))
else:

    def read_events(text: str) -> Iterator[Any]:
        """From libyaml."""
        return iter(CParser(text).get_event, None)


__all__ = ["YAMLError", "read_events"]
