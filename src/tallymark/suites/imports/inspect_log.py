"""Samples of an Inspect log as a suite: prompts, and scorers as checks.

The prompt is taken from the conversation, so that it includes templates and system messages of the
solver. `includes`, `match` and `choice` become equivalent regular expressions; Inspect's other
scorers are called as they are.
"""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.errors import InvalidInput, Problem, TraceError
from tallymark.models.provider_setup import PROVIDERS
from tallymark.suites.imports.imported_suite import Check, ImportedSuite, NotCarried
from tallymark.suites.imports.text_patterns import found_any
from tallymark.traces.chat_messages import parse_messages
from tallymark.traces.dialects.inspect_log import read_samples, sniff, sniff_bytes
from tallymark.traces.inspect_sample import put_back_attachments
from tallymark.traces.lenient_json import as_label, as_list, as_mapping
from tallymark.traces.trace_source import Progress, open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tallymark.traces.dialects.inspect_log import LoggedSample

_LOOK = 4096
_WHOLE = "success"
"""The status of a log that ran to its end."""
_KEY = re.compile(rb'"(\w+)"\s*:')
_EDGE = f"[{re.escape(string.whitespace + string.punctuation)}]*"
"""Characters that Inspect's `match` ignores at both ends of an answer."""
_SETTINGS = (
    *("temperature", "top_p", "max_tokens", "seed", "stop_seqs"),
    *("presence_penalty", "frequency_penalty"),
)
_WRAPPED = r"[*$(\s]*{}[*$)]*,*"
_ANSWER_LINE = r"^ANSWER\s*:\s*[*$(]*[A-Za-z\d ,]+[*$)]*\s*(?:$|\.)"
_ANSWER = r"ANSWER\s*:\s*[*$(]*[A-Za-z\d ,]+[*$)]*(?:[^\w]|$)"


def is_log(path: Path) -> bool:
    """Is a file one of Inspect's logs?"""
    try:
        with path.open("rb") as file:
            head = file.read(_LOOK)
    except OSError:
        return False
    return sniff_bytes(head) or (
        head.lstrip().startswith(b"{") and sniff({key.decode() for key in _KEY.findall(head)})
    )


def import_log(path: Path, made: ImportedSuite) -> None:
    """Make the suite of a log: each sample once, regardless of its epochs."""
    evals: dict[str, dict[str, Any]] = {}
    header: dict[str, Any] = {}
    seen = set[str]()
    status = _WHOLE
    for found in _read_log(path, made):
        sample, header, status = put_back_attachments(found.sample), found.header, found.status
        key = repr(sample.get("id"))
        if key not in seen:
            seen.add(key)
            try:
                evals[key] = _carry_sample(sample, header, made)
            except NotCarried as why:
                made.leave_out(None, f"the sample {key}: {why}")
    if not evals:
        raise InvalidInput([*made.left_out, Problem(f"{path} leaves nothing to ask")])
    _tell_missing(len(seen), header, status, made)
    made.document = {"metadata": _carry_metadata(header, made), "evals": list(evals.values())}


def _tell_missing(found: int, header: dict[str, Any], status: str, made: ImportedSuite) -> None:
    """Report samples missing from the log: it is incomplete, or was limited to some."""
    known = as_mapping(header.get("dataset")).get("samples")
    missing = known - found if isinstance(known, int) else 0
    why = None if status == _WHOLE else f"the log broke off: its status is {status!r}"
    if missing > 0:
        made.leave_out(None, f"{missing:,} of {known:,} samples, which the log does not have", why)
    elif why is not None:
        made.leave_out(None, f"samples that the log may lack: {why}")


def _read_log(path: Path, made: ImportedSuite) -> Iterator[LoggedSample]:
    with open_source(path, Progress(None, None)) as source:
        for found in read_samples(source):
            if isinstance(found, TraceError):
                made.leave_out(None, f"a sample: {found}")
            elif isinstance(found.sample, dict):
                yield found


def _carry_metadata(header: dict[str, Any], made: ImportedSuite) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": as_label(header.get("task")) or "inspect"}
    model = as_label(header.get("model")) or ""
    if model.partition("/")[0] in PROVIDERS:
        metadata["model"] = model
    else:
        made.leave_out(None, f"the model {model}", "name a model with -m")
    given = as_mapping(header.get("model_generate_config"))
    settings = {key: given[key] for key in _SETTINGS if given.get(key) is not None}
    if "stop_seqs" in settings:
        settings["stop_sequences"] = settings.pop("stop_seqs")
    epochs = as_mapping(header.get("config")).get("epochs")
    if isinstance(epochs, int) and epochs > 1:
        metadata["epochs"] = epochs
    return {**metadata, **({"settings": settings} if settings else {})}


def _carry_sample(
    sample: dict[str, Any], header: dict[str, Any], made: ImportedSuite
) -> dict[str, Any]:
    task = as_label(header.get("task")) or "sample"
    asked = _carry_conversation(sample, made)
    target = sample.get("target")
    targets = [str(each) for each in (target if isinstance(target, list) else [target or ""])]
    checks: list[Check] = []
    expected: dict[str, Any] = {}
    for scorer in map(as_mapping, as_list(header.get("scorers"))):
        name = (as_label(scorer.get("name")) or "").removeprefix("inspect_ai/")
        options = as_mapping(scorer.get("options"))
        try:
            check = _carry_scorer(name, options, targets, made)
        except NotCarried as why:
            checks += made.leave_out_check(None, f"the scorer {name}", why)
            continue
        checks.append(check)
        if "scorer" in check:
            expected = {"expected": {"output": targets if len(targets) > 1 else targets[0]}}
    return {"name": f"{task}-{sample.get('id')}", **asked, **expected, "checks": checks}


