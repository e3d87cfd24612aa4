"""Two servers that differ only in what somebody must not see, and everything they can ask for.

Routes, pages and tools are listed by the application itself, so that a new one is compared too. A
path with a parameter that is not in `VALUES` fails the test: say there what it can be.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from starlette.testclient import TestClient
from tests.http.conftest import Unlimited
from tests.service.account_samples import make_key

from tallymark.challenges.challenge_folder import pack
from tallymark.server import make_server
from tallymark.service.callers import SESSION_COOKIE
from tallymark.service.keys import Tenants
from tallymark.service.service import Service
from tallymark.service.settings import ServiceSettings
from tallymark.web.site import PAGES

START = 1_800_000_000.0
LOOK = START + 1000.0
ROLES = {
    "stranger": None,
    "viewer": "viewer",
    "reporter": "reporter",
    "rival": "agent",
    "own": "agent",
    "foreign": "organiser",
}
"""Who looks. `own` has attempts after the freeze; `foreign` organises in another tenant."""
ELSEWHERE = "elsewhere"
SUMS = """
name: sums
goal: Add up.
visibility: public
rated: every
submission: {schema: {properties: {sum: {type: integer}}}}
evaluator: {type: deterministic, truth: truth.json, fields: {sum: {dimension: correctness}}}
scoring: {strategy: custom, dimensions: {correctness: 0.6, speed: 0.4}}
"""


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """What must not be seen. The two worlds of a test differ in some of it."""

    truth: int = 41
    answer: Any = "one"
    """What `dave` submitted before the freeze: wrong in every world, and quoted by a warning."""
    late_rating: float = 9.0
    late_success: bool = True
    late_answer: int = 3
    """What `dave` got after the freeze."""
    void: bool = False
    """Whether an attempt of `dave` was made void after the freeze."""
    late_entry: bool = False
    """Whether `dave` has an open attempt now."""
    private_rating: float = 4.0
    private_title: str = "One"
    traffic: int = 0
    """How much the other tenant did between the acts of this one."""
    new_truth: int | None = None
    """The truth by which the organiser rescored after the freeze."""
    seed: int = 0
    """Of attempts whose outcome is not known yet."""


@dataclass
class World:
    """A server with a clock of its own."""

    client: TestClient
    service: Service
    clock: list[float]
    seed: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    version: str = ""
    """Of the challenge with a truth: a hash of all its files."""
    made: list[str] = field(default_factory=list)
    """Ids of attempts, in the order in which they were made."""
    ids: dict[str, str] = field(default_factory=dict)
    """From the ids that questions name to those that are meant: PostgreSQL leaves some out."""
    keys: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)
    answers: dict[tuple[str, Question], str] = field(default_factory=dict)
    """What somebody was answered when all had happened: nothing that is asked changes anything."""

    def ask(self, who: str, method: str, path: str, **more: Any) -> Any:
        """What somebody is answered, by key or without one."""
        headers = dict(more.pop("headers", {}))
        if who in self.keys:
            headers["Authorization"] = f"Bearer {self.keys[who]}"
        return self.client.request(method, path, headers=headers, **more)

    def act(self, who: str, method: str, path: str, **more: Any) -> Any:
        """Does something a while later."""
        self.clock[0] += 10
        answered = self.ask(who, method, f"/api/v1{path}", **more)
        assert answered.is_success, (path, answered.text)
        told = answered.json()
        if "location" in answered.headers and "job" in told:
            asyncio.run(self.service.tenant("default").jobs.await_end(told["job"]["id"], 60))
        return told


@contextmanager
def make_world(url: str, secrets: Secrets) -> Iterator[World]:
    """A server on an empty database, on which everything has happened."""
    with open_world(url) as world:
        _make_keys(world)
        _play(world, secrets)
        found = world.act("organiser", "GET", "/challenges/sums")
        world.version = found["challenge"]["version"]
        world.clock[0] = LOOK
        yield world


@contextmanager
def open_world(url: str) -> Iterator[World]:
    """A server on a database."""
    clock = [START]
    service = Service(ServiceSettings(db=url, workers=1), clock=lambda: clock[0])
    service.limits = Unlimited()
    with TestClient(make_server(service), base_url="http://tally.test") as client:
        yield World(client, service, clock)


def _make_keys(world: World) -> None:
    accounts = world.service.accounts
    Tenants(world.service.tenant("default")).add(ELSEWHERE)
    people = [("organiser", "organiser", None), ("dave", "agent", "dave")]
    people += [(who, role, who if role == "agent" else None) for who, role in ROLES.items() if role]
    people += [("busy", "admin", None)]
    for name, role, agent in people:
        there = name in ("foreign", "busy")
        tenant = ELSEWHERE if there else "default"
        key = make_key(world.service, role, tenant, owner=name, agent=agent)
        world.keys[name] = key
        world.sessions[name] = accounts.sign_in(key).token or ""


def _play(world: World, secrets: Secrets) -> None:
    """The same acts in every world, but for the secrets."""
    world.service.tenant("default").competition._draw = lambda: next(world.seed)
    _publish(world, name="speed", scoring_formula="rating * 10", visibility="public")
    _publish(world, name="hidden", title=secrets.private_title, scoring_formula="rating")
    _send_sums(world, secrets.truth)
    world.act("organiser", "POST", "/tracks", json={"name": "spring", "challenges": ["speed"]})
    _be_busy(world, secrets.traffic)
    first = ""
    for agent, rating in (("own", 5.0), ("rival", 6.0), ("dave", 7.0)):
        first = _report(world, "speed", agent, rating)
        _report(world, "speed", agent, rating / 2, succeeded=False)
    _report(world, "hidden", "own", secrets.private_rating)
    for agent, number in (("own", 2), ("rival", 1), ("dave", secrets.answer)):
        _submit(world, agent, number)
    _be_busy(world, secrets.traffic)
    for name in ("speed", "sums"):
        world.act(
            "organiser", "PATCH", f"/challenges/{name}", json={"frozen": True, "reason": "late"}
        )
    _report(world, "speed", "own", 5.5)
    _submit(world, "own", 4)
    world.seed = itertools.count(1000 + secrets.seed)
    _report(world, "speed", "dave", secrets.late_rating, succeeded=secrets.late_success)
    _submit(world, "dave", secrets.late_answer)
    _be_busy(world, secrets.traffic)
    _enter(world, "rival")
    run = {"suite": "greeting", "model": "echo/me", "results": [{"case": "a", "status": "passed"}]}
    world.act("reporter", "POST", "/runs", json={"run": run})
    if secrets.new_truth is not None:
        _send_sums(world, secrets.new_truth, "/challenges/sums/rescore?reason=a+wrong+truth")
    if secrets.void:
        reason = {"reason": "a wrong report"}
        world.act("organiser", "POST", f"/attempts/{first}/void", json=reason)
    if secrets.late_entry:
        _enter(world, "dave")


def _publish(world: World, **fields: Any) -> None:
    world.act("organiser", "POST", "/challenges", json=fields)


def _send_sums(world: World, truth: int, path: str = "/challenges") -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "sums"
        folder.mkdir()
        (folder / "challenge.yaml").write_text(SUMS)
        (folder / "truth.json").write_text(f'{{"sum": {truth}}}')
        packed = pack(folder)
    kind = {"Content-Type": "application/octet-stream"}
    world.act("organiser", "POST", path, content=packed, headers=kind)


def _report(world: World, name: str, agent: str, rating: float, *, succeeded: bool = True) -> str:
    body = {"agent": agent, "metrics": {"succeeded": succeeded, "rating": rating}}
    found = world.act("reporter", "POST", f"/challenges/{name}/reports", json=body)
    world.made.append(found["attempt"]["id"])
    return world.made[-1]


def _enter(world: World, agent: str) -> str:
    entered = world.act(agent, "POST", "/challenges/sums/attempts", json={})
    world.made.append(entered["attempt"]["id"])
    return world.made[-1]


def _submit(world: World, agent: str, number: Any) -> None:
    path = f"/attempts/{_enter(world, agent)}/submission"
    world.act(agent, "POST", path, json={"answer": {"sum": number}})


def _be_busy(world: World, times: int) -> None:
    """What another tenant does, at the same moment."""
    before = world.clock[0]
    for _ in range(times):
        fields = {"name": "theirs", "scoring_formula": "rating", "visibility": "public"}
        world.act("busy", "POST", "/challenges", json=fields)
        body = {"agent": "zoe", "metrics": {"succeeded": True, "rating": 1}}
        world.act("busy", "POST", "/challenges/theirs/reports", json=body)
        run = {"suite": "s", "model": "m", "results": [{"case": "a", "status": "passed"}]}
        sent = world.act("busy", "POST", "/runs", json={"run": run})
        score = {"run": sent["run"]["id"], "case": "a", "value": 1}
        world.act("busy", "POST", "/scores", json=score)
    world.clock[0] = before


# What can be asked

ATTEMPTS = [f"a{number:012}" for number in (5, 10, 13, 14, 15, 16)]
NAMES = ["speed", "sums", "hidden"]
AGENTS = ["own", "rival", "dave"]
VALUES: dict[str, list[str]] = {
    "attempt": ATTEMPTS,
    "challenge": NAMES,
    "agent": AGENTS,
    "handle": AGENTS,
    "other": AGENTS,
    "track": ["spring"],
    "run": ["latest"],
    "case": ["a"],
    "submission": ["1"],
    "job": ["none"],
    "trace": ["none"],
    "trace_id": ["none"],
    "session": ["none"],
    "rule": ["none"],
    "webhook": ["none"],
    "number": ["1"],
    "page": ["security"],
    "suite": ["greeting"],
    "path": ["none"],
}
"""What parameters of paths, and arguments of tools, can be."""
_NAMED_BY = {"tracks": ["spring"], "rules": ["none"], "sessions": ["none"]}
"""What `{name}` is below these; else it is a challenge."""
QUERIES: dict[str, list[str]] = {
    "agent": ["dave"],
    "around": ["dave"],
    "challenge": NAMES,
    "owner": ["dave"],
    "live": ["true"],
    "limit": ["2"],
    "run": ["latest"],
}
"""What else queries are tried with; a parameter that has a list of values is tried with each."""
PAGE_QUERIES = ("", "?format=json", "?format=csv", "?live=1")
REFUSED_PAGES = ("/docs", "/organiser", "/challenges/{challenge}/sub", "/attempts/{attempt}/answer")
"""Pages that are the same for everybody, or refused to most: one look is enough."""
MORE_PAGES = (
    *("/challenges/speed?around=dave", "/challenges/speed?agent=dave&part=around"),
    *("/challenges/speed?formula=-rating", "/challenges/speed?formula=-rating&format=csv"),
    *(
        "/challenges/sums?weights=correctness=0.9,speed=0.1",
        "/challenges/sums?around=own&part=around",
    ),
    *("/attempts/a000000000005?format=html", "/attempts/a000000000014?format=html"),
    *("/agents/own?against=dave", "/search?q=dave", "/compare?run=latest&run=latest"),
)
READ_BY_POST: tuple[tuple[str, Any], ...] = (
    ("/api/v1/challenges/speed/what-if", {"formula": "-rating", "around": "dave"}),
    ("/api/v1/challenges/speed/what-if", {"formula": "rating", "limit": 50}),
    ("/api/v1/challenges/sums/what-if", {"weights": {"correctness": 0.9, "speed": 0.1}}),
    ("/api/v1/tracks/leaderboard", {"name": "x", "challenges": ["speed", "sums"]}),
)
TOOL_ARGUMENTS: dict[str, list[Any]] = {
    **VALUES,
    "answer": [{"sum": 1}],
    "formula": ["1 + 1"],
    "values": [{}],
    "runs": [["latest", "latest"]],
}


@dataclass(frozen=True)
class Question:
    """One request."""

    method: str
    path: str
    body: Any = None
    by_key: bool = True
    """Pages know people by their session."""

    def __str__(self) -> str:
        return f"{self.method} {self.path} {'' if self.body is None else self.body}".rstrip()


def list_questions(world: World) -> list[Question]:
    """Everything that can be read by HTTP."""
    document = world.client.get("/openapi.json").json()
    found = list(_list_routes(document))
    for page in PAGES:
        for path in _fill(re.sub(r":path", "", page.path)):
            parts = [f"?part={each}" for each in page.parts]
            once = page.path.startswith(REFUSED_PAGES)
            queries = ("",) if once else (*PAGE_QUERIES, *parts)
            found += [Question("GET", f"{path}{each}", by_key=False) for each in queries]
    found += [Question("GET", path, by_key=False) for path in MORE_PAGES]
    found += [Question("POST", path, body) for path, body in READ_BY_POST]
    return found + list(_list_tool_calls(world))


def _list_routes(document: Any) -> Iterator[Question]:
    for template, methods in document["paths"].items():
        if "get" not in methods or template.endswith("/events") or template == "/metrics":
            continue  # streams do not end: they have tests of their own; metrics are the operator's
        asked = [each for each in methods["get"].get("parameters", ()) if each["in"] == "query"]
        kinds = [each for each in methods["get"].get("parameters", ()) if each["name"] == "kind"]
        for path in _fill(template, _list_words(kinds[0]["schema"]) if kinds else ()):
            for query in _list_queries(asked):
                yield Question("GET", f"{path}{query}")


def _list_queries(asked: list[Any]) -> Iterator[str]:
    yield ""
    tried = {
        each["name"]: _list_words(each["schema"]) or QUERIES.get(each["name"], []) for each in asked
    }
    if {"format", "challenge"} <= tried.keys():
        for kind, name in itertools.product(tried.pop("format"), tried.pop("challenge")):
            yield f"?format={kind}&challenge={name}"
    for name in {"sort", "order"} & tried.keys():
        tried[name] = tried[name][:1]  # in another order they tell the same
    for name, values in tried.items():
        yield from (f"?{name}={value}" for value in values)


def _list_words(schema: Any) -> list[str]:
    choices = [schema, *schema.get("anyOf", ())]
    return [word for each in choices for word in each.get("enum", ())]


def _fill(template: str, kinds: Any = ()) -> Iterator[str]:
    """Every path that the template can mean."""
    names = re.findall(r"{(\w+)}", template)
    places = []
    for name in names:
        if name == "kind":
            places.append(list(kinds))
        elif name == "name":
            above = template.split("/{name}", maxsplit=1)[0].rpartition("/")[2]
            places.append(_NAMED_BY.get(above, NAMES))
        else:
            places.append(VALUES[name])
    for chosen in itertools.product(*places):
        path = template
        for name, value in zip(names, chosen, strict=True):
            path = path.replace(f"{{{name}}}", value)
        yield path


def _list_tool_calls(world: World) -> Iterator[Question]:
    tools = _call_tools(world, "tools/list", {}).json()["result"]["tools"]
    for tool in tools:
        if not tool["annotations"]["readOnlyHint"]:
            continue
        needed = tool["inputSchema"].get("required", [])
        for chosen in itertools.product(*(TOOL_ARGUMENTS[name] for name in needed)):
            arguments = dict(zip(needed, chosen, strict=True))
            call = {"name": tool["name"], "arguments": arguments}
            yield Question("POST", "/mcp", _make_call("tools/call", call))


def _make_call(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _call_tools(world: World, method: str, params: Any) -> Any:
    return world.client.post("/mcp", json=_make_call(method, params), headers=_ACCEPT)


_ACCEPT = {"Accept": "application/json, text/event-stream"}

# What is answered

_MASKS: tuple[tuple[str, str], ...] = (
    (r'(name="csrf" value=")[^"]*', r"\1CSRF"),
    (r'"request_id":"[^"]*"', '"request_id":"-"'),
    (r"\bkey_[0-9a-zA-Z]+", "KEY"),
    (r"\brn[0-9a-z]{9}\b", "RUN"),
    (r"\btlw_a[0-9]+_[0-9a-z]+", "TOKEN"),
)
"""What is drawn for each request, session or key."""


def answer(world: World, who: str, question: Question) -> str:
    """All that somebody learns by a question."""
    world.client.cookies.clear()
    headers = dict(_ACCEPT)
    question = Question(
        question.method,
        _rename(question.path, world.ids),
        msgspec.json.decode(_rename(msgspec.json.encode(question.body).decode(), world.ids)),
        question.by_key,
    )
    if question.by_key:
        asked = world.ask(who, question.method, question.path, json=question.body, headers=headers)
    else:
        if who in world.sessions:
            world.client.cookies.set(SESSION_COOKIE, world.sessions[who])
        asked = world.client.request(question.method, question.path, follow_redirects=False)
    text = f"{asked.status_code} {asked.headers.get('location', '')}\n{asked.text}"
    text = text.replace(world.version, "VERSION").replace(world.version[:12], "VERSION")
    if world.ids:
        text = _rename(text, {real: named for named, real in world.ids.items()})
        text = re.sub(r'"next":"[^"]*"', '"next":"CURSOR"', text)
    for pattern, instead in _MASKS:
        text = re.sub(pattern, instead, text)
    return text


def name_ids(world: World) -> dict[str, str]:
    """The ids that SQLite would have given, and those of this world."""
    named = [f"a{number:012}" for number in range(1, 1 + len(world.made))]
    missing = {each: f"a9{each[2:]}" for each in ATTEMPTS}
    return missing | dict(zip(named, world.made, strict=True))


def _rename(text: str, ids: dict[str, str]) -> str:
    return re.sub(r"a[0-9]{12}", lambda found: ids.get(found[0], found[0]), text) if ids else text


def compare(
    left: World, right: World, who: str, leave_out: Callable[[Question], bool] = lambda _: False
) -> list[str]:
    """The questions by which somebody can tell the worlds apart, with the first difference."""
    found = []
    left.questions = left.questions or list_questions(left)
    for question in left.questions:
        if leave_out(question):
            continue
        one, two = _recall(left, who, question), _recall(right, who, question)
        if one != two:
            found.append(f"{question}\n{_show_difference(one, two)}")
    return found


def _recall(world: World, who: str, question: Question) -> str:
    """Worlds are compared in several pairs, and asked once."""
    key = who, replace(question, body=msgspec.json.encode(question.body))
    if key not in world.answers:
        world.answers[key] = answer(world, who, question)
    return world.answers[key]


def _show_difference(one: str, two: str) -> str:
    at = next(
        (nth for nth, (a, b) in enumerate(zip(one, two, strict=False)) if a != b),
        min(len(one), len(two)),
    )
    begin = max(0, at - 60)
    return f"    {one[begin : at + 60]!r}\n    {two[begin : at + 60]!r}"
