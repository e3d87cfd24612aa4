"""Every parser of untrusted bytes, for the test corpus and the fuzzer.

The one law: bytes become a value, or one of our own errors with a sentence; nothing else is raised,
and it takes a bounded time. `tests/corpus/NAME/` holds what a parser is tried on, each file named
for why it is there. A new parser is a function and a row here, and a few files there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tallymark.errors import InvalidInput, TallymarkError

TREE = Path(__file__).parents[1]
CORPUS = TREE / "tests" / "corpus"
SECONDS = 10.0
"""So long one input may take of the processor, whatever it is."""
_LONGEST = 20_000
_NOW = 1_760_000_000.0


class LawBroken(Exception):
    """What a parser did that none may do."""


@dataclass(frozen=True)
class Parser:
    """One of them; `refuses` are its own errors, where they never reach a user."""

    name: str
    parse: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...] = (TallymarkError,)

    def try_on(self, data: bytes) -> bool:
        """Whether the bytes became a value; what breaks the law is raised."""
        try:
            self.parse(data)
        except self.refuses as error:
            self._check_words(error)
            return False
        return True

    def _check_words(self, error: Exception) -> None:
        said = str(error)
        if not said.strip() or len(said) > _LONGEST:
            raise LawBroken(f"{type(error).__name__} says {len(said)} characters") from error

    @property
    def files(self) -> list[Path]:
        """What it is tried on."""
        return sorted(path for path in (CORPUS / self.name).iterdir() if path.is_file())


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _refuse_scorer(ref: str, /, **_: Any) -> Any:
    raise InvalidInput(f"there is no scorer {ref!r}")


def parse_formula(data: bytes) -> None:
    """A formula, checked, linted, evaluated and explained."""
    from tallymark.formula import Formula

    values = {"success_pct": 80.0, "total_cost": 0.5, "avg_latency": 0.0, "a": 1.0, "b": -2.0}
    values["a-b"] = 1e308
    formula = Formula.parse(_text(data), list(values))
    formula.lint()
    first = formula.evaluate(values)
    if repr(first) != repr(formula.evaluate(values)):  # walked, then compiled
        raise LawBroken("a formula has two values")
    str(formula.explain(values))


def parse_suite(data: bytes) -> None:
    """The YAML of a suite."""
    from tallymark.documents.source import Source
    from tallymark.suites.suite_file import load_source, load_stored

    with TemporaryDirectory() as folder:
        source = Source(_text(data), "suite.yaml", Path(folder))
        suite = load_source(source, load=_refuse_scorer)
        load_stored(suite.to_json(), folder=Path(folder), load=_refuse_scorer)


def parse_track(data: bytes) -> None:
    """The YAML of a track."""
    from tallymark.challenges.tracks import read_track
    from tallymark.documents.source import Source

    read_track(Source(_text(data), "track.yaml"))


def parse_other_suite(data: bytes) -> None:
    """Another tool's configuration."""
    from tallymark.suites.imports.imported_suite import import_suite, write_yaml

    with TemporaryDirectory() as folder:
        path = Path(folder, "promptfooconfig.yaml")
        path.write_bytes(data)
        write_yaml(import_suite(path).document)


def parse_challenge(data: bytes) -> None:
    """The YAML of a challenge, beside the files that it may name."""
    from tallymark.challenges.challenge_file import validate_challenge

    with TemporaryDirectory() as folder:
        Path(folder, "truth.json").write_text('{"sum": 42}', encoding="utf-8")
        Path(folder, "cases.yaml").write_text("- {call: add, args: [1], value: 1}\n")
        Path(folder, "scorer.py").write_text("class Mine:\n    pass\n")
        Path(folder, "challenge.yaml").write_bytes(data)
        validate_challenge(folder)


def parse_packed(data: bytes) -> None:
    """A challenge's folder, as it is sent."""
    from tallymark.challenges.challenge_folder import read_packed, write_files

    files = read_packed(data)
    with TemporaryDirectory() as folder:
        write_files(files, Path(folder, "new"))
        outside = [path for path in Path(folder).iterdir() if path.name != "new"]
        if outside:
            raise LawBroken(f"{outside[0].name} was written outside of its folder")