def _carry_conversation(sample: dict[str, Any], made: ImportedSuite) -> dict[str, Any]:
    """All messages before the model's first answer."""
    given = as_list(sample.get("messages")) or sample.get("input")
    if isinstance(given, str):
        return {"prompt": _check_text(given)}
    said = as_list(given)
    first = next((n for n, each in enumerate(said) if _is_generated(each)), len(said))
    if any(as_mapping(each).get("role") == "tool" for each in said[first:]):
        made.leave_out(None, "the solver's tools: the model is called once, and without them")
    elif any(_is_generated(each) for each in said[first + 1 :]):
        made.leave_out(None, "the solver's further turns: the model is called once")
    system: list[str] = []
    turns: list[dict[str, str]] = []
    for each, message in zip(said[:first], parse_messages(said[:first]), strict=True):
        parts = as_list(as_mapping(each).get("content"))
        if any(as_mapping(part).get("type") != "text" for part in parts):
            raise NotCarried("it holds more than text")
        if message.role == "system" and not turns:
            system.append(message.text)
        elif message.role == "user" and turns and "assistant" not in turns[-1]:
            turns[-1]["user"] += f"\n{message.text}"
        elif message.role == "user":
            turns.append({"user": _check_text(message.text)})
        elif message.role == "assistant" and turns and "assistant" not in turns[-1]:
            turns[-1]["assistant"] = message.text
        else:
            raise NotCarried(f"a message of the {message.role} at this place")
    if not turns or "assistant" in turns[-1]:
        raise NotCarried("the messages do not end with the user's")
    entry: dict[str, Any] = {"system_prompt": "\n\n".join(system)} if system else {}
    if len(turns) == 1:
        return {**entry, "prompt": turns[0]["user"]}
    return {**entry, "turns": [*turns[:-1], turns[-1]["user"]]}


def _is_generated(message: Any) -> bool:
    given = as_mapping(message)
    return given.get("role") == "assistant" and given.get("source") != "input"


def _check_text(text: str) -> str:
    if not text.strip():
        raise NotCarried("it asks nothing")
    return text


def _carry_scorer(
    name: str, options: dict[str, Any], targets: list[str], made: ImportedSuite
) -> Check:
    carry = _SCORERS.get(name)
    if carry is not None and not options.get("numeric"):
        return {"regex": carry(options, targets)}
    if name in ("model_graded_qa", "model_graded_fact"):
        made.leave_out(None, f"the verdict of {name}: your own judge may find otherwise")
        return {"llm_judge": f"It agrees with this answer: {' or '.join(targets)}"}
    if name in ("match", "exact", "pattern", "answer", "f1"):
        given = {key: value for key, value in options.items() if value is not None}
        use = "tallymark.scorers.adapters:from_inspect"
        return {
            "scorer": {
                "use": use,
                "name": name,
                "options": {"scorer": name, **given},
                "threshold": 1,
            }
        }
    raise NotCarried("there is no check like it")


def _carry_includes(options: dict[str, Any], targets: list[str]) -> str:
    return found_any(targets, ignore_case=options.get("ignore_case", True))


def _carry_match(options: dict[str, Any], targets: list[str]) -> str:
    """Letters and digits at one end count, in any case; what stands around them does not."""
    ends = {
        "begin": (rf"\A\s*{_EDGE}", ""),
        "end": ("", rf"{_EDGE}\s*\Z"),
        "any": ("", ""),
        "exact": (rf"\A\s*{_EDGE}", rf"{_EDGE}\s*\Z"),
    }
    begin, end = ends.get(str(options.get("location") or "end"), (None, ""))
    if begin is None:
        raise NotCarried(f"it matches at {options['location']!r}")
    stripped = [each.strip().strip(string.whitespace + string.punctuation) for each in targets]
    any_of = "|".join(map(re.escape, stripped))
    return ("(?i)" if options.get("ignore_case", True) else "") + f"{begin}(?:{any_of}){end}"


def _carry_choice(_: dict[str, Any], targets: list[str]) -> str:
    """The last line `ANSWER: X`, or without such a line the last `ANSWER: X` anywhere."""
    if len(targets) != 1 or not re.fullmatch("[A-Za-z]", targets[0]):
        raise NotCarried("several choices are right")
    letter = _WRAPPED.format(targets[0])
    line = rf"^ANSWER\s*:\s*{letter}\s*(?:$|\.)(?![\s\S]*{_ANSWER_LINE})"
    anywhere = rf"ANSWER\s*:\s*{letter} *(?:[^\w ,]|$)(?![\s\S]*{_ANSWER})"
    return rf"(?im){line}|\A(?![\s\S]*{_ANSWER_LINE})[\s\S]*{anywhere}"


_SCORERS: dict[str, Callable[[dict[str, Any], list[str]], str]] = {
    "includes": _carry_includes,
    "match": _carry_match,
    "choice": _carry_choice,
}
