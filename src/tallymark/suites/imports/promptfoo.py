"""`promptfooconfig.yaml` as a suite: a case for each test, its assertions as checks.

See https://www.promptfoo.dev/docs/configuration/reference/ for what it may hold.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from itertools import chain, count, product
from pathlib import Path
from typing import Any

from tallymark.documents.source import read_source
from tallymark.errors import InvalidInput, Place, Problem
from tallymark.suites.imports.imported_suite import Check, ImportedSuite, NotCarried
from tallymark.suites.imports.promptfoo_assertions import (
    TestContext,
    list_assertions,
    read_csv_assertion,
)
from tallymark.suites.imports.promptfoo_templates import (
    Render,
    make_render,
    replace_names,
    write_as_javascript,
    write_variable,
)
from tallymark.text import clean_line
from tallymark.traces.lenient_json import as_list, as_mapping

_CARRIED = (
    *("description", "prompts", "providers", "targets", "tests", "defaultTest", "scenarios"),
    *("evaluateOptions", "assertionTemplates"),
)
_WITHOUT_EFFECT = (
    "$schema",
    "outputPath",
    "sharing",
    "tags",
    "writeLatestResults",
    "commandLineOptions",
)
_PROVIDERS = {
    **{name: name for name in ("anthropic", "cohere", "deepseek", "google", "groq", "mistral")},
    **{name: name for name in ("ollama", "openai", "openrouter", "xai", "bedrock", "cerebras")},
    "azure": "azure",
    "azureopenai": "azure",
    "togetherai": "together",
    "vertex": "google-cloud",
}
_FORMS = ("chat", "messages", "completion")
"""Words between a provider and its model that select an API."""
_SETTINGS = {
    **{name: name for name in ("temperature", "top_p", "max_tokens", "seed")},
    **{name: name for name in ("presence_penalty", "frequency_penalty")},
    "stop": "stop_sequences",
}
_OF_TEST = (
    *("vars", "assert", "options", "description", "threshold", "metadata"),
    "assertScoringFunction",
)
_OPTIONS = (
    *("prefix", "suffix", "provider", "rubricPrompt", "storeOutputAs"),
    *("disableDefaultAsserts", "disableVarExpansion", "disableConversationVar", "runSerially"),
)
_MOST_LABEL = 50
"""Maximum length of a prompt's label in its name."""
Test = dict[str, Any]


def import_config(path: Path, made: ImportedSuite) -> None:
    """Fills in the suite of a configuration."""
    config = made.read(path)
    if isinstance(config, dict) and "redteam" in config and "prompts" not in config:
        hint = "promptfoo makes them as it runs; import a file in which they are written down"
        raise InvalidInput(f"{path} has no tests: it is for red teaming", hint=hint)
    if not isinstance(config, dict) or "prompts" not in config:
        hint = "a promptfoo configuration has prompts, an Inspect log has eval and samples"
        raise InvalidInput(f"{path} is neither of promptfoo nor of Inspect", hint=hint)
    _Config(path, config, made).carry()


