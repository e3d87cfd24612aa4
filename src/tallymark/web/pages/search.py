"""Page of search results: runs, challenges, tracks, agents and documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from tallymark.runs.record import RunRecord
from tallymark.text import format_score
from tallymark.web.docs_search import load_index
from tallymark.web.page import Page, View
from tallymark.web.page_request import PageRequest

_MOST = 10
_MOST_DOCS = 3


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One search result."""

    kind: str
    name: str
    link: str
    about: str = ""


class SearchView(View, frozen=True, kw_only=True):
    """Search results."""

    text: str
    found: list[Found]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each thing."""
        return (msgspec.structs.asdict(each) for each in self.found)


def gather(request: PageRequest) -> SearchView:
    """Gather the first results of each kind."""
    text = request.get("q").strip()[:200]
    found = list(_find(request, text)) if text and request.services.exists else []
    found += [
        Found(kind="Docs", name=hit.heading or hit.page, link=hit.address, about=hit.page)
        for hit in load_index().search(text)[:_MOST_DOCS]
    ]
    return SearchView(title=f"Search: {text}" if text else "Search", text=text, found=found)


def _find(request: PageRequest, text: str) -> Iterable[Found]:
    if request.visitor.may_read_runs:
        for run in request.tally.runs.list(text=text, limit=_MOST).items:
            yield Found(
                kind="Run", name=run.model, link=f"/runs/{run.id}", about=_describe_run(run)
            )
    for each in request.tally.challenges.list():
        if text.casefold() in f"{each.name} {each.title}".casefold():
            yield Found(
                kind="Challenge", name=each.title, link=f"/challenges/{each.name}", about=each.name
            )
    for track in request.tally.tracks.list():
        if text.casefold() in f"{track.name} {track.title}".casefold():
            link = f"/tracks/{quote(track.name, safe='')}"
            yield Found(kind="Track", name=track.title, link=link, about=track.name)
    if not request.visitor.is_known:
        return
    for agent in request.tally.agents.list(text=text, disqualified=False, limit=_MOST).items:
        yield Found(
            kind="Agent", name=agent.name, link=f"/agents/{agent.handle}", about=agent.handle
        )


def _describe_run(run: RunRecord) -> str:
    """Describe a run by suite, score and id."""
    score = run.status.replace("_", " ") if run.score is None else format_score(run.score)
    return f"{run.suite}, {score}, {run.id}"


PAGE = Page("/search", "search.html", gather)
