"""One comment on a pull request, against servers that speak as GitHub and GitLab do."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tallymark.errors import InvalidInput, NotAllowed, WorkFailed
from tallymark.service.pull_requests import CiJob, find_job


@dataclass
class Forge:
    """Comments of one request, as both keep them: by id, in pages, for who has the token."""

    url: str = ""
    kind: str = "github"
    comments: dict[int, str] = field(default_factory=dict)
    others: set[int] = field(default_factory=set)
    """Comments that somebody else wrote."""
    viewer: Any = field(
        default_factory=lambda: {"data": {"viewer": {"login": "github-actions[bot]"}}}
    )
    asked: list[str] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    """Instead of doing what was asked."""

    def answer(self, method: str, path: str, headers: Any, body: Any) -> tuple[int, Any]:
        """What is said to a request."""
        self.asked.append(method)
        if self.answers:
            return self.answers.pop(0), {"message": "not now"}
        sent = headers["Authorization"] if self.kind == "github" else headers["PRIVATE-TOKEN"]
        if sent != ("Bearer word" if self.kind == "github" else "word"):
            return 401, {"message": "Bad credentials"}
        parts = urlsplit(path)
        listed, one, update = {
            "github": (
                "/repos/us/agent/issues/7/comments",
                r"/repos/us/agent/issues/comments/(\d+)",
                "PATCH",
            ),
            "gitlab": (
                "/projects/42/merge_requests/7/notes",
                r"/projects/42/merge_requests/7/notes/(\d+)",
                "PUT",
            ),
        }[self.kind]
        if (method, parts.path) == ("POST", "/graphql"):
            return 200, self.viewer
        if (method, parts.path) == ("GET", "/user") and self.kind == "gitlab":
            return 200, {"id": 3, "username": "project_42_bot"}
        if parts.path == listed and method == "GET":
            query = parse_qs(parts.query)
            size, page = (int(query[name][0]) for name in ("per_page", "page"))
            items = [self.show(key) for key in self.comments]
            return 200, items[(page - 1) * size : page * size]
        if parts.path == listed and method == "POST":
            key = len(self.comments) + 1
            self.comments[key] = body["body"]
            return 201, {"id": key, "body": body["body"]}
        found = re.fullmatch(one, parts.path)
        if found is not None and method == update and int(found[1]) in self.comments:
            self.comments[int(found[1])] = body["body"]
            return 200, {"id": int(found[1]), "body": body["body"]}
        return 404, {"message": "Not Found"}

    def show(self, key: int) -> dict[str, Any]:
        """A comment as it is listed."""
        ours, author, name = {
            "github": ("github-actions[bot]", "user", "login"),
            "gitlab": ("project_42_bot", "author", "username"),
        }[self.kind]
        who = "somebody" if key in self.others else ours
        return {"id": key, "body": self.comments[key], author: {name: who}}


@pytest.fixture
def forge() -> Iterator[Forge]:
    """On loopback."""
    kept = Forge()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            status, told = kept.answer(self.command, self.path, self.headers, body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(told).encode())

        do_POST = do_PATCH = do_PUT = do_GET  # noqa: N815 (names of the library)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield kept
    server.shutdown()
    thread.join()
    server.server_close()


def on_github(forge: Forge, folder: Path, **more: str) -> CiJob:
    """A job of a pull request."""
    event = folder / "event.json"
    event.write_text('{"pull_request": {"number": 7}}')
    known = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_HEAD_REF": "warmer",
        "GITHUB_REF_NAME": "7/merge",
        "GITHUB_BASE_REF": "main",
        "GITHUB_SHA": "abc",
        "GITHUB_REPOSITORY": "us/agent",
        "GITHUB_API_URL": forge.url,
        "GITHUB_GRAPHQL_URL": f"{forge.url}/graphql",
        "GITHUB_TOKEN": "word",
    }
    return find_job(known | more)


def on_gitlab(forge: Forge, **more: str) -> CiJob:
    """A job of a merge request."""
    forge.kind = "gitlab"
    known = {
        "GITLAB_CI": "true",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "warmer",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_COMMIT_SHA": "abc",
        "CI_PROJECT_ID": "42",
        "CI_API_V4_URL": forge.url,
        "GITLAB_TOKEN": "word",
    }
    return find_job(known | more)


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_comment_is_written_once_and_then_over_itself(
    kind: str, forge: Forge, tmp_path: Path
) -> None:
    job = on_github(forge, tmp_path) if kind == "github" else on_gitlab(forge)
    assert (job.branch, job.base, job.commit) == ("warmer", "main", "abc")
    assert job.comments is not None
    forge.comments |= dict.fromkeys(range(1, 131), "LGTM")  # it is found on the second page
    assert job.comments.put("<!-- mark -->", "<!-- mark -->\nfirst") == "made"
    assert job.comments.put("<!-- mark -->", "<!-- mark -->\nsecond") == "changed"
    assert len(forge.comments) == 131
    assert forge.comments[131] == "<!-- mark -->\nsecond"
    assert job.comments.put("<!-- other -->", "<!-- other -->") == "made"


@pytest.mark.parametrize("kind", ["github", "gitlab"])
def test_a_comment_of_somebody_else_is_left_alone(kind: str, forge: Forge, tmp_path: Path) -> None:
    """Whoever can comment can write one that begins with our mark."""
    job = on_github(forge, tmp_path) if kind == "github" else on_gitlab(forge)
    assert job.comments is not None
    forge.comments[1] = "<!-- mark -->\nAll is well."
    forge.others = {1}
    assert job.comments.put("<!-- mark -->", "<!-- mark -->\nfirst") == "made"
    assert job.comments.put("<!-- mark -->", "<!-- mark -->\nsecond") == "changed"
    assert forge.comments == {1: "<!-- mark -->\nAll is well.", 2: "<!-- mark -->\nsecond"}


def test_nothing_is_changed_where_nobody_says_whose_token_it_is(
    forge: Forge, tmp_path: Path
) -> None:
    job = on_github(forge, tmp_path)
    assert job.comments is not None
    forge.comments[1] = "<!-- mark -->"
    forge.viewer = {"errors": [{"message": "not for you"}]}
    with pytest.raises(WorkFailed, match="does not say whose token this is"):
        job.comments.put("<!-- mark -->", "<!-- mark -->\nfirst")


def test_who_may_not_comment_is_told_so(forge: Forge, tmp_path: Path) -> None:
    job = on_github(forge, tmp_path, GITHUB_TOKEN="another")
    assert job.comments is not None
    with pytest.raises(NotAllowed, match="401"):
        job.comments.put("<!-- mark -->", "x")


def test_a_bad_moment_is_waited_out_but_nothing_is_written_twice(
    forge: Forge, tmp_path: Path
) -> None:
    comments = on_github(forge, tmp_path).comments
    assert comments is not None
    forge.answers = [502]
    assert comments.put("<!-- mark -->", "<!-- mark -->") == "made"
    forge.answers = [500, 500, 500]
    with pytest.raises(WorkFailed, match="500"):
        comments.put("<!-- mark -->", "<!-- mark -->")
    assert len(forge.comments) == 1


@pytest.mark.parametrize(
    ("known", "why"),
    [
        ({}, "no job of GitHub"),
        ({"GITHUB_ACTIONS": "true"}, "no pull request"),
        ({"GITLAB_CI": "true"}, "no merge request"),
        ({"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "7"}, "GITLAB_TOKEN"),
    ],
)
def test_where_nothing_can_be_written_is_said_why(known: dict[str, str], why: str) -> None:
    job = find_job(known)
    assert job.comments is None
    assert why in str(job.why_silent)


def test_a_push_has_a_branch_and_no_request(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text('{"ref": "refs/heads/main"}')
    known = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(event), "GITHUB_REF_NAME": "main"}
    job = find_job(known)
    assert (job.branch, job.base, job.comments) == ("main", None, None)


def test_an_event_that_is_no_json_is_refused_in_words(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text("{")
    with pytest.raises(InvalidInput, match="GITHUB_EVENT_PATH"):
        find_job({"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(event)})
