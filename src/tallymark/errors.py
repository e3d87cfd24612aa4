"""Every exception of Tallymark, in one tree.

    TallymarkError
    ├── InvalidInput          the user's input is wrong                   (exit code 2)
    │   ├── BadRequest        a request that cannot be read: its address, query or JSON
    │   ├── TooLarge          a body with more bytes or values than are taken
    │   ├── FormulaError      a formula, or a name declared for one
    │   ├── TraceError        a trace file, or a record in it
    │   │   └── CutShort      a compressed file that ends too early: what is whole was read
    │   ├── ScorerError       a scorer's name, definition or config
    │   ├── NotFound          it does not exist, or not for this caller
    │   ├── NothingStored     a database without tables, where something should be read
    │   ├── Conflict          it contradicts something done before
    │   │   └── BeingServed   the same request is still being served
    │   ├── NeedsJob          it cannot be answered at once and needs a job
    │   └── NotReady          a challenge whose own check fails             (exit code 1)
    ├── NotAllowed            the caller lacks the permission             (exit code 2)
    │   └── NotSignedIn       the caller is unknown, or its key is not valid
    ├── TooMany               the caller sent too many requests           (exit code 3)
    └── WorkFailed            the input is fine, the work could not be done (exit code 3)
        ├── Busy              others are being served: the same request can work later
        ├── RuleChanged       a score by a rule that has changed meanwhile
        ├── LeaseLost         another process has taken over the work
        ├── ModelError        a request to a model that was not answered
        ├── NotMeasured       the trace lacks what a scorer needs
        ├── PluginNotLoaded   a plugin that ends before it looks at any attempt
        └── OrganiserFault    a fault of an organiser's files, without their contents

Each carries one or more `Problem`s: what is wrong, where, and how to fix it. A scorer that
fails on one trace is not an exception but a `Score` with an error: see `tallymark.scoring`.
"""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Place:
    """A position: a file, a line and a column (from 1), or some of them."""

    source: str | None = None
    line: int | None = None
    column: int | None = None
    length: int = 1
    text: str | None = None
    """The line of the user's text that the column points into, for the caret."""

    def __str__(self) -> str:
        if self.source is not None:
            return ":".join(str(p) for p in (self.source, self.line, self.column) if p is not None)
        if self.column is None:
            return "" if self.line is None else f"line {self.line}"
        prefix = "" if self.line in (None, 1) else f"line {self.line}, "
        return f"{prefix}column {self.column}"

    def caret(self) -> str | None:
        """The line with `^^^` under the place, cut to what fits on a screen."""
        if self.text is None or self.column is None:
            return None
        start = max(0, self.column - 41)
        # A tab counts as one column, so it must be one wide for the caret to stand under its place.
        shown = self.text[start : start + 78].replace("\t", " ")
        at = self.column - 1 - start
        marks = "^" * max(1, min(self.length, len(shown) - at))
        return f"  {shown}\n  {' ' * at}{marks}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: `message` describes it, `place` is its position, `hint` how to fix it."""

    message: str
    place: Place | None = None
    hint: str | None = None

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place is not None and str(self.place) else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{where}{self.message}{hint}"

    def render(self) -> str:
        """The sentence, and under it the user's line with a caret where there is one."""
        caret = self.place.caret() if self.place is not None else None
        return str(self) if caret is None else f"{self}\n{caret}"

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        place = asdict(self.place) if self.place is not None else None
        return {"message": self.message, "place": place, "hint": self.hint}


class TallymarkError(Exception):
    """The root of the tree. `problems` is never empty."""

    exit_code: ClassVar[int] = 3

    def __init__(
        self,
        message: str | Iterable[Problem],
        *,
        place: Place | None = None,
        hint: str | None = None,
    ) -> None:
        self.problems: tuple[Problem, ...] = (
            (Problem(message, place, hint),) if isinstance(message, str) else tuple(message)
        )
        if not self.problems:
            raise ValueError("an error needs at least one problem")
        super().__init__("\n".join(str(p) for p in self.problems))

    def render(self) -> str:
        """All problems for a person to read, carets included."""
        return "\n".join(p.render() for p in self.problems)


