"""Organiser pages of a challenge's files: a new challenge, or a new version.

They are checked as `tally challenge check` does before they are published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.challenge_folder import pack_files
from tallymark.challenges.challenge_report import CheckFinding
from tallymark.challenges.challenge_starters import (
    describe_starter,
    list_starters,
    read_starter,
)
from tallymark.errors import Conflict, InvalidInput
from tallymark.service.challenges import ChallengeFiles
from tallymark.text import format_count
from tallymark.web.challenge_files import (
    MOST_FILES,
    FileField,
    list_fields,
    make_fields,
    read_files,
)
from tallymark.web.organising import challenge_address, confirm_at, require_organiser
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest
from tallymark.web.pages.organiser.rescore import RescoreView, make_view, require_name

_TEMPLATE = "organiser/files.html"


class FilesView(View, frozen=True, kw_only=True):
    """Files with the findings of a check."""

    name: str
    """Name of the challenge; empty for a new one."""
    challenge_title: str
    base: str
    """Version of the files."""
    files: list[FileField]
    left_out: list[str]
    most: int
    starters: list[tuple[str, str]]
    starter: str
    findings: list[CheckFinding] | None
    """None before a check."""
    drift: list[str]
    attempts: int

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each file."""
        return ({"name": each.name, "bytes": each.size} for each in self.files)


def gather_new(request: PageRequest) -> FilesView:
    """Gather a starter, or the files as typed."""
    require_organiser(request)
    starters = list_starters()
    starter = request.choose("starter", ("", *starters))
    if request.form.get("count"):
        files, left = list_fields(request, {})
    else:
        texts = read_starter(starter, request.get("name")) if starter else {}
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


def gather(request: PageRequest) -> FilesView:
    """Gather the stored files of a challenge, or the files as typed."""
    require_organiser(request)
    challenge = request.tally.challenges.get(request.params["name"])
    stored = _find_stored(request)
    files, left = list_fields(request, stored.files)
    return FilesView(
        title=f"Files of {challenge.title}",
        name=challenge.name,
        challenge_title=challenge.title,
        base=stored.version,
        files=files,
        left_out=left,
        most=MOST_FILES,
        starters=[],
        starter="",
        findings=None,
        drift=stored.drift,
        attempts=request.tally.challenges.count_attempts(challenge.name),
    )


def _find_stored(request: PageRequest) -> ChallengeFiles:
    """Get the files of the version that the form is about."""
    return request.tally.challenges.files(request.params["name"], request.form.get("base") or None)


def _pack_form(request: PageRequest) -> bytes:
    """Pack the files of the form; a new challenge has no stored ones."""
    stored = _find_stored(request).files if "name" in request.params else {}
    return pack_files(read_files(request, stored))


def _show(request: PageRequest, findings: Iterable[CheckFinding], status: int = 200) -> Outcome:
    """Show the form again with findings, problems first."""
    find = gather if "name" in request.params else gather_new
    order = ("problem", "warning", "ok")
    found = sorted(findings, key=lambda each: order.index(each.level))
    problems = sum(each.level == "problem" for each in found)
    title = f"Not ready: {format_count(problems, 'problem')}" if problems else "Ready to publish"
    view = msgspec.structs.replace(find(request), title=title, findings=found)
    return Outcome(view=view, template=_TEMPLATE, status=status)


def check(request: PageRequest) -> Outcome:
    require_organiser(request, work=True)
    return _show(request, request.tally.challenges.check(_pack_form(request)).findings)


def publish(request: PageRequest) -> Outcome:
    """Publish the files as a version that counts, or show everything that is wrong."""
    require_organiser(request, work=True)
    packed, form = _pack_form(request), request.form
    try:
        published = request.tally.challenges.publish(
            packed, bool(form.get("force")), form.get("base")
        )
    except Conflict:
        raise
    except InvalidInput as error:
        wrong = [CheckFinding("problem", "", str(each)) for each in error.problems]
        return _show(request, wrong, 422)
    return confirm_at(challenge_address(published.name), "published")


def preview(request: PageRequest) -> Outcome:
    """Show who would move if all attempts were scored by these files."""
    require_organiser(request, work=True)
    return Outcome(view=_preview(request), template="organiser/rescore.html")


def _preview(request: PageRequest) -> RescoreView:
    done = request.tally.challenges.rescore_files(
        request.params["name"], _pack_form(request), preview=True
    )
    view = make_view(request, done.rescoring, job=done.job or "")
    fields, left = list_fields(request, _find_stored(request).files)
    return msgspec.structs.replace(view, by="files", files=fields, left_out=left)


def rescore(request: PageRequest) -> Outcome:
    """Score all attempts by these files, which count from then on."""
    require_organiser(request, work=True)
    name, form = request.tally.challenges.get(request.params["name"]).name, request.form
    try:
        require_name(request, name)
    except InvalidInput as error:
        view = msgspec.structs.replace(_preview(request), wrong_name=str(error))
        return Outcome(view=view, template="organiser/rescore.html", status=422)
    done = request.tally.challenges.rescore_files(
        name, _pack_form(request), reason=form.get("reason"), based_on=form.get("base") or None
    )
    if done.job is not None:
        return Outcome(f"/organiser/jobs/{done.job}")
    return confirm_at(challenge_address(name), "rescored")


NEW = Page(
    "/organiser/challenges", _TEMPLATE, gather_new, actions={"check": check, "publish": publish}
)
PAGE = Page(
    "/organiser/challenges/{name}/files",
    _TEMPLATE,
    gather,
    actions={"check": check, "publish": publish, "preview": preview, "rescore": rescore},
)
