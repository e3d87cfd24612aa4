"""The format of a suite as one table: files are read by it, and the JSON Schema is made from it."""

from __future__ import annotations

from typing import Any

from tallymark.suites.file.check_list import CheckList, checks_schema
from tallymark.suites.file.nodes import Mapping, Node, Scalar, Sequence
from tallymark.suites.file.reader import Reader
from tallymark.suites.file.shapes import (
    Anything,
    ByKind,
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    Record,
    Text,
    one_or_many,
)

CHECKS = CheckList()
COUNT = Number(low=1, high=10_000, whole=True)
SECONDS = Number(above=0)
THRESHOLD = Number(low=0, high=1)
VARS = MapOf(Anything(Scalar, "text, a number or a truth value"))
TEXTS = ListOf(Text())

SETTINGS = Record(
    "a mapping of model settings",
    {
        "temperature": Key(Number(low=0, high=2), "How freely the model chooses its words."),
        "top_p": Key(Number(low=0, high=1), "Nucleus sampling."),
        "max_tokens": Key(Number(low=1, whole=True), "The longest answer, in tokens."),
        "seed": Key(Number(whole=True), "For providers that can repeat an answer."),
        "stop_sequences": Key(TEXTS, "Texts that end the answer."),
        "presence_penalty": Key(Number(low=-2, high=2), "Against words that occurred."),
        "frequency_penalty": Key(Number(low=-2, high=2), "Against words that occurred often."),
        "parallel_tool_calls": Key(Flag(), "May the model call several tools at once?"),
        "extra": Key(
            Anything(Mapping, "a mapping"), "Settings of one provider only, passed on as they are."
        ),
    },
)


def _one_address(node: Mapping, reader: Reader) -> None:
    if ("url" in node.entries) == ("command" in node.entries):
        reader.wrong(node, "an MCP server has either a 'url' or a 'command'")


MCP_SERVER = Record(
    "a mapping with the url or the command of an MCP server",
    {
        "url": Key(Text(), "The address of a server that is running."),
        "name": Key(Text(), "What to call it."),
        "authorization_token": Key(Text(), "Sent as a bearer token; use {{secret('name')}}."),
        "headers": Key(MapOf(Text()), "HTTP headers."),
        "command": Key(Text(), "A program to start, which speaks MCP on its standard streams."),
        "args": Key(ListOf(Text(may_be_empty=True)), "The program's arguments."),
        "env": Key(MapOf(Text(may_be_empty=True)), "The program's environment variables."),
    },
    _one_address,
    {"oneOf": [{"required": ["url"]}, {"required": ["command"]}]},
)

METADATA = Record(
    "a mapping with the suite's name and settings",
    {
        "name": Key(Text(), "The suite's name; the file's name without it."),
        "description": Key(Text(may_be_empty=True), "What the suite is for."),
        "model": Key(one_or_many(Text()), "provider/name, or a list to compare several."),
        "system_prompt": Key(Text(), "Sent before every prompt."),
        "threads": Key(COUNT, "Cases in progress at the same time, at most."),
        "mcp_server": Key(one_or_many(MCP_SERVER), "A server whose tools the model may call."),
        "pricing": Key(
            Record(
                "a mapping with 'input' and 'output'",
                {
                    "input": Key(Number(low=0), "For prompts.", required=True),
                    "output": Key(Number(low=0), "For answers.", required=True),
                },
            ),
            "US dollars per million tokens, instead of the price table.",
        ),
        "settings": Key(SETTINGS, "Settings of the model."),
        "timeout": Key(SECONDS, "Seconds for one case."),
        "retries": Key(Number(low=0, high=100, whole=True), "More tries after a failed request."),
        "epochs": Key(COUNT, "How often each case is asked."),
        "threshold": Key(THRESHOLD, "What scorers must reach where nothing else says so."),
        "judge": Key(Text(), "The model that judges llm_judge checks."),
        "vars": Key(VARS, "Values for {{var('name')}} unless the caller gives others."),
        "tags": Key(
            ByKind(sequence=TEXTS, mapping=VARS), "For finding runs: a list, or names with values."
        ),
    },
)


def _either_given_or_checked(node: Mapping, reader: Reader) -> None:
    if "assistant" in node.entries and "checks" in node.entries:
        reader.wrong(node, "a turn with 'assistant' has no answer to check")


