"""The files of a challenge: a new one from a starter or an archive, or a new version of one.

They are checked as `tally challenge check` does before they are published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, Literal

import msgspec

from tallymark.challenges.challenge_check.challenge_report import CheckFinding
from tallymark.challenges.challenge_starters import (
    describe_starter,
    list_starters,
    read_starter,
)
from tallymark.errors import Conflict, InvalidInput
from tallymark.service.rescoring import (
    NewRule,
    apply_rescoring,
    is_large,
    preview_rescoring,
    queue_rescoring,
)
from tallymark.text import format_count
from tallymark.web.challenge_form import (
    MOST_FILES,
    FileField,
    lay_out,
    list_fields,
    make_fields,
    read_files,
)
from tallymark.web.organising import address_challenge, begin, lead_back
from tallymark.web.page import Outcome, Page
from tallymark.web.pages.organiser.rescore import RescoreView, make_view, require_name
from tallymark.web.view import View
from tallymark.web.visit import Visit

_TEMPLATE = "organiser/files.html"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a check looked at, and what it found."""

    level: Literal["ok", "warning", "problem"]
    what: str
    detail: str


class FilesView(View, frozen=True, kw_only=True):
    """The files, and what a check says of them."""

    name: str
    """The challenge's; empty for a new one."""
    challenge_title: str
    base: str
    """The version that the files are of."""
    files: list[FileField]
    left_out: list[str]
    most: int
    starters: list[tuple[str, str]]
    starter: str
    findings: list[Finding] | None
    """None before they were checked."""
    drift: list[str]
    attempts: int

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each file."""
        return ({"name": each.name, "bytes": each.size} for each in self.files)


def gather_new(visit: Visit) -> FilesView:
    """A starter, or what was typed."""
    begin(visit)
    starters = list_starters()
    starter = visit.choose("starter", ("", *starters))
    if visit.form.get("count"):
        files, left = list_fields(visit, {})
    else:
        texts = read_starter(starter, visit.get("name")) if starter else {}
        files, left = make_fields({name: text.encode() for name, text in texts.items()}, {})
    return FilesView(
        title="New challenge",
        name="",
        challenge_title="",
        base="",
        files=files,
        left_out=left,
        most=MOST_FILES,
        starters=[(each, describe_starter(each)) for each in starters],
        starter=starter,
        findings=None,
        drift=[],
        attempts=0,
    )


def gather(visit: Visit) -> FilesView:
    """The stored files of a challenge, or what was typed."""
    begin(visit)
    challenge = visit.find_challenge(visit.params["name"]).challenge
    base = visit.form.get("base") or challenge.version
    files, left = list_fields(visit, _read_stored(visit))
    return FilesView(
        title=f"Files of {challenge.title}",
        name=challenge.name,
        challenge_title=challenge.title,
        base=base,
        files=files,
        left_out=left,
        most=MOST_FILES,
        starters=[],
        starter="",
        findings=None,
        drift=visit.services.publishing.find_drift(challenge),
        attempts=visit.app.store.figures.count_attempts(challenge.name),
    )


def _read_stored(visit: Visit) -> dict[str, bytes]:
    """The files of the version that a form is about; of a new challenge there are none."""
    if "name" not in visit.params:
        return {}
    kept = visit.app.store.challenges.find(visit.params["name"]).challenge
    version = visit.form.get("base") or kept.version
    if version != kept.version:
        kept = visit.app.store.challenges.get_version(kept.name, version)
    return visit.services.publishing.read_files(kept)


def _show(visit: Visit, findings: Iterable[CheckFinding], status: int = 200) -> Outcome:
    """The form again, with what is said of it; problems first."""
    find = gather if "name" in visit.params else gather_new
    order = ("problem", "warning", "ok")
    found = sorted(findings, key=lambda each: order.index(each.level))
    problems = sum(each.level == "problem" for each in found)
    title = f"Not ready: {format_count(problems, 'problem')}" if problems else "Ready to publish"
    view = msgspec.structs.replace(
        find(visit), title=title, findings=[Finding(**asdict(each)) for each in found]
    )
    return Outcome(view=view, template=_TEMPLATE, status=status)


def check(visit: Visit) -> Outcome:
    """Says everything that can be known of it before anybody plays it."""
    begin(visit, work=True)
    with lay_out(read_files(visit, _read_stored(visit))) as folder:
        report = visit.services.publishing.check(folder)
    return _show(visit, report.findings)


def publish(visit: Visit) -> Outcome:
    """Makes it a version that counts, if it is ready; all that is wrong is told at once."""
    begin(visit, work=True)
    with lay_out(read_files(visit, _read_stored(visit))) as folder:
        try:
            kept = visit.services.publishing.publish(
                folder, force=bool(visit.form.get("force")), based_on=visit.form.get("base")
            )
        except Conflict:
            raise
        except InvalidInput as error:
            wrong = [CheckFinding("problem", "", str(each)) for each in error.problems]
            return _show(visit, wrong, 422)
    return lead_back(address_challenge(kept.challenge.name), "published")


def preview(visit: Visit) -> Outcome:
    """Who would move if all attempts were scored by these files; nothing is changed."""
    begin(visit, work=True)
    return Outcome(view=_preview(visit), template="organiser/rescore.html")


def _preview(visit: Visit) -> RescoreView:
    name, files = visit.params["name"], read_files(visit, _read_stored(visit))
    with lay_out(files) as folder:
        rule = NewRule(changes={}, folder=folder)
        if is_large(visit.services, name, rule):
            job = queue_rescoring(visit.services, visit.caller, name, rule, apply=False)
            view = make_view(visit, None, job=job.id)
        else:
            view = make_view(visit, preview_rescoring(visit.services, name, rule))
    fields, left = list_fields(visit, _read_stored(visit))
    return msgspec.structs.replace(view, by="files", files=fields, left_out=left)


def rescore(visit: Visit) -> Outcome:
    """Scores all attempts by these files, which count from then on."""
    begin(visit, work=True)
    name, form = visit.find_challenge(visit.params["name"]).challenge.name, visit.form
    try:
        require_name(visit, name)
    except InvalidInput as error:
        view = msgspec.structs.replace(_preview(visit), wrong_name=str(error))
        return Outcome(view=view, template="organiser/rescore.html", status=422)
    how = {"reason": form.get("reason"), "based_on": form.get("base") or None}
    with lay_out(read_files(visit, _read_stored(visit))) as folder:
        rule = NewRule(changes={}, folder=folder)
        if is_large(visit.services, name, rule):
            job = queue_rescoring(visit.services, visit.caller, name, rule, **how)
            return Outcome(f"/organiser/jobs/{job.id}")
        apply_rescoring(visit.services, name, rule, **how)
    return lead_back(address_challenge(name), "rescored")


NEW = Page(
    "/organiser/challenges", _TEMPLATE, gather_new, actions={"check": check, "publish": publish}
)
PAGE = Page(
    "/organiser/challenges/{name}/files",
    _TEMPLATE,
    gather,
    actions={"check": check, "publish": publish, "preview": preview, "rescore": rescore},
)
