"""From a Vega-Lite spec to an SVG that stands inside a page and follows its colours."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

import vl_convert

COLOURS: Mapping[str, str] = {
    name: f"#0a0b{number:02x}"
    for number, name in enumerate(
        ("text", "line", "ground", "mark", "passed", "failed", "error", "flaky", "none")
    )
}
"""Stand-ins that the drawing knows; each becomes the CSS variable `--chart-NAME`."""
FONT_SIZE = 14
"""What labels are laid out with. They are drawn smaller, because the reader's font may be wider."""
_DRAWN_SIZE = 12
_STAND_IN = {colour: f"var(--chart-{name})" for name, colour in COLOURS.items()}


def svg(spec: Mapping[str, Any], label: str) -> str:
    """The drawing, with `label` for those who cannot see it. It fetches nothing."""
    drawn: str = vl_convert.vegalite_to_svg(dict(spec), allowed_base_urls=[])
    drawn = re.sub(r"#0a0b[0-9a-f]{2}", lambda match: _STAND_IN[match[0]], drawn)
    drawn = re.sub(r' (?:xmlns(?::xlink)?|version|class|pointer-events)="[^"]*"', "", drawn)
    drawn = drawn.replace(f'font-size="{FONT_SIZE}px"', f'font-size="{_DRAWN_SIZE}px"')
    # The engine takes a link to a place in the page for one to its own home.
    drawn = re.sub(r'<a xlink:href="[^"#]*#', '<a tabindex="-1" href="#', drawn)
    return drawn.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}"', 1)
