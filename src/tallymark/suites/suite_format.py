"""The format of a suite as one table: files are read by it, and the JSON Schema is made from it."""

from __future__ import annotations

from typing import Any

from tallymark.documents.reader import Reader
from tallymark.documents.shapes import (
    AnyShape,
    FlagShape,
    Key,
    KindShape,
    ListShape,
    MapShape,
    NumberShape,
    RecordShape,
    TextShape,
    make_schema,
    one_or_many,
    record_or_short,
)
from tallymark.documents.yaml_parser import MappingNode
from tallymark.suites.checks_format import CHECK, CHECKS
from tallymark.suites.eval_entries import COUNT, EVAL, SECONDS, TEXTS, THRESHOLD, TURN, VARS
from tallymark.suites.prompt_entries import PROMPT, PROMPTS

SETTINGS = RecordShape(
    "a mapping of model settings",
    {
        "temperature": Key(NumberShape(low=0, high=2), "How freely the model chooses its words."),
        "top_p": Key(NumberShape(low=0, high=1), "Nucleus sampling."),
        "max_tokens": Key(NumberShape(low=1, whole=True), "The longest answer, in tokens."),
        "seed": Key(NumberShape(whole=True), "For providers that can repeat an answer."),
        "stop_sequences": Key(TEXTS, "Texts that end the answer."),
        "presence_penalty": Key(NumberShape(low=-2, high=2), "Against words that occurred."),
        "frequency_penalty": Key(NumberShape(low=-2, high=2), "Against words that occurred often."),
        "parallel_tool_calls": Key(FlagShape(), "May the model call several tools at once?"),
        "extra": Key(
            AnyShape(MappingNode, "a mapping"),
            "Settings of one provider only, passed on as they are.",
        ),
    },
)


def _require_one_address(node: MappingNode, reader: Reader) -> None:
    if ("url" in node.entries) == ("command" in node.entries):
        reader.wrong(node, "an MCP server has either a 'url' or a 'command'")


MCP_SERVER = RecordShape(
    "a mapping with the url or the command of an MCP server",
    {
        "url": Key(TextShape(), "The address of a server that is running."),
        "name": Key(TextShape(), "What to call it."),
        "authorization_token": Key(TextShape(), "Sent as a bearer token; use {{secret('name')}}."),
        "headers": Key(MapShape(TextShape()), "HTTP headers."),
        "command": Key(
            TextShape(), "A program to start, which speaks MCP on its standard streams."
        ),
        "args": Key(ListShape(TextShape(may_be_empty=True)), "The program's arguments."),
        "env": Key(MapShape(TextShape(may_be_empty=True)), "The program's environment variables."),
    },
    _require_one_address,
    {"oneOf": [{"required": ["url"]}, {"required": ["command"]}]},
)

METADATA = RecordShape(
    "a mapping with the suite's name and settings",
    {
        "name": Key(TextShape(), "The suite's name; the file's name without it."),
        "description": Key(TextShape(may_be_empty=True), "What the suite is for."),
        "model": Key(one_or_many(TextShape()), "provider/name, or a list to compare several."),
        "system_prompt": Key(TextShape(), "Sent before every prompt."),
        "threads": Key(COUNT, "Cases in progress at the same time, at most."),
        "mcp_server": Key(one_or_many(MCP_SERVER), "A server whose tools the model may call."),
        "pricing": Key(
            RecordShape(
                "a mapping with 'input' and 'output'",
                {
                    "input": Key(NumberShape(low=0), "For prompts.", required=True),
                    "output": Key(NumberShape(low=0), "For answers.", required=True),
                },
            ),
            "US dollars per million tokens, instead of the price table.",
        ),
        "settings": Key(SETTINGS, "Settings of the model."),
        "timeout": Key(SECONDS, "Seconds for one case."),
        "retries": Key(
            NumberShape(low=0, high=100, whole=True), "More tries after a failed request."
        ),
        "epochs": Key(COUNT, "Number of times each case is run."),
        "threshold": Key(
            THRESHOLD, "Value that scorers must reach, unless a scorer sets its own. Default: 0.7."
        ),
        "judge": Key(TextShape(), "The model that judges llm_judge checks: any that -m takes."),
        "vars": Key(VARS, "Values for {{var('name')}} unless the caller gives others."),
        "tags": Key(
            KindShape(sequence=TEXTS, mapping=VARS),
            "For finding runs: a list, or names with values.",
        ),
    },
)

SCORE = record_or_short(
    "formula",
    "a mapping with 'formula'",
    {
        "formula": Key(
            TextShape(
                "text with a formula",
                rules={"not": {"pattern": r"\{\{\s*secret\b"}},  # it is shown
            ),
            "The score of a run.",
            required=True,
        ),
        "undefined": Key(NumberShape(), "The score where the formula has no value."),
    },
)
_HAS_PROMPT = {"anyOf": [{"required": ["prompt"]}, {"required": ["turns"]}]}
SUITE = RecordShape(
    "a mapping with 'metadata', 'evals' and 'score'",
    {
        "metadata": Key(METADATA, "The suite's name, its model and its settings."),
        "prompts": Key(PROMPTS, "Ways to ask the evals without a prompt; each makes a run."),
        "evals": Key(
            ListShape(EVAL, 1), "Cases: prompts and the checks of their answers.", required=True
        ),
        "score": Key(
            SCORE,
            "A formula over success, cost, latency and named evals; success_pct without it.",
        ),
    },
    elsewhere={
        **{key: f"metadata.{key}" for key in METADATA.keys},
        "models": "metadata.model",
        "providers": "metadata.model",
        "dataset": "cases_from in an eval",
        "data": "cases_from in an eval",
        "tests": "evals",
        "formula": "score.formula",
    },
    rules={
        "anyOf": [
            {"required": ["prompts"]},
            {"properties": {"evals": {"items": _HAS_PROMPT, "description": "Asked as they say."}}},
        ]
    },
)


def suite_schema() -> dict[str, Any]:
    """The JSON Schema of a suite, for editors."""
    named = {
        "metadata": METADATA,
        "mcp_server": MCP_SERVER,
        "settings": SETTINGS,
        "eval": EVAL,
        "turn": TURN,
        "prompt": PROMPT,
        "vars": VARS,
        "checks": CHECKS,
        "check": CHECK,
    }
    return make_schema("Tallymark suite", SUITE, named)