class InvalidInput(TallymarkError):
    """The user's input is wrong; the error names the place and the fix."""

    exit_code = 2


class BadRequest(InvalidInput):
    """A request that cannot be read: its address, its query, or a body that is not JSON."""


class TooLarge(InvalidInput):
    """A request with more than one request may have."""


class FormulaError(InvalidInput):
    """A formula that cannot be accepted, or a name that cannot be declared for one."""


class TraceError(InvalidInput):
    """A trace file that cannot be read, or a broken record in it."""


class CutShort(TraceError):
    """A compressed file that ends too early. All that is whole in it has been read."""


class ScorerError(InvalidInput):
    """A scorer that is not known, not well defined, or wrongly configured."""


class NotFound(InvalidInput):
    """It does not exist, or the caller may not know of it."""


class NothingStored(InvalidInput):
    """A database that holds no tables yet, where something should be read or changed."""


class Conflict(InvalidInput):
    """The request contradicts something done before: a name is taken, a contest is over."""


class BeingServed(Conflict):
    """The same request, sent before, is still being served. A later repetition is answered."""


class NeedsJob(InvalidInput):
    """The answer takes longer than a request may; the hint names the job that makes it."""


class NotReady(InvalidInput):
    """A challenge that its check calls not ready; the problems are what the check found."""

    exit_code = 1


class NotAllowed(TallymarkError):
    """The caller is known, and lacks the permission."""

    exit_code = 2


class NotSignedIn(NotAllowed):
    """No key, or one that is unknown, expired or revoked."""


class TooMany(TallymarkError):
    """The caller sent too many requests; after `retry_after` seconds it may continue."""

    def __init__(self, message: str, *, retry_after: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class WorkFailed(TallymarkError):
    """The input is fine, but the work could not be done: a service, a database, a sandbox."""


class Busy(WorkFailed):
    """Too much is being done for others; asked again after `retry_after` seconds, it may be done.

    Nothing of what was asked has been done.
    """

    def __init__(self, message: str, *, retry_after: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class RuleChanged(WorkFailed):
    """A score by a rule that has changed since it was read. It must be scored again."""


class LeaseLost(WorkFailed):
    """Another process has taken over this work. Nothing more of it is stored."""


class NotMeasured(WorkFailed):
    """The trace lacks what a scorer needs. The score then fails, and is not 0."""


class PluginNotLoaded(WorkFailed):
    """A plugin that ends before it looks at any attempt: no competitor is to blame."""


class ModelError(WorkFailed):
    """A request that was not answered.

    `retryable` is true if a retry can help (429, overload, a dropped connection), and `retry_after`
    has the seconds that the other side requested to wait. `throttled` means a request to slow down.
    `tries` is the number of tries. `refused` means that every try was refused or could not connect,
    so nothing was charged; other failures may have been.
    """

    def __init__(  # noqa: PLR0913 (what is known of a failure, by keyword)
        self,
        message: str,
        *,
        hint: str | None = None,
        retryable: bool = False,
        throttled: bool = False,
        retry_after: float | None = None,
        tries: int = 1,
        refused: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.refused = refused
        self.retryable = retryable
        self.throttled = throttled
        self.retry_after = retry_after
        self.tries = tries


class OrganiserFault(WorkFailed):
    """A fault of an organiser's secret files; any user may read the message.

    `reason` has the details, may hold the truth, and is for organisers only.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message, hint="its organiser can see why")
        self.reason = reason


def suggest(wrong: str, known: Iterable[str]) -> str | None:
    """The most similar of the known words, if any is similar enough.

    Only words of about the same length that share an end are compared, so that an enormous
    list stays cheap.
    """
    folded = wrong.casefold()
    if not folded or len(folded) > 128:
        return None
    alike = {}
    for word in known:
        if abs(len(word) - len(folded)) <= 3:
            lower = word.casefold()
            if lower[:1] == folded[0] or lower[-1:] == folded[-1]:
                alike[lower] = word
    close = difflib.get_close_matches(folded, islice(alike, 500), n=1, cutoff=0.6)
    return alike[close[0]] if close else None