def parse_answer(data: bytes) -> None:
    """A submission in every form, and an agent's JSON."""
    from tallymark.challenges.challenge import Submission
    from tallymark.challenges.submitted_files import parse_sent
    from tallymark.documents.bounded_json import read_bounded_json, read_json

    with suppress(ValueError):  # which callers put into their own words
        read_bounded_json(data)
    with suppress(ValueError):
        read_json(_text(data), fenced=True)
    refused: TallymarkError | None = None
    for form in ("json", "text", "files", "agent"):
        for name in (None, "answer.json", "main.py"):
            try:
                parse_sent(data, name, Submission(format=form))
            except TallymarkError as error:
                refused = error
    if refused is not None:
        raise refused


def _parse_export(encoding: Any) -> Callable[[bytes], None]:
    def parse(data: bytes) -> None:
        from tallymark.store.traces.segments import assemble_groups, pack_groups
        from tallymark.traces.otel_traces import assemble_counted
        from tallymark.traces.otlp_export import read_export
        from tallymark.traces.trace_facts import read_facts

        for each in read_export(data, encoding).traces.values():
            if each.spans:
                pack_groups(each.groups)
                read_facts(assemble_groups(each.groups, assemble_counted))

    return parse


def _pass_over(_: TallymarkError) -> None:
    """What is broken, where reading goes on."""


def parse_traces(data: bytes) -> None:
    """A file of traces of any dialect, compressed or not."""
    from tallymark.traces import read_traces
    from tallymark.traces.trace_facts import read_facts

    for trace in read_traces(BytesIO(data), skip_broken=True, on_broken=_pass_over):
        read_facts(trace)
        trace.to_dict()
    for trace in read_traces(BytesIO(data)):
        list(trace.walk())


def parse_trajectory(data: bytes) -> None:
    """What an agent did, as it says."""
    from tallymark.challenges.challenge import Constraints
    from tallymark.challenges.trajectory import hash_steps, read_trajectory, verify_sent

    times = {"entered_at": _NOW, "submitted_at": _NOW + 60}
    bounds = Constraints(tokens=500, cost=0.5, calls=3)
    verify_sent(data, **times, claims={"tokens": 42}, constraints=bounds)
    hash_steps(data)
    read_trajectory(data)


def parse_frames(data: bytes) -> None:
    """What a plugin writes to the channel of its answers: it knows the nonce of its child."""
    from tallymark.sandbox.plugins.answer_frames import Frames

    frames = Frames(b"0123456789abcdef", 1_000_000)
    for start in range(0, len(data), 7):
        for frame in frames.feed(data[start : start + 7]):
            parse_answers(frame)


def parse_answers(data: bytes) -> None:
    """The answer in one such frame."""
    from tallymark.sandbox.plugins.answer_frames import BadFrame
    from tallymark.sandbox.plugins.plain_data import Unread, decode_answer

    found = decode_answer(data, 100_000)
    if isinstance(found, Unread):
        raise BadFrame(found.why)


def parse_filter(data: bytes) -> None:
    """A filter of traces, as people type it, down to its SQL."""
    from tallymark.traces.trace_query import parse_query

    parse_query(_text(data), now=_NOW)


def parse_parquet(data: bytes) -> None:
    """A table to be loaded."""
    from tallymark.parquet_trial import try_parquet
    from tallymark.service.tables import ATTEMPTS, RESULTS, SCORES, TRACES, TableFile

    refused: list[TallymarkError] = []
    with TemporaryDirectory() as folder:
        path = Path(folder, "table.parquet")
        path.write_bytes(data)
        tables: tuple[Any, ...] = (ATTEMPTS, RESULTS, TRACES, SCORES)
        for table in tables:
            try:
                try_parquet(
                    path, table.columns
                )  # as `tally load` does: pyarrow may end its process
                for _ in TableFile(path, table):
                    pass
            except TallymarkError as error:
                refused.append(error)
    if len(refused) == len(tables):
        raise refused[0]


def _list_parsers() -> dict[str, Parser]:
    from tallymark.sandbox.plugins.answer_frames import BadFrame

    found = (
        Parser("formula", parse_formula),
        Parser("suite", parse_suite),
        Parser("other-suite", parse_other_suite),
        Parser("challenge", parse_challenge),
        Parser("packed-challenge", parse_packed),
        Parser("track", parse_track),
        Parser("answer", parse_answer),
        Parser("otlp-protobuf", _parse_export("protobuf")),
        Parser("otlp-json", _parse_export("json")),
        Parser("traces", parse_traces),
        Parser("trajectory", parse_trajectory),
        Parser("frames", parse_frames, (BadFrame,)),
        Parser("answers", parse_answers, (BadFrame,)),
        Parser("filter", parse_filter),
        Parser("parquet", parse_parquet),
    )
    return {each.name: each for each in found}


PARSERS = _list_parsers()
