"""`scorer`: any scorer of the registry, a file or a module; formulas use its value by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.documents.shapes import (
    AnyShape,
    Key,
    ListShape,
    NumberShape,
    TextShape,
    record_or_short,
)
from tallymark.documents.yaml_parser import MappingNode
from tallymark.errors import TallymarkError
from tallymark.formula.formula_names import make_name_schema
from tallymark.scoring.scorer_registry import ScorerReference, is_built_in
from tallymark.suites.checks.check_definition import (
    CheckSetting,
    CheckType,
    QuickCheck,
    WaitingCheck,
    expand_config,
)
from tallymark.suites.checks.llm_judge import reach_judge
from tallymark.suites.checks.threshold_check import build_threshold_check
from tallymark.suites.templates import has_templates

if TYPE_CHECKING:
    from tallymark.scoring import Scorer

_REFERENCE = TextShape("a scorer such as word_count or checks.py:polite")
_TEMPLATE = {"pattern": r"\{\{"}
_NAME = TextShape("a name", rules={"anyOf": [_TEMPLATE, make_name_schema(of_eval=False)]})
_SHAPE = record_or_short(
    "use",
    "a mapping with the scorer's reference in 'use'",
    {
        "use": Key(_REFERENCE, "The scorer: a name, file.py:name or module:name.", required=True),
        "name": Key(_NAME, "How formulas call its value."),
        "gives": Key(
            ListShape(_NAME, 1),
            "The names of its scores, where a call gives several.",
        ),
        "options": Key(AnyShape(MappingNode, "a mapping of options"), "The scorer's options."),
        "threshold": Key(NumberShape(low=0, high=1), "The value that passes."),
    },
)


def scorer_name(config: Any) -> str | None:
    """Name of a config's value in formulas; None if only a template determines it."""
    given = expand_config(config, "use")
    name = given.get("name")
    if name is None and not has_templates(given["use"]):
        reference = ScorerReference.parse(given["use"])
        options = reference.options | given.get("options", {})
        name = msgspec.structs.replace(reference, options=options).score_name
    return None if name is None or has_templates(name) else name


def name_scorer(config: Any, setting: CheckSetting) -> Any:
    """The config with the names that the scorer's code declares, unless the config sets them.

    They are looked up once, because names of checks are needed where that code is not available.
    """
    given = expand_config(config, "use")
    if has_templates(given["use"]):
        return config
    options = given.get("options", {})
    try:
        reference = ScorerReference.parse(given["use"])
        named = {"name", "gives"} & {*given, *options, *reference.options}
        if named or (reference.home is None and is_built_in(reference.name)):
            return config
        scorer = _load_scorer(given["use"], options, setting)
    except TallymarkError:  # building the check reports the reason
        return config
    return {**given, **({"gives": list(scorer.gives)} if scorer.gives else {"name": scorer.name})}


def _list_value_names(config: Any) -> tuple[str, ...]:
    """Names of several scores, or the single one."""
    given = expand_config(config, "use").get("gives")
    if given is not None:
        return tuple(name for name in given if not has_templates(name))
    name = scorer_name(config)
    return () if name is None else (name,)


def _build(config: Any, setting: CheckSetting) -> QuickCheck | WaitingCheck:
    given = expand_config(config, "use")
    name = scorer_name(config)
    scorer = _load_scorer(given["use"], given.get("options", {}), setting)
    if "gives" in given:
        scorer = scorer.replace(gives=given["gives"])
    threshold = setting.threshold_for(given.get("threshold"), scorer)
    return build_threshold_check("scorer", scorer, threshold, name=name)


def _load_scorer(use: str, options: dict[str, Any], setting: CheckSetting) -> Scorer:
    """The scorer; files are resolved relative to the suite."""
    reference = ScorerReference.parse(use)
    given = {**reference.options, **options}
    if reference.home is None:
        if reference.name == "llm_judge":
            given = reach_judge(given, setting)
        return setting.load(reference.name, **given)
    home = reference.home
    if home.endswith(".py"):
        home = str(setting.folder / home)
    return setting.load(f"{home}:{reference.name}", **given)


SCORER = CheckType(
    "scorer",
    _SHAPE,
    _build,
    "A scorer whose value must reach a threshold; 0 only measures.",
    value_names=_list_value_names,
)