class _Config:
    def __init__(self, path: Path, config: dict[str, Any], made: ImportedSuite) -> None:
        self.folder = path.parent
        self.path = path
        self.config = config
        self.made = made
        self.everywhere: list[Check] = []
        """A `todo` for options that would affect the verdict of every test."""
        self.default = self._read_default()
        self.stored = set[str]()
        """Variables that hold the answers to other tests."""
        self.labels: list[str] = []
        """Labels of the prompts; empty for those without one."""

    def _read_default(self) -> Test:
        """The default test, which may be in a file of its own."""
        given = self.config.get("defaultTest")
        if not isinstance(given, str):
            return as_mapping(given)
        path = self.folder / given.removeprefix("file://")
        if path.suffix not in (".yaml", ".yml", ".json"):
            why = "it is in a program or an unknown kind of file"
            what = f"the default test {given}"
            self.everywhere += self.made.leave_out_check(self.config, what, why)
            return {}
        return as_mapping(self.made.read(path))

    def carry(self) -> None:
        for key in self.config:
            if key not in (*_CARRIED, *_WITHOUT_EFFECT):
                self.made.leave_out(self.config, f"the key {key}")
        prompts = list(self._list_prompts())
        metadata = self._carry_metadata()
        tests = list(self._list_tests())
        options = [as_mapping(test.get("options")) for test in tests]
        self.stored = {str(each["storeOutputAs"]) for each in options if "storeOutputAs" in each}
        evals = [each for test in tests for each in self._carry_test(test, prompts)]
        if not evals or not prompts:
            nothing = Problem(f"{self.path} leaves nothing to ask")
            raise InvalidInput([*self.made.left_out, nothing])
        named = zip(prompts, self.labels, strict=True)
        several = {"prompts": [_make_shared(text, label) for text, label in named]}
        self.made.document = {
            "metadata": metadata,
            **(several if len(prompts) > 1 else {}),
            "evals": evals,
        }

    def _carry_metadata(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": self.path.stem.removesuffix(".promptfoo")}
        if isinstance(said := self.config.get("description"), str) and said.strip():
            metadata["description"] = said
        listed = self.config.get("providers", self.config.get("targets")) or []
        listed = listed if isinstance(listed, list) else [listed]
        named = [(model, given) for given in listed if (model := self._carry_provider(given))]
        if named:
            models = [model for model, _ in named]
            metadata["model"] = models[0] if len(models) == 1 else models
            metadata |= self._carry_settings([given for _, given in named])
        options = as_mapping(self.config.get("evaluateOptions"))
        for theirs, ours in (("repeat", "epochs"), ("maxConcurrency", "threads")):
            if type(options.get(theirs)) is int and 0 < options[theirs] <= 10_000:  # True is none
                metadata[ours] = options[theirs]
        judge = as_mapping(self.default.get("options")).get("provider")
        if model := self._carry_judge(judge):
            metadata["judge"] = model
        return metadata

    def _carry_judge(self, given: Any) -> str | None:
        """The model that judges; None where no other is named than that of the suite."""
        if isinstance(given, dict) and "id" not in given:
            given = given.get("text")
        if not isinstance(given, str | dict):
            return None
        if as_mapping(given).get("config"):
            self.made.leave_out(given, "the settings of a judge")
        return self._carry_provider(given, "name a judge in metadata.judge")

    def _carry_provider(self, given: Any, hint: str = "name a model with -m") -> str | None:
        name = given.get("id") if isinstance(given, dict) else given
        for key in as_mapping(given):
            if key == "label":
                why = "models are called by their references"
                self.made.leave_out(given, f"the label {given['label']!r:.60} of a provider", why)
            elif key == "transform":
                why = "it is a program that changes every answer"
                self.everywhere += self.made.leave_out_check(given, "a provider's transform", why)
            elif key not in ("id", "config"):
                self.made.leave_out(given, f"the provider's {key}")
        first, _, rest = str(name).partition(":")
        words = rest.split(":")
        if name == "echo":
            return "echo/prompt"
        if first in _PROVIDERS and rest:
            while len(words) > 1 and words[0] in _FORMS:
                words.pop(0)
            if first == "openai" and words[0] == "responses":
                return f"openai-responses/{':'.join(words[1:])}"
            return f"{_PROVIDERS[first]}/{':'.join(words)}"
        at = given if isinstance(given, dict) else self.config
        self.made.leave_out(at, f"the provider {name}", hint)
        return None

    def _carry_settings(self, providers: list[Any]) -> dict[str, Any]:
        configs = [as_mapping(as_mapping(each).get("config")) for each in providers]
        if any(config != configs[0] for config in configs):
            self.made.leave_out(self.config, "settings that differ from provider to provider")
            return {}
        known = {_SETTINGS[key]: value for key, value in configs[0].items() if key in _SETTINGS}
        for key in configs[0]:
            if key not in _SETTINGS:
                self.made.leave_out(configs[0], f"the provider's setting {key}")
        return {"settings": known} if known else {}

    def _list_prompts(self) -> Iterator[Any]:
        given = self.config["prompts"]
        for each in given if isinstance(given, list) else [given]:
            raw = each.get("raw", each.get("id")) if isinstance(each, dict) else each
            if not isinstance(raw, str):
                self.made.leave_out(given, f"the prompt {raw!r:.60}")
                continue
            try:
                texts = self._read_prompt(raw)
                for text in texts:
                    replace_names(text, lambda _: "")
                for text in texts:
                    self._note_label(each)
                    yield text
                if "config" in as_mapping(each):
                    self.made.leave_out(each, f"the config of the prompt {raw[:40]!r}")
            except NotCarried as why:
                self.made.leave_out(given, f"the prompt {raw[:40]!r}: {why}")

    def _read_prompt(self, raw: str) -> list[str]:
        """A prompt as it stands, or those of a file, of which a text may hold several."""
        name = raw.removeprefix("file://")
        if raw == name and ("\n" in raw or not self._is_file(name)):
            return [raw]
        path = self.folder / name
        if path.suffix not in (".txt", ".md", ".json", ".j2", ""):
            raise NotCarried("it is a program or a table")
        text = read_source(path).text
        parts = text.split("\n---\n") if path.suffix == ".txt" else [text]
        return [part.strip() for part in parts if part.strip()]

    def _is_file(self, name: str) -> bool:
        try:
            return "." in name and (self.folder / name).is_file()
        except OSError:  # longer than a name may be
            return False

    def _note_label(self, given: Any) -> None:
        """A label becomes a name, with a number where it is another's already."""
        label = clean_line(str(as_mapping(given).get("label") or ""), _MOST_LABEL)
        names = chain([label], (f"{label} {number}" for number in count(2)))
        self.labels.append(label and next(each for each in names if each not in self.labels))

    def _list_tests(self) -> Iterator[Test]:
        yield from self._read_tests(self.config.get("tests"), self.config)
        scenarios = self.config.get("scenarios")
        for scenario in as_list(scenarios):
            rows = list(self._read_tests(as_mapping(scenario).get("config"), scenario))
            tests = list(self._read_tests(as_mapping(scenario).get("tests"), scenario))
            for row, test in product(rows, tests):
                merged = {
                    key: {**as_mapping(row.get(key)), **as_mapping(test.get(key))}
                    for key in ("vars", "options")
                }
                asserts = [
                    *list_assertions(row.get("assert")),
                    *list_assertions(test.get("assert")),
                ]
                both = {**row, **test, **merged, "assert": asserts}
                self.made.locate(both, str(self.path), 0)
                yield both
        if not self.config.get("tests") and not scenarios:
            yield {}

    def _read_tests(self, given: Any, at: Any) -> Iterator[Test]:
        if isinstance(given, list):
            for each in given:
                alone = isinstance(each, dict) and "path" not in each
                yield from [each] if alone else self._read_tests(each, given)
        elif isinstance(given, str):
            try:
                yield from self._read_test_file(given.removeprefix("file://"))
            except NotCarried as why:
                self.made.leave_out(at, f"the tests in {given}: {why}")
        elif isinstance(given, dict) and isinstance(given.get("path"), str):
            yield from self._read_tests(given["path"], given)
        elif given is not None:
            self.made.leave_out(at, f"the tests {given!r:.60}")

    def _read_test_file(self, name: str) -> Iterator[Test]:
        if "://" in name:
            raise NotCarried("they are not beside the configuration")
        paths = sorted(self.folder.glob(name)) if "*" in name else [self.folder / name]
        for path in paths:
            if path.suffix == ".csv":
                yield from self._read_rows(path)
            elif path.suffix in (".yaml", ".yml", ".json"):
                yield from self._read_tests(self.made.read(path), None)
            elif path.suffix == ".jsonl":
                for number, line in enumerate(read_source(path).text.splitlines(), 1):
                    if line.strip():
                        yield self._read_line(line, path, number)
            else:
                raise NotCarried("they are in a program or an unknown kind of file")

    def _read_line(self, line: str, path: Path, number: int) -> Test:
        try:
            test = as_mapping(json.loads(line))
        except ValueError as error:
            place = Place(str(path), number)
            raise InvalidInput(f"the line is not JSON: {error}", place=place) from None
        self.made.locate(test, str(path), number)
        return test

    def _read_rows(self, path: Path) -> Iterator[Test]:
        rows = csv.DictReader(io.StringIO(read_source(path).text, newline=""))
        for row in rows:
            test: Test = {"vars": {}, "assert": [], "options": {}}
            for key, value in row.items():
                if key is None or value is None:
                    continue
                if key.startswith("__expected") and value.strip():
                    assertion = read_csv_assertion(value)
                    self.made.locate(assertion, str(path), rows.line_num)
                    test["assert"].append(assertion)
                elif key in ("__prefix", "__suffix"):
                    test["options"][key.strip("_")] = value
                elif key == "__description":
                    test["description"] = value
                elif key == "__threshold" and value.strip():
                    test["threshold"] = _read_number(value)
                elif not key.startswith("__"):
                    test["vars"][key] = value
                elif not key.startswith(("__expected", "__metadata")) and value.strip():
                    # It may change the verdict: as an assertion it leaves a `todo`.
                    test["assert"].append({"type": key})
            self.made.locate(test, str(path), rows.line_num)
            yield test

    def _carry_test(self, test: Test, prompts: list[str]) -> Iterator[dict[str, Any]]:
        """An eval for each combination of the variables that have several values."""
        options = {**as_mapping(self.default.get("options")), **as_mapping(test.get("options"))}
        if wrong := [key for key in ("transform", "postprocess") if key in options]:
            self.made.leave_out(test, f"a test whose answers a {wrong[0]} changes")
            return
        if "transformVars" in options:
            self.made.leave_out(test, "a test whose variables a program changes (transformVars)")
            return
        if "providerOutput" in test:
            self.made.leave_out(test, "a test that brings its answer with it (providerOutput)")
            return
        for key in (*self.default, *test):
            if key in ("provider", "providers", "prompts"):
                self.made.leave_out(test, f"that a test has {key} of its own")
            elif key not in _OF_TEST:
                self.made.leave_out(test, f"a test's {key}")
        for key in options:
            if key not in _OPTIONS:
                self.made.leave_out(test, f"a test's option {key}")
        variables = {**as_mapping(self.default.get("vars")), **as_mapping(test.get("vars"))}
        # A list whose first value is no text is one value.
        lists = {key: each for key, each in variables.items() if isinstance(each, list)}
        spread = {key: each for key, each in lists.items() if isinstance((each or [0])[0], str)}
        if options.get("disableVarExpansion"):
            spread = {}
        for chosen in product(*spread.values()):
            values = {**variables, **dict(zip(spread, chosen, strict=True))}
            try:
                values = {key: self._read_variable(each) for key, each in values.items()}
                yield self._carry_case(test, values, options, prompts)
            except NotCarried as why:
                self.made.leave_out(test, f"a test: {why}")

    def _read_variable(self, value: Any) -> Any:
        """The value itself, or the text of the file that it names."""
        if not isinstance(value, str) or not value.startswith("file://"):
            return value
        name = value.removeprefix("file://")
        if not name.endswith((".txt", ".md")) or not self._is_file(name):
            raise NotCarried(f"a variable is the file {name}")
        return read_source(self.folder / name).text.strip()

    def _carry_case(
        self, test: Test, values: dict[str, Any], options: dict[str, Any], prompts: list[str]
    ) -> dict[str, Any]:
        render = make_render(values, self.stored - values.keys())
        own = (
            []
            if options.get("disableDefaultAsserts")
            else list_assertions(self.default.get("assert"))
        )
        listed = [self._resolve(each) for each in [*own, *list_assertions(test.get("assert"))]]
        threshold = test.get("threshold", self.default.get("threshold"))
        self.made.locate(listed, *self.made.find_place(test))
        # The judge of the default test is that of the suite.
        of_suite = as_mapping(self.default.get("options")).get("provider")
        judged = {**options, "provider": as_mapping(test.get("options")).get("provider")}
        if judged["provider"] == of_suite:
            judged["provider"] = None
        checks = TestContext(render, self.made, judged, self._carry_judge).carry(listed, threshold)
        if "assertScoringFunction" in {**self.default, **test}:
            why = "it is a program that decides what passes"
            checks += self.made.leave_out_check(test, "a test's assertScoringFunction", why)
        provider = test.get("provider", self.default.get("provider"))
        if "transform" in as_mapping(provider):
            why = "it is a program that changes every answer"
            checks += self.made.leave_out_check(test, "the transform of a test's provider", why)
        checks += self.everywhere
        entry: dict[str, Any] = {}
        if isinstance(test.get("description"), str):
            entry["name"] = test["description"]
        prefix, suffix = (write_as_javascript(options.get(key)) for key in ("prefix", "suffix"))
        if len(prompts) == 1:
            entry |= _make_turns(prompts[0], prefix, suffix, render)
        elif prefix or suffix:
            raise NotCarried("a prefix or suffix around several prompts")
        else:
            entry["vars"] = _collect_used(prompts, render)
        return {**entry, "checks": checks}

    def _resolve(self, assertion: Any) -> Any:
        """The assertion that a reference names."""
        named = str(as_mapping(assertion).get("$ref", ""))
        start = "#/assertionTemplates/"
        if named.startswith(start):
            found = as_mapping(self.config.get("assertionTemplates"))
            return found.get(named.removeprefix(start), assertion)
        return assertion


def _make_shared(prompt: str, label: str) -> str | dict[str, str]:
    """A prompt that evals fill with their own variables."""
    text = replace_names(prompt, lambda name: write_variable(name.removeprefix("env.")))
    return {"name": label, "prompt": text} if label else text


def _read_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _make_turns(prompt: str, prefix: str, suffix: str, render: Render) -> dict[str, Any]:
    """A text, or the messages of a conversation."""
    messages = _read_messages(prompt)
    if messages is None:
        return {"prompt": _check_text(render(prefix + prompt + suffix))}
    if prefix or suffix:
        raise NotCarried("a prefix or suffix around messages")
    said: dict[str, Any] = {}
    turns: list[Any] = []
    for role, text in ((each["role"], render(each["content"])) for each in messages):
        if role in ("system", "developer") and not turns and "system_prompt" not in said:
            said["system_prompt"] = text
        elif role == "user":
            turns.append({"user": _check_text(text)})
        elif role == "assistant" and turns and "assistant" not in turns[-1]:
            turns[-1]["assistant"] = text
        else:
            raise NotCarried(f"a message of the {role} at this place")
    if not turns or "assistant" in turns[-1]:
        raise NotCarried("the messages do not end with the user's")
    if len(turns) == 1:
        return {**said, "prompt": turns[0]["user"]}
    if any("assistant" not in turn for turn in turns[:-1]):
        raise NotCarried("two messages of the user in a row")
    return {**said, "turns": [*turns[:-1], turns[-1]["user"]]}


def _check_text(text: str) -> str:
    if not text.strip():
        raise NotCarried("it asks nothing")
    return text


def _read_messages(prompt: str) -> list[dict[str, str]] | None:
    if not prompt.lstrip().startswith("["):
        return None
    try:
        messages = json.loads(prompt)
    except ValueError:
        return None
    fine = isinstance(messages, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("role"), str)
        and isinstance(each.get("content"), str)
        for each in messages
    )
    return messages if fine and messages else None


def _collect_used(prompts: list[str], render: Render) -> dict[str, str]:
    """Variables in the prompts, by name."""
    used: dict[str, str] = {}
    for prompt in prompts:
        if _read_messages(prompt) is not None:
            raise NotCarried("messages among several prompts")

        def note(name: str) -> str:
            if not name.startswith("env."):
                used[name] = render(f"{{{{{name}}}}}")
            return ""

        replace_names(prompt, note)
    return used
