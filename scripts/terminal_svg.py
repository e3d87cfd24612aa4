"""Draw terminal output as an SVG with light and dark colours."""

from __future__ import annotations

from html import escape

_STYLE = """
    .ground { fill: #f6f7f9; stroke: #e3e6ea; }
    text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1b1f25; white-space: pre; }
    .command { font-weight: 600; }
    .good { fill: #17734a; }
    .bad { fill: #b8322d; }
    .quiet { fill: #5b6470; }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #1d2025; stroke: #2e3339; }
      text { fill: #e8eaed; }
      .good { fill: #5cc998; }
      .bad { fill: #f4908b; }
      .quiet { fill: #a0a8b4; }
    }
"""
_STEP, _LETTER, _EDGE = 19, 7.85, 18


def draw(screen: str, about: str) -> str:
    """The lines of a screen; `about` is read out to those who do not see it."""
    lines = screen.strip("\n").split("\n")
    wide = round(2 * _EDGE + _LETTER * max(map(len, lines)))
    high = 2 * _EDGE + _STEP * len(lines)
    tops = range(_EDGE + _STEP - 5, high, _STEP)
    shown = "\n".join(
        f'  <text x="{_EDGE}" y="{top}"{_find_class(line)}>{escape(line)}</text>'
        for top, line in zip(tops, lines, strict=False)
        if line
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" width="{wide}"'
        f' role="img" xml:space="preserve" aria-label="{escape(about)}">\n'
        f"  <style>{_STYLE}  </style>\n"
        f'  <rect class="ground" x="0.5" y="0.5" width="{wide - 1}" height="{high - 1}" rx="8"/>\n'
        f"{shown}\n</svg>\n"
    )


def _find_class(line: str) -> str:
    for begins, name in (("$ ", "command"), ("✓", "good"), ("✗", "bad")):
        if line.strip().startswith(begins):
            return f' class="{name}"'
    return ' class="quiet"' if line.startswith("      ") else ""