TURN = ByKind(
    scalar=Text(),
    mapping=Record(
        "a mapping with 'user'",
        {
            "user": Key(Text(), "What the user says.", required=True),
            "assistant": Key(Text(), "The answer to go on with; the model is not asked."),
            "checks": Key(CHECKS, "Checks of the model's answer to this turn."),
        },
        _either_given_or_checked,
        {"not": {"required": ["assistant", "checks"]}},
    ),
)


def _asks_and_checks(node: Mapping, reader: Reader) -> None:
    if ("prompt" in node.entries) == ("turns" in node.entries):
        reader.wrong(node, "an eval has either a 'prompt' or 'turns'")
    turns = node.get("turns")
    said = turns.items if isinstance(turns, Sequence) else []
    if said and _has(said[-1], "assistant"):
        reader.wrong(said[-1], "the last turn has an 'assistant', so the model is never asked")
    checked = "checks" in node.entries or "scorers" in node.entries
    if not checked and not any(_has(turn, "checks") for turn in said):
        hint = "add 'checks'; write checks: [] to measure only"
        reader.wrong(node, "nothing is checked", hint)


def _has(node: Node, key: str) -> bool:
    return isinstance(node, Mapping) and key in node.entries


EVAL = Record(
    "a mapping with 'prompt' and 'checks'",
    {
        "name": Key(Text("a name"), "For formulas: letters, digits, _ and -; unique."),
        "prompt": Key(Text(), "What the model is asked."),
        "turns": Key(ListOf(TURN, 1), "A conversation, instead of a prompt."),
        "system_prompt": Key(Text(may_be_empty=True), "Instead of the suite's; empty for none."),
        "checks": Key(CHECKS, "All must pass; `or:` for alternatives."),
        "scorers": Key(one_or_many(Text("a scorer")), "Short for a `scorer` check each."),
        "expected": Key(
            ByKind(
                scalar=Text(may_be_empty=True),
                mapping=Anything(Mapping, "a mapping with output, output_contains or tool_calls"),
            ),
            "What scorers compare with: the output, or a mapping.",
        ),
        "threshold": Key(THRESHOLD, "What this eval's scorers must reach."),
        "vars": Key(VARS, "Values for {{var('name')}} in this eval."),
        "cases_from": Key(
            ByKind(
                scalar=Text("the path of a .csv or .jsonl file"),
                mapping=Record(
                    "a mapping with 'file'",
                    {
                        "file": Key(Text(), "A .csv or .jsonl file.", required=True),
                        "id": Key(Text(), "The column that names its rows."),
                        "limit": Key(Number(low=1, whole=True), "Take the first rows only."),
                    },
                ),
            ),
            "A dataset beside the suite: a case for each row, its columns as {{var('column')}}.",
        ),
        "epochs": Key(COUNT, "How often the case is asked."),
        "timeout": Key(SECONDS, "Seconds for the case."),
        "tags": Key(TEXTS, "For choosing cases."),
        "metadata": Key(Anything(Mapping, "a mapping"), "What scorers see as metadata."),
    },
    _asks_and_checks,
    {
        "oneOf": [{"required": ["prompt"]}, {"required": ["turns"]}],
        "anyOf": [{"required": [key]} for key in ("checks", "scorers", "turns")],
    },
)

FORMULA = Text("text with a formula")
SUITE = Record(
    "a mapping with 'metadata', 'evals' and 'score'",
    {
        "metadata": Key(METADATA, "The suite's name, its model and its settings."),
        "evals": Key(ListOf(EVAL, 1), "What is asked, and how answers are checked.", required=True),
        "score": Key(
            ByKind(
                scalar=FORMULA,
                mapping=Record(
                    "a mapping with 'formula'",
                    {
                        "formula": Key(FORMULA, "The score of a run.", required=True),
                        "undefined": Key(Number(), "The score where the formula has no value."),
                    },
                ),
            ),
            "A formula over success, cost, latency and named evals; success_pct without it.",
        ),
    },
)


def suite_schema() -> dict[str, Any]:
    """The JSON Schema of a suite, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tallymark suite",
        **SUITE.schema(),
        "$defs": checks_schema(),
    }
