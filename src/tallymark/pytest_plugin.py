"""Python suites in pytest: every test of every suite in a `*_eval.py` file is an item.

A test that fails is a failure; one that could not be judged (the agent raised, a service was
down) is an error. Nothing of Tallymark is imported before such a file is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tallymark.document_names import offer_document_names

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from pathlib import Path

    from tallymark.runs.run import Run
    from tallymark.suites import Suite, Test


def pytest_configure() -> None:
    """Let tests import scorer plugins that were written for the plugin document."""
    offer_document_names()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Take the files with suites, also those that pytest would take for its own."""
    others = yield
    if not file_path.name.endswith("_eval.py") or not (
        parent.session.isinitpath(file_path) or _looks_like_ours(file_path)
    ):
        return others
    # Pytest's own module would collect the ordinary tests of the file a second time.
    kept = [each for each in others if not isinstance(each, pytest.Module)]
    evals: EvalFile = EvalFile.from_parent(parent, path=file_path)
    return [*kept, evals]


def _looks_like_ours(path: Path) -> bool:
    """Looked into, not imported: files of other tools with such names must not run."""
    text = path.read_bytes()
    return b"tallymark" in text or b"Suite(" in text


class EvalFile(pytest.Module):
    """A file with suites; ordinary tests in it are collected too."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Collect the suites, then pytest's other items."""
        from tallymark.suites.python_suites.eval_files import find_suites  # noqa: PLC0415 (plain runs do not need it)

        for suite in find_suites(vars(self.obj)):
            yield EvalSuite.from_parent(self, name=suite.name, suite=suite)
        yield from super().collect()


class EvalSuite(pytest.Collector):
    """A suite, as a node."""

    def __init__(self, *, suite: Suite, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.suite = suite

    def collect(self) -> Iterator[pytest.Item]:
        """One item a test."""
        for test in self.suite.tests:
            yield EvalItem.from_parent(self, name=test.name, suite=self.suite, test=test)


class EvalItem(pytest.Item):
    """A test: the agent is called in `setup`, and judged in `runtest`."""

    def __init__(self, *, suite: Suite, test: Test, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._suite = suite
        self._test = test
        self._run: Run | None = None

    def setup(self) -> None:
        """Run the test; a reason why it could not be judged is an error, not a failure."""
        from tallymark import errors, suites  # noqa: PLC0415 (plain runs do not need them)

        try:
            self._run = suites.run(self._suite.only([self._test]))
        except errors.TallymarkError as error:
            pytest.fail(error.render(), pytrace=False)
        if self._run.interrupted:
            raise KeyboardInterrupt
        if self._run.counts["error"] and not self._run.counts["failed"]:
            pytest.fail(_list_problems(self._run), pytrace=False)

    def runtest(self) -> None:
        """Judge what the agent did."""
        if self._run is not None and not self._run.passed:
            pytest.fail(_list_problems(self._run), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """The place of the item."""
        return self.path, None, f"{self._suite.name}::{self.name}"


def _list_problems(run: Run) -> str:
    """Reasons why epochs of a test did not pass, with their inputs and answers."""
    from tallymark.runs.problems import list_problems  # noqa: PLC0415 (plain runs do not need it)

    lines = []
    for result in run.results:
        epoch = f"epoch {result.epoch + 1}: " if run.record.total > 1 else ""
        wrong = [] if result.passed else list_problems(result)
        lines += [
            f"{epoch}{why if title == 'error' else f'{title}: {why}'}" for title, why in wrong
        ]
        if result.checks and not result.passed:
            asked = f"was asked {result.input!r} and " if result.input else ""
            lines.append(f"{epoch}the agent {asked}answered {result.output!r}")
    return "\n".join(lines)
