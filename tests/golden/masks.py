"""What no two runs have in common is masked, and nothing else: the whole list is here.

An id or a hash becomes `<run-1>`, `<run-2>` in the order in which a story shows them, so which one
is meant is still compared, and a later step of the story can say `show <run-1>`. Times need no
mask: a story has a clock of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial


@dataclass(frozen=True)
class Mask:
    """The group of `pattern` that matched becomes a label, or a number with fewer decimals."""

    label: str
    pattern: str
    why: str
    numbered: bool = False
    """One value is told from another."""
    decimals: int | None = None


MASKS: tuple[Mask, ...] = (
    # The letters after the first are the time, which in January 2026 begins with `mn`.
    Mask("run", r"\b(rmn[0-9a-z]{8})\b", "the end of a run's id is drawn", numbered=True),
    Mask("group", r"\b(gmn[0-9a-z]{8})\b", "so is that of runs begun together", numbered=True),
    Mask("tly", r"\b(tly_[\w-]{43})(?![\w-])", "a key is drawn", numbered=True),
    Mask("tlw", r"\b(tlw_a\d{12}_[a-z2-7]{32})\b", "so is what signs tokens", numbered=True),
    Mask("tli", r"\b(tli_[\w-]{43})(?![\w-])", "so is an invitation", numbered=True),
    Mask("tlw", r"\b(tlw_a\d{12}_[0-9a-z]+)", "the token of an attempt is drawn", numbered=True),
    Mask("invitation", r"\b(inv_[0-9a-f]{16})\b", "and its id", numbered=True),
    Mask("key", r"\b(key_[0-9a-f]{16})\b", "so is its id", numbered=True),
    Mask("seed", r'"seed": (\d{7,})\b', "an attempt's data are drawn", numbered=True),
    # Hashes of suites and of challenges' folders stand as they are: they say what is alike.
    Mask(
        "code",
        r'"version": ?"([0-9a-f]{12})"|"scorer": "[^"]*",\s+"version": "([0-9a-f]{64})"'
        r'|^code     ([0-9a-f]{64})$|"code_hash": "([0-9a-f]{64})"',
        "a hash of our own code follows every edit",
        numbered=True,
    ),
    Mask(
        "scored",
        r'"definition_hash": "([0-9a-f]{64})"'
        r'(?=[^{}]*(?:"metrics": \{[^{}]*\}[^{}]*)?"tags": \{\s*"door")',
        "what a run of traces or of a suite in Python was scored with has such hashes in it",
        numbered=True,
    ),
    Mask("version", r'^tally (\d\S+)$|"tallymark": "(\d[^"]+)"', "it grows"),
    Mask(
        "machine",
        r'"(?:python|kernel|landlock_abi|present|why_not|install)": (.+?),?$',
        "what `tally doctor` finds out about it",
    ),
    Mask(
        "ms",
        r'"(?:median_ms|worst_ms|ms)": ([\d.]+)|^time     ([\d.]+ m?s .* m?s at worst)',
        "how long a plugin takes here",
    ),
    Mask(
        "left",
        r"(\d+ s)(?= left$|\. Continue with:|, the attempt is a loss)",
        "what an agent has left goes by a clock that cannot be set back, also in a story",
    ),
    Mask(
        "digits",
        r'"(?:value|low|high|error|robust_error|floor)": (-?\d+\.\d{9,})'
        r"|,(-?\d+\.\d{9,})(?=,|$)",
        "the last digits of fits and cosines are the processor's",
        decimals=6,
    ),
    Mask("version", r"genai-prices ([0-9.]+)", "the price table is updated with its package"),
)
MEASURED: tuple[Mask, ...] = (
    Mask(
        "s",
        r'"(?:\w+[_-])*(?:latency|duration_ms)": ?([\d.e-]+)|( *\b\d+(?:\.\d+)? m?s)\b',
        "how long an agent takes that is really asked, in the stories that say so",
    ),
)
TODAY = (
    Mask(
        "run",
        r"^(?:! |Run: )(r[0-9a-z]{10})(?=[:,])|tally (?:show|run --resume) (r[0-9a-z]{10})\b",
        "a command that is started as users do it has the time of today in a run's id",
        numbered=True,
    ),
)


@dataclass
class Masker:
    """The masks of one story. `places` are paths and addresses, with what is shown instead."""

    places: dict[str, str]
    masks: tuple[Mask, ...] = MASKS
    known: dict[str, str] = field(default_factory=dict)

    def mask(self, text: str) -> str:
        """As it is compared."""
        for path, shown in self.places.items():
            text = text.replace(path, shown)
        for each in self.masks:
            replaced = partial(self._replaced, each)
            text = re.sub(each.pattern, replaced, text, flags=re.MULTILINE)
        return text

    def unmask(self, text: str) -> str:
        """A word of a command, or a file of a story, with what stands behind labels."""
        for shown, value in self.known.items():
            text = text.replace(shown, value)
        for path, shown in self.places.items():
            text = text.replace(shown, path)
        return text

    def _replaced(self, mask: Mask, found: re.Match[str]) -> str:
        assert found.lastindex is not None
        start, end = (at - found.start() for at in found.span(found.lastindex))
        return found[0][:start] + self._shown(mask, found[found.lastindex]) + found[0][end:]

    def _shown(self, mask: Mask, value: str) -> str:
        if mask.decimals is not None:
            return f"{float(value):.{mask.decimals}f}"
        if not mask.numbered:
            return f"<{mask.label}>"
        labels = [shown for shown in self.known if shown.startswith(f"<{mask.label}-")]
        for shown in labels:
            if self.known[shown] == value:
                return shown
        self.known[f"<{mask.label}-{len(labels) + 1}>"] = value
        return f"<{mask.label}-{len(labels) + 1}>"
