"""Page of a rescoring: preview a new rule, and apply it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.challenge import PublicChallenge
from tallymark.challenges.rescore_plan import describe_rule
from tallymark.challenges.rescoring import Rescoring
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.web.board_rows import DimensionShare, list_dimensions
from tallymark.web.challenge_files import FileField
from tallymark.web.organising import (
    MovedLine,
    RatingLine,
    Scale,
    challenge_address,
    confirm_at,
    find_scale,
    list_moves,
    list_rating_lines,
    require_organiser,
)
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest
from tallymark.web.pages.organiser.job import read_rescoring

_WAYS = ("formula", "weights", "config", "plugin")
_WEIGHT = "w-"


class RescoreView(View, frozen=True, kw_only=True):
    """A new rule and its effect."""

    name: str
    challenge_title: str
    base: str
    by: str
    rule: str
    """The current rule."""
    formula: str
    config: str
    plugin: str
    dimensions: list[DimensionShare]
    weights: dict[str, float]
    """New weights."""
    agents: int
    attempts: int
    preview: Rescoring | None
    moves: list[MovedLine]
    ratings: list[RatingLine]
    scale: Scale | None
    wrong: list[str]
    """Reasons why there is no preview."""
    large: bool
    job: str
    """Job of a slow preview."""
    files: list[FileField] = msgspec.field(default_factory=list)
    left_out: list[str] = msgspec.field(default_factory=list)
    wrong_name: str = ""

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each agent that would move."""
        return (msgspec.structs.asdict(each) for each in self.moves)


def gather(request: PageRequest) -> RescoreView:
    """Gather a preview of the rule in the URL."""
    require_organiser(request)
    name = request.params["name"]
    try:
        rule = _read_rule(request)
        if rule is None:
            return make_view(request, None)
        if (job := request.get("job")) and (found := _find_preview(request, name, job)) is not None:
            return make_view(request, found, job=job)
        require_organiser(request, work=True)
        done = request.tally.challenges.rescore(name, **rule, preview=True, queue=False)
        return make_view(
            request, done.rescoring, large=done.rescoring is None, job=request.get("job")
        )
    except (InvalidInput, WorkFailed) as error:  # a rule that leaves no scores is refused too
        return make_view(request, None, wrong=[each.render() for each in error.problems])


def _find_preview(request: PageRequest, name: str, job: str) -> Rescoring | None:
    found = request.tally.jobs.get(job)
    return read_rescoring(found) if (found.kind, found.subject) == ("rescore", name) else None


def make_view(
    request: PageRequest,
    preview: Rescoring | None,
    *,
    wrong: Iterable[str] = (),
    large: bool = False,
    job: str = "",
) -> RescoreView:
    """Make the page, with or without a preview."""
    challenge = request.tally.challenges.get(request.params["name"])
    scoring = challenge.scoring
    agents = request.tally.boards.get(challenge.name, limit=1).agents
    dimensions = list_dimensions(challenge)
    return RescoreView(
        title=_write_title(challenge, preview, agents),
        name=challenge.name,
        challenge_title=challenge.title,
        base=request.form.get("base") or challenge.version,
        by=_find_way(request, challenge),
        rule=describe_rule(scoring),
        formula=request.get("formula") or scoring.formula or "",
        config=request.get("config") or msgspec.json.encode(scoring.config).decode(),
        plugin=request.get("plugin") or scoring.plugin or "",
        dimensions=dimensions,
        weights=_show_weights(request, dimensions),
        agents=agents,
        attempts=request.tally.challenges.count_attempts(challenge.name),
        preview=preview,
        moves=[] if preview is None else list_moves(request, preview),
        ratings=[] if preview is None else list_rating_lines(request, preview),
        scale=None if preview is None else find_scale(preview),
        wrong=list(wrong),
        large=large,
        job=job,
    )


def _write_title(challenge: PublicChallenge, preview: Rescoring | None, agents: int) -> str:
    if preview is None:
        return f"Rescore {challenge.title}"
    if not preview.moved:
        return "Rescore: no agent would move"
    return f"Rescore: {preview.moved:,} of {max(agents, preview.moved):,} would move"


def _find_way(request: PageRequest, challenge: PublicChallenge) -> str:
    scoring = challenge.scoring
    usual = "plugin" if scoring.plugin else "weights" if scoring.dimensions else "formula"
    return request.choose("by", (usual, *_WAYS))


def _read_rule(request: PageRequest) -> dict[str, Any] | None:
    """Read the changes in the address; None where there are none yet."""
    by = request.get("by")
    if by == "formula" and request.get("formula"):
        return {"formula": request.get("formula"), "strategy": "custom"}
    if by == "plugin" and request.get("plugin"):
        return {"plugin": request.get("plugin")}
    if by == "config" and request.get("config"):
        return {"config": _read_config(request.get("config"))}
    weights = {
        name.removeprefix(_WEIGHT): _read_weight(name.removeprefix(_WEIGHT), text)
        for name, text in request.query
        if name.startswith(_WEIGHT) and text.strip()
    }
    return {"weights": weights} if by == "weights" and weights else None


def _read_config(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise InvalidInput(f"the config is no JSON object: {error}") from None


def _read_weight(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"the weight of {key!r} is no number: {text[:40]!r}") from None


def _show_weights(request: PageRequest, dimensions: Iterable[DimensionShare]) -> dict[str, float]:
    """Return the weights to draw; the preview reports those that cannot be read."""
    found = {}
    for each in dimensions:
        text = request.get(f"{_WEIGHT}{each.key}")
        try:
            found[each.key] = float(text) if text else each.weight
        except ValueError:
            found[each.key] = each.weight
    return found


def require_name(request: PageRequest, name: str) -> None:
    """Require the typed name of the challenge, as a confirmation."""
    if request.form.get("name") != name:
        raise InvalidInput("this is not the name of the challenge", hint=f"type {name}")


def apply(request: PageRequest) -> Outcome:
    """Score all attempts by the rule of the address."""
    require_organiser(request, work=True)
    name, form = request.tally.challenges.get(request.params["name"]).name, request.form
    rule = _require_rule(request)
    require_name(request, name)
    done = request.tally.challenges.rescore(
        name, **rule, reason=form.get("reason"), based_on=form.get("base") or None
    )
    if done.job is not None:
        return Outcome(f"/organiser/jobs/{done.job}")
    return confirm_at(challenge_address(name), "rescored")


def queue_preview(request: PageRequest) -> Outcome:
    """Queue a preview that takes long."""
    require_organiser(request, work=True)
    name = request.tally.challenges.get(request.params["name"]).name
    done = request.tally.challenges.rescore(name, **_require_rule(request), preview=True)
    return Outcome(request.link(job=done.job))


def _require_rule(request: PageRequest) -> dict[str, Any]:
    rule = _read_rule(request)
    if rule is None:
        raise InvalidInput("there is no new rule yet", hint="choose a new rule and preview it")
    return rule


PAGE = Page(
    "/organiser/challenges/{name}/rescore",
    "organiser/rescore.html",
    gather,
    actions={"apply": apply, "queue": queue_preview},
    own_transactions=True,
)
