"""promptfoo's templates: `{{name}}` is filled in, what needs a program is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from tallymark.suites.imports.imported_suite import NotCarried

Render = Callable[[str], str]
"""Fills in the variables of one test."""
_TAG = re.compile(r"\{\{-?(.*?)-?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")


def make_render(variables: Mapping[str, Any], unknown: Collection[str] = ()) -> Render:
    """A function from a template to its text, as one test sees it.

    The values of `unknown` names are known to promptfoo only: what uses one cannot be carried over.
    """

    def render(text: str, depth: int = 0) -> str:
        def fill(name: str) -> str:
            if name.startswith("env."):
                return write_variable(name.removeprefix("env."))
            if name in unknown:
                raise NotCarried(f"{{{{{name}}}}} is the answer to another test (storeOutputAs)")
            value: Any = variables
            for part in name.split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            # It takes one line end away from a value, lest there be two in a prompt.
            written = write_as_javascript(value).removesuffix("\n")
            # The value of a variable may be a template itself.
            return render(written, depth + 1) if "{{" in written and depth < 5 else written

        return replace_names(text, fill)

    return render


def replace_names(text: str, fill: Callable[[str], str]) -> str:
    """The text with something in the place of each `{{name}}`."""

    def replace(tag: re.Match[str]) -> str:
        name = (tag[1] or "").strip()
        if not _NAME.fullmatch(name):
            raise NotCarried(f"the template {tag[0]} needs promptfoo")
        return fill(name)

    return _TAG.sub(replace, text)


def write_variable(name: str) -> str:
    """The variable in a suite's syntax."""
    return f"{{{{var('{name}')}}}}"


def write_as_javascript(value: Any) -> str:
    """A value in a text, as JavaScript writes it there."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if isinstance(value, list):
        return ",".join(map(write_as_javascript, value))
    if isinstance(value, dict):
        raise NotCarried("a text contains a mapping")
    return str(value)
