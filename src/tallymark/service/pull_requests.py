"""Pull requests of GitHub and merge requests of GitLab: where a CI job runs, and one comment there.

What a job is and may do stands in the variables that either sets for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx2
import msgspec

from tallymark.errors import InvalidInput, NotAllowed, WorkFailed
from tallymark.text import clean_line

_TIMEOUT_S = 30.0
_TRIES = 3
_PAGE = 100
_MOST_PAGES = 30


@dataclass(frozen=True, kw_only=True)
class CiJob:
    """CI context of a job: its branch, and its pull request if any."""

    branch: str | None = None
    base: str | None = None
    """The branch that it would be merged into."""
    commit: str | None = None
    comments: CommentList | None = None
    """None without a pull request, or without permission to comment."""
    why_silent: str | None = None
    """Why there is none, in words."""


@dataclass(frozen=True, kw_only=True)
class CommentList:
    """Comments of one pull request, by its host's API."""

    list_url: str
    one_url: str
    """With `{id}` in it."""
    headers: Mapping[str, str]
    update: str
    """The method that changes a comment."""
    own_name: tuple[str, str, Any]
    """Request that identifies the token's user: method, address, body."""

    @classmethod
    def of_github(cls, api: str, graphql: str, repository: str, number: int, token: str) -> Self:
        """Comments of a pull request are those of its issue."""
        issues = f"{api.rstrip('/')}/repos/{repository}/issues"
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
        headers["X-GitHub-Api-Version"] = "2022-11-28"
        return cls(
            list_url=f"{issues}/{number}/comments",
            one_url=f"{issues}/comments/{{id}}",
            headers=headers,
            update="PATCH",
            # GET /user is refused to the token of a job.
            own_name=("POST", graphql, {"query": "query { viewer { login } }"}),
        )

    @classmethod
    def of_gitlab(cls, api: str, project: str, number: int, token: str) -> Self:
        """Notes of a merge request."""
        place = f"{api.rstrip('/')}/projects/{quote(project, safe='')}/merge_requests/{number}"
        return cls(
            list_url=f"{place}/notes",
            one_url=f"{place}/notes/{{id}}",
            headers={"PRIVATE-TOKEN": token},
            update="PUT",
            own_name=("GET", f"{api.rstrip('/')}/user", None),
        )

    def put(self, mark: str, body: str) -> str:
        """Writes a comment, or over our own that begins with the mark; `made` or `changed`."""
        with httpx2.Client(headers=dict(self.headers), timeout=_TIMEOUT_S) as http:
            found = self._find(http, mark)
            if found is None:
                _send(http, "POST", self.list_url, {"body": body})
                return "made"
            _send(http, self.update, self.one_url.format(id=found), {"body": body})
            return "changed"

    def _find(self, http: httpx2.Client, mark: str) -> int | None:
        """Our comment with the mark: anybody can write one that looks like it."""
        names: set[str] = set()
        for page in range(1, _MOST_PAGES + 1):
            url = f"{self.list_url}?per_page={_PAGE}&page={page}"
            comments = _send(http, "GET", url)
            if not isinstance(comments, list):
                raise WorkFailed(f"{self.list_url} answers no list of comments")
            for each in comments:
                if isinstance(each, dict) and str(each.get("body", "")).startswith(mark):
                    names = names or self._find_own_names(http)
                    if _find_author(each) in names:
                        return int(each["id"])
            if len(comments) < _PAGE:
                return None
        return None

    def _find_own_names(self, http: httpx2.Client) -> set[str]:
        """Our name, and how GitHub writes that of a bot at a comment."""
        told = _send(http, *self.own_name)
        with suppress(KeyError, TypeError):
            name = told["data"]["viewer"]["login"] if "data" in told else told["username"]
            return {name, f"{name}[bot]"}
        raise WorkFailed(f"{self.own_name[1]} does not say whose token this is")


def _find_author(comment: dict[str, Any]) -> str | None:
    author = comment.get("user") or comment.get("author")
    if not isinstance(author, dict):
        return None
    return author.get("login") or author.get("username")


def find_job(environment: Mapping[str, str]) -> CiJob:
    """CI context from variables; nothing outside a job."""
    if environment.get("GITHUB_ACTIONS") == "true":
        return _find_github_job(environment)
    if environment.get("GITLAB_CI") == "true":
        return _find_gitlab_job(environment)
    return CiJob(why_silent="this is no job of GitHub or GitLab")


def _find_github_job(known: Mapping[str, str]) -> CiJob:
    job = CiJob(
        branch=known.get("GITHUB_HEAD_REF") or known.get("GITHUB_REF_NAME") or None,
        base=known.get("GITHUB_BASE_REF") or None,
        commit=known.get("GITHUB_SHA") or None,
    )
    number = _read_number(known.get("GITHUB_EVENT_PATH"))
    if number is None:
        return replace(job, why_silent="no pull request is open for it")
    token = known.get("GITHUB_TOKEN")
    if not token:
        why = "GITHUB_TOKEN is not set: give it in `env`, with `permissions: pull-requests: write`"
        return replace(job, why_silent=why)
    api = known.get("GITHUB_API_URL", "https://api.github.com")
    graphql = known.get("GITHUB_GRAPHQL_URL", "https://api.github.com/graphql")
    repository = known.get("GITHUB_REPOSITORY", "")
    return replace(job, comments=CommentList.of_github(api, graphql, repository, number, token))


def _read_number(path: str | None) -> int | None:
    """The number of the pull request that started a job, from the event that GitHub wrote down."""
    if not path:
        return None
    try:
        event: Any = msgspec.json.decode(Path(path).read_bytes())
    except (OSError, msgspec.DecodeError):
        raise InvalidInput(f"GITHUB_EVENT_PATH: {path} cannot be read as JSON") from None
    request = event.get("pull_request") if isinstance(event, dict) else None
    number = request.get("number") if isinstance(request, dict) else None
    return number if isinstance(number, int) else None


def _find_gitlab_job(known: Mapping[str, str]) -> CiJob:
    branch = known.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME") or known.get("CI_COMMIT_REF_NAME")
    job = CiJob(
        branch=branch or None,
        base=known.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME") or None,
        commit=known.get("CI_COMMIT_SHA") or None,
    )
    number = known.get("CI_MERGE_REQUEST_IID", "")
    if not number.isdecimal():
        return replace(job, why_silent="no merge request is open for it")
    token = known.get("GITLAB_TOKEN")
    if not token:
        why = "GITLAB_TOKEN is not set: a project's access token with the scope api may comment"
        return replace(job, why_silent=why)
    api, project = known.get("CI_API_V4_URL", ""), known.get("CI_PROJECT_ID", "")
    return replace(job, comments=CommentList.of_gitlab(api, project, int(number), token))


def _send(http: httpx2.Client, method: str, url: str, body: Any = None) -> Any:
    """Asks, and asks again where that does nothing twice."""
    last = ""
    for _ in range(_TRIES):
        try:
            answer = http.request(method, url, json=body)
        except httpx2.HTTPError as error:
            last = clean_line(str(error) or type(error).__name__, 200)
            if method == "POST":  # it may have been written
                break
            continue
        if answer.is_success:
            return msgspec.json.decode(answer.content) if answer.content else None
        last = f"it answered {answer.status_code}: {clean_line(answer.text, 200)}"
        if answer.status_code in (401, 403, 404):
            raise NotAllowed(f"the comment could not be written: {last}", hint="see docs/ci.md")
        if answer.status_code < 500:
            break
    raise WorkFailed(f"the comment could not be written: {last}")
