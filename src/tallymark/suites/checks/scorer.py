"""`scorer`: any scorer of the registry, a file or a module; formulas use its value by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.scoring.reference import Reference
from tallymark.suites.checks.check import CheckType, Quick, Setting, Waiting, as_record
from tallymark.suites.checks.llm_judge import nobody
from tallymark.suites.checks.scoring import scored
from tallymark.suites.file.nodes import Mapping
from tallymark.suites.file.shapes import Anything, ByKind, Key, Number, Record, Text
from tallymark.suites.file.templates import has_templates

if TYPE_CHECKING:
    from tallymark.scoring import Scorer

# The options of llm_judge that can be looked at without its model; the others reach for it.
_JUDGED_BY_ANYONE = ("rubric", "choices", "timeout", "name", "threshold")
_REFERENCE = Text("a scorer such as word_count or checks.py:polite")
_SHAPE = ByKind(
    scalar=_REFERENCE,
    mapping=Record(
        "a mapping with the scorer's reference in 'use'",
        {
            "use": Key(
                _REFERENCE, "The scorer: a name, file.py:name or module:name.", required=True
            ),
            "name": Key(Text("a name"), "How formulas call its value."),
            "options": Key(Anything(Mapping, "a mapping of options"), "The scorer's options."),
            "threshold": Key(Number(low=0, high=1), "The value that passes."),
        },
    ),
)


def scorer_name(config: Any) -> str | None:
    """The name that formulas use for a config's value; None where only a template tells it."""
    given = as_record(config, "use")
    name = given.get("name")
    if name is None and not has_templates(given["use"]):
        reference = Reference.parse(given["use"])
        name = str(reference.options.get("name", reference.name))
    return None if name is None or has_templates(name) else name


def _build(config: Any, setting: Setting) -> Quick | Waiting:
    given = as_record(config, "use")
    name = scorer_name(config)
    scorer = _loaded(given["use"], given.get("options", {}), setting)
    threshold = setting.threshold_for(given.get("threshold"), scorer)
    return scored("scorer", scorer, threshold, name=name)


def _loaded(use: str, options: dict[str, Any], setting: Setting) -> Scorer:
    """The scorer; a file is looked for beside the suite."""
    reference = Reference.parse(use)
    given = {**reference.options, **options}
    if reference.home is None:
        if setting.dry and reference.name == "llm_judge":
            given = {key: value for key, value in given.items() if key in _JUDGED_BY_ANYONE}
            given["judge"] = nobody
        return setting.load(reference.name, **given)
    home = reference.home
    if home.endswith(".py"):
        home = str(setting.folder / home)
    return setting.load(f"{home}:{reference.name}", **given)


SCORER = CheckType(
    "scorer", _SHAPE, _build, "A scorer whose value must reach a threshold; 0 only measures."
)
