"""Reading drawings in tests: where their elements are, and that they are harmless."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from tallymark.charts.frame import Chart

HOSTILE = "</text><script>alert(1)</script>\x00\u202e \"quoted\" 'x' & 日本語 " + "long " * 100
"""A name that tries to leave its place in every way."""
TAGS = {"div", "svg", "title", "desc", "g", "a", "text", "line", "path", "rect", "circle"}


def read(chart: Chart) -> ET.Element:
    """The drawing as a tree; what is not well-formed fails here."""
    return ET.fromstring(chart.svg)


def find(chart: Chart, tag: str, kind: str | None = None) -> list[dict[str, str]]:
    """The attributes of all elements of a tag, or of those with a class."""
    found = [element.attrib for element in read(chart).iter(tag)]
    return [each for each in found if kind is None or each.get("class") == kind]


def texts(chart: Chart) -> list[str]:
    """The labels, in the order in which they are drawn."""
    return [element.text or "" for element in read(chart).iter("text")]


def check_harmless(chart: Chart) -> None:
    """Well-formed, named, and without colours, styles, scripts or wrong numbers of its own."""
    tree = read(chart)
    svg = tree if tree.tag == "svg" else tree[0]
    assert svg.attrib["role"] == "img"
    assert svg[0].tag == "title"
    assert svg[0].text
    for element in tree.iter():
        assert element.tag in TAGS
        assert not {"style", "fill", "stroke"} & element.attrib.keys()
        assert not any(name.startswith("on") for name in element.attrib)
        numbers = [v for k, v in element.attrib.items() if k not in ("class", "href")]
        assert not any(re.search(r"nan|inf|#|rgb", number) for number in numbers)
    page = chart.write_html()
    assert "<script" not in page
    assert "As a table" in page
    assert all(len(row) == len(chart.head) for row in chart.rows)
