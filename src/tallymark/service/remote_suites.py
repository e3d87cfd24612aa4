"""Suites of others: what a server runs of them, and what it refuses before anything is read.

A suite that is sent may name nothing of the machine that runs it: no code, no program, no file, no
private address, none of its environment. What the operator allows is named in TALLY_ALLOW.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.documents.reader import open_document
from tallymark.documents.source import Source
from tallymark.documents.yaml_parser import MappingNode, Node, ScalarNode, SequenceNode
from tallymark.errors import InvalidInput, suggest
from tallymark.text import format_count, format_number

if TYPE_CHECKING:
    from tallymark.documents.reader import Reader
    from tallymark.models.egress_policy import EgressPolicy
    from tallymark.scoring import Scorer
    from tallymark.store import Store
    from tallymark.suites.suite_definition import SuiteDefinition

NOWHERE = Path("/nonexistent")
"""Base of relative paths in such a suite."""
# They send data to an address of their choice, or import arbitrary modules.
_REACHING_SCORERS = ("autoevals", "deepeval", "fact_check", "inspect", "pydantic_evals")


@dataclass(frozen=True)
class RemoteRules:
    """The operator's permissions for suites of others."""

    may: frozenset[str] = frozenset()
    """TALLY_ALLOW: see `egress_policy.ALLOWANCES`."""
    most_cases: int = 10_000
    """TALLY_MAX_CASES: in all runs of one request, epochs counted."""
    most_seconds: float = 3600.0
    """TALLY_MAX_SECONDS: for one run."""
    most_threads: int = 32
    """TALLY_MAX_THREADS: requests of one run at the same time."""
    most_bytes: int = 2_000_000
    """TALLY_MAX_SUITE_BYTES: of a suite."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> RemoteRules:
        """From the process's variables; a wrong one is refused at the start."""
        from tallymark.models.egress_policy import ALLOWANCES  # noqa: PLC0415 (models load slowly)

        known = os.environ if environment is None else environment
        named = {each.strip() for each in known.get("TALLY_ALLOW", "").split(",") if each.strip()}
        for wrong in sorted(named - set(ALLOWANCES)):
            close = suggest(wrong, ALLOWANCES)
            hint = f"did you mean {close!r}?" if close else f"known are {', '.join(ALLOWANCES)}"
            raise InvalidInput(f"TALLY_ALLOW: nothing is called {wrong!r}", hint=hint)
        variables = {
            "most_cases": "TALLY_MAX_CASES",
            "most_seconds": "TALLY_MAX_SECONDS",
            "most_threads": "TALLY_MAX_THREADS",
            "most_bytes": "TALLY_MAX_SUITE_BYTES",
        }
        limits = {
            field: _read_count(variable, known[variable])
            for field, variable in variables.items()
            if known.get(variable)
        }
        return cls(may=frozenset(named), **limits)

    def to_dict(self) -> dict[str, Any]:
        """For clients that want to know beforehand."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return told | {"may": sorted(self.may)}

    def load_suite(self, text: str, *, name: str = "suite") -> SuiteDefinition:
        """A suite that was sent; InvalidInput has every mistake and refusal with its place."""
        from tallymark.suites.suite_file import SuiteLoader  # noqa: PLC0415 (suites load slowly)

        if len(text.encode(errors="surrogatepass")) > self.most_bytes:
            most = f"{format_number(self.most_bytes / 1_000_000)} MB"
            raise InvalidInput(f"the suite has more than {most}", hint="split it up")
        reader = open_document(Source(text, None, NOWHERE), "suite")
        for node, path, error in self._find_refused(reader):
            reader.path = path
            for problem in error.problems:
                reader.wrong(node, problem.message, problem.hint)
        reader.path = []
        reader.check()  # before the loader reads a file that the suite names
        return SuiteLoader(reader, self.load_scorer).definition(name)

    def load_scorer(self, ref: str, /, **options: Any) -> Scorer:
        """A scorer, restricted to what foreign suites may use."""
        from tallymark.models.egress_policy import EgressPolicy  # noqa: PLC0415 (models load slowly)
        from tallymark.scoring import load_scorer  # noqa: PLC0415 (settings need none)
        from tallymark.scoring.scorer_registry import (  # noqa: PLC0415 (as above)
            ScorerReference,
        )

        reference = ScorerReference.parse(ref)
        given = {**reference.options, **options}
        egress = EgressPolicy(may=self.may)
        if reference.home is not None or reference.name in _REACHING_SCORERS:
            egress.demand(
                "python", f"the scorer {ref.partition('(')[0]} is not run here for others"
            )
        if reference.name == "semantic_similarity" and given.get("model") is not None:
            egress.demand("python", "embeddings are computed here, and no other address is called")
        reads = (reference.name == "json_schema" and given.get("file") is not None) or (
            reference.name == "llm_judge" and str(given.get("rubric", "")).endswith(".toml")
        )
        if reads:
            egress.demand("files", "no file of this server is read for others")
        if reference.name == "llm_judge" and isinstance(given.get("model"), str):
            egress.demand("python", "a judge is named in metadata.judge or in the check's model")
        return load_scorer(ref, **options)

    def find_egress(self, store: Store, own: Collection[str] = ()) -> EgressPolicy:
        """Secrets that models of a tenant may use; no variable of the server."""
        from tallymark.models.egress_policy import EgressPolicy  # noqa: PLC0415 (models load slowly)

        keys = store.secrets_for_run(store.secret_names()) if store.exists else {}
        return EgressPolicy(keys, self.may, frozenset(own))

    def limit_cases(self, count: int) -> None:
        """Refuses more cases than are run for one request."""
        if count > self.most_cases:
            raise InvalidInput(
                f"the suite would ask more than {format_count(self.most_cases, 'case')}",
                hint="ask fewer cases, epochs, prompts or models at once",
            )

    def _find_refused(self, reader: Reader) -> Iterator[tuple[Node, list[str], InvalidInput]]:
        """Refused references, with their places and keys."""
        from tallymark.models.egress_policy import EgressPolicy  # noqa: PLC0415 (models load slowly)

        egress = EgressPolicy(may=self.may)
        metadata = ["metadata"]
        for key in ("model", "judge"):
            for node in _list_nodes(reader.find("metadata", key)):
                error = _refuse_model(node, egress)
                if error is not None:
                    yield node, [*metadata, key], error
        for node in _list_nodes(reader.find("metadata", "mcp_server")):
            said = "MCP servers are not started or reached from here for others"
            yield from _refuse(egress, "mcp", said, node, [*metadata, "mcp_server"])
        files = "no file of this server is read for others"
        prompts = reader.find("prompts")
        for node in (
            [value for _, value in prompts.entries.values()]
            if isinstance(prompts, MappingNode)
            else _list_nodes(prompts)
        ):
            if isinstance(node, MappingNode) and "file" in node.entries:
                at = node.entries["file"][0]
                yield from _refuse(egress, "files", files, at, ["prompts", "file"])
        for number, node in enumerate(_list_nodes(reader.find("evals")), 1):
            if isinstance(node, MappingNode) and "cases_from" in node.entries:
                at = node.entries["cases_from"][0]
                yield from _refuse(
                    egress, "files", files, at, ["evals", f"#{number}", "cases_from"]
                )


def _refuse(
    egress: EgressPolicy, allowance: str, said: str, node: Node, path: list[str]
) -> Iterator[tuple[Node, list[str], InvalidInput]]:
    try:
        egress.demand(allowance, said)
    except InvalidInput as error:
        yield node, path, error


def _refuse_model(node: Node, egress: EgressPolicy) -> InvalidInput | None:
    """Only refusals: unknown models are reported when opened."""
    from tallymark.models.model_kinds import KINDS, ModelReference  # noqa: PLC0415 (as above)
    from tallymark.suites.templates import has_templates  # noqa: PLC0415 (as above)

    if not isinstance(node, ScalarNode) or has_templates(node.text):
        return None
    try:
        named = ModelReference.parse(node.text)
        egress.refuse_kind(named.kind)
        if named.kind in KINDS and named.kind.startswith("http"):
            from urllib.parse import urlsplit  # noqa: PLC0415 (few name an address)

            egress.refuse_host(urlsplit(named.text).hostname)
    except InvalidInput as error:
        return error
    except ValueError:  # no address at all
        return None
    return None


def _list_nodes(node: Node | None) -> list[Node]:
    if node is None:
        return []
    return node.items if isinstance(node, SequenceNode) else [node]


def _read_count(variable: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise InvalidInput(f"{variable} is {text!r}, and must be a whole number from 1 on")
    return number
