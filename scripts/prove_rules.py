"""Scoring rules under ingestion while servers, workers and the database are killed.

    python -m scripts.prove_rules [--short]

Traces are sent without end, some in two parts, while the server and two workers are killed (-9) at
random moments and started again, PostgreSQL too, alone and together; half-way a rule is edited. In
the end: what was acknowledged is there once, each version of a trace is scored once by each version
of a rule, and no cap was passed, by what the judge itself counted.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from scripts.server_cluster import PATIENCE_S, House, open_crashing_postgres, repeat
from scripts.server_process import ADMIN_KEY, require_as_logged, set_up

from tallymark.errors import Busy
from tallymark.store import Store, open_store
from tallymark.store.quick_statements import QuickStatements

VERDICT = json.dumps({"reasoning": "because", "choice": "met"})
CENT = 0.01
CAP_COST, CAP_COUNT = 0.5, 40
"""Dollars of the judge, traces of another rule: far fewer than are sent."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    kills: int = 8
    least: int = 30
    """Traces between two kills."""


SHORT = Size(kills=3, least=15)


class Judge(ThreadingHTTPServer):
    """A model that answers every question for a cent, and counts them."""

    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _JudgeRequest)
        self.asked = 0
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """As `-m` takes it."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1#judge"


class _JudgeRequest(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        server: Any = self.server
        with server.lock:
            server.asked += 1
        usage = {"prompt_tokens": 100, "completion_tokens": 0, "total_tokens": 100}
        message = {"role": "assistant", "content": VERDICT}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        told = {"id": "x", "object": "chat.completion", "created": 1, "model": "judge"}
        body = json.dumps({**told, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@dataclass
class Sender:
    """Sends traces until it is told to stop; every third has a late span."""

    find_url: Callable[[], str]
    sent: list[str] = field(default_factory=list)
    """Spans that were acknowledged, as trace and span."""
    stopped: bool = False
    ended: bool = False
    """All that it began to send was acknowledged."""
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._send_all, daemon=True)
        self.thread.start()

    def _send_all(self) -> None:
        number = 0
        late: list[str] = []
        while not self.stopped:
            number += 1
            trace = f"{number:032x}"
            self._send(trace, f"{number:016x}", "")
            if number % 3 == 0:
                late.append(trace)
            if len(late) > 5:
                first = late.pop(0)
                self._send(first, f"{number + 2**40:016x}", f"{int(first, 16):016x}")
        self.ended = True

    def _send(self, trace: str, span: str, parent: str) -> None:
        """Again and again, until it is acknowledged, as exporters do; also when told to stop."""
        said = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.prompt.0.content": "help",
            "gen_ai.completion.0.content": "sorry",
        }
        one = {
            "traceId": trace,
            "spanId": span,
            "parentSpanId": parent,
            "name": "chat",
            "startTimeUnixNano": str(time.time_ns()),
            "endTimeUnixNano": str(time.time_ns() + 10**6),
            "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in said.items()],
        }
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]}).encode()
        repeat(lambda: ask(self.find_url(), "POST", "/v1/traces", body), *_KILLED)
        self.sent.append(f"{trace} {span}")


_KILLED = (OSError, http.client.HTTPException, ValueError)
"""What a request comes to whose server is killed, before its answer or in the middle of it."""


def ask(url: str, method: str, path: str, body: bytes | None = None) -> Any:
    """What a server answers."""
    headers = {"Authorization": f"Bearer {ADMIN_KEY}", "Content-Type": "application/json"}
    request = urllib.request.Request(url + path, body, headers, method=method)
    with urllib.request.urlopen(request, timeout=30) as answered:
        return json.loads(answered.read() or b"null")


def make_rules(url: str, judge: str) -> None:
    """One for all, one with a cap of traces, one whose judge may cost so much."""
    ask(url, "PATCH", "/api/v1/traces/settings", json.dumps({"quiet_s": 0.2}).encode())
    scorer = {"scorer": 'contains(values=["sorry"])'}
    asked = {"rubric": "Is it polite?", "model": judge, "pricing": {"input": 100, "output": 0}}
    for rule in (
        {"name": "polite", **scorer},
        {"name": "few", **scorer, "cap_count": CAP_COUNT, "rate": 50},
        {"name": "kind", "judge": asked, "cap_cost": CAP_COST, "reserve": CENT},
    ):
        ask(url, "POST", "/api/v1/rules", json.dumps(rule).encode())


def edit_rule(url: str) -> None:
    """Another version of the one for all, which says nearly the same, once it has scored."""
    said = {"scorer": 'contains(values=["sorry", "excuse"], mode="any")'}

    def edit() -> None:
        told = ask(url, "GET", "/api/v1/rules/polite")["rule"]
        if told["version"] > 1:  # the answer was lost
            return
        if not told["counts"]["scored"]:
            raise TimeoutError("the first version has not scored anything")
        ask(url, "POST", "/api/v1/rules/polite/versions", json.dumps(said).encode())

    repeat(edit, *_KILLED)


def go_back(url: str) -> None:
    """One more rule, which begins with what is kept by then."""
    rule = {"name": "late", "scorer": 'contains(values=["sorry"])'}
    span = json.dumps({"since": 0, "until": time.time() + 3600}).encode()

    def begin() -> None:
        if all(each["name"] != "late" for each in ask(url, "GET", "/api/v1/rules")["items"]):
            ask(url, "POST", "/api/v1/rules", json.dumps(rule).encode())
        if not ask(url, "GET", "/api/v1/rules/late/backfills")["items"]:
            ask(url, "POST", "/api/v1/rules/late/backfill", span)

    repeat(begin, *_KILLED)


_LEFT = (
    "SELECT (SELECT COUNT(*) FROM traces WHERE undecided OR due_at IS NOT NULL),"
    " (SELECT COUNT(*) FROM trace_decisions WHERE decision = 'waiting'),"
    " (SELECT COUNT(*) FROM rule_backfills WHERE state = 'running')"
)
"""In one statement: what is looked at turns into what waits, and both ways."""
_WHY = (
    "SELECT r.name, d.reason, r.trouble, j.state, j.error FROM trace_decisions d"
    " JOIN rules r ON r.id = d.rule"
    " LEFT JOIN jobs j ON j.kind = 'rule' AND j.subject = CAST(r.id AS TEXT)"
    " WHERE d.decision = 'waiting'"
)


def wait_until_quiet(house: House, store: Store) -> None:
    """Until all that was sent is settled and looked at, and no rule waits for anything."""

    def look() -> None:
        house.mend()
        with store._database.read() as connection:  # noqa: SLF001
            read = QuickStatements(connection).read
            left = read(_LEFT)[0]
            if any(left):
                why = sorted(set(map(str, read(_WHY))))
                raise TimeoutError(f"not all is done after {PATIENCE_S:g} s: {left} {why}")

    repeat(look, TimeoutError, Busy)


def audit(store: Store, sent: list[str], asked: int) -> str:
    """Raises where something is lost, doubled or paid too much; else what was found."""
    spans = {tuple(each.split()) for each in sent}
    with store._database.read() as connection:  # noqa: SLF001
        read = QuickStatements(connection).read
        traces = dict(read("SELECT trace_id, spans FROM traces"))
        versions = set(read("SELECT trace, version FROM trace_versions"))
        rules = dict(read("SELECT name, id FROM rules"))
        decided = {
            name: Counter(
                dict(
                    read(
                        "SELECT decision, COUNT(*) FROM trace_decisions WHERE rule = ?"
                        " GROUP BY decision",
                        rule,
                    )
                )
            )
            for name, rule in rules.items()
        }
        seen = read("SELECT rule, trace, version, rule_version, backfill FROM trace_decisions")
        scored = read("SELECT rule, trace, version, rule_version FROM trace_scores")
        sums = "SELECT SUM(scored), SUM(failed), SUM(spent) FROM rule_days WHERE rule = ?"
        days = {name: read(sums, rule)[0] for name, rule in rules.items()}
    wanted = Counter(trace for trace, _ in spans)
    _require(traces == wanted, "what was acknowledged is there once", len(wanted), len(traces))
    # A version that was replaced before rules looked at the trace is not looked at.
    newest = dict(sorted(versions))
    wanted_pairs = {(rule, *pair) for rule in rules.values() for pair in newest.items()}
    missed = wanted_pairs - {each[:3] for each in seen}
    _require(not missed, "the newest version of each trace was looked at by each rule", missed)
    _require(len(seen) == len({each[:4] for each in seen}), "nothing was decided twice")
    _require({each[1:3] for each in seen} <= versions, "only versions that there are were decided")
    _require(len(scored) == len(set(scored)), "nothing has two scores")
    for name, rule in rules.items():
        kept = sum(1 for each in scored if each[0] == rule)
        _require(kept == decided[name]["scored"], f"{name}: a score for each decision", kept)
        _require(days[name][0] == kept, f"{name}: the days have counted them", days[name], kept)
    both = {each[3] for each in scored if each[0] == rules["polite"]}
    _require(len(both) == 2, "both versions of the rule that was edited have scored", both)
    _require(not decided["polite"].keys() - {"scored", "filtered"}, "polite scored all", decided)
    _require(not decided["late"].keys() - {"scored", "filtered"}, "late scored all", decided)
    went = [each for each in seen if each[0] == rules["late"] and each[4]]
    _require(bool(went), "the backfill found something to score")
    _require(decided["few"]["scored"] <= CAP_COUNT, "the cap of traces holds", decided["few"])
    spent = asked * CENT
    _require(spent <= CAP_COST + 1e-9, "the judge was not paid more than the cap", spent)
    _require(days["kind"][2] <= CAP_COST + 1e-9, "nor is more said to be spent", days["kind"])
    _require(decided["kind"]["scored"] > 0, "the judge was asked", decided["kind"])
    return (
        f"{len(wanted)} traces in {len(versions)} versions are there once; {len(scored)} scores, "
        f"each once; {decided['few']['scored']} of at most {CAP_COUNT} traces under the cap of "
        f"traces; the judge was asked {asked} times for ${spent:.2f} of at most ${CAP_COST:.2f}"
    )


def _require(holds: bool, what: str, *facts: Any) -> None:
    if not holds:
        raise AssertionError(f"it does not hold that {what}: {', '.join(map(str, facts))}")


def prove(db: str, size: Size, kill_database: Callable[[], None] | None, seed: int) -> str:
    """Kills at random under ingest, then counts."""
    chance = random.Random(seed)
    judge = Judge()
    with open_store(db) as store:
        set_up(store)
    house = House(db, kill_database)
    sender = None
    try:
        make_rules(house.server.url, judge.address)
        sender = Sender(lambda: house.server.url)
        which = ["server", "worker", *(["database"] if kill_database else [])]
        for nth in range(size.kills):
            enough = len(sender.sent) + size.least + chance.randrange(size.least)
            while len(sender.sent) < enough and sender.thread.is_alive():
                time.sleep(0.01)
            time.sleep(chance.random() * 0.5)
            several = chance.randint(1, len(which))
            house.kill([which[nth]] if nth < len(which) else chance.sample(which, several))
            if nth == size.kills // 2:
                edit_rule(house.server.url)
                go_back(house.server.url)
        sender.stopped = True
        sender.thread.join(PATIENCE_S)
        if sender.thread.is_alive() or not sender.ended:
            raise RuntimeError("the sender did not get its last span acknowledged")
        with open_store(db) as store:
            wait_until_quiet(house, store)
    finally:
        if sender is not None:
            sender.stopped = True
        house.close()
        judge.shutdown()
    with open_store(db) as store:
        found = audit(store, sender.sent, judge.asked)
        require_as_logged(store, "traces", "days of rules")
    killed = ", ".join(f"the {name} {count} times" for name, count in sorted(house.kills.items()))
    return f"{killed} killed: {found}"


def judge_rules(size: Size | None = None) -> tuple[bool, str]:
    """On both databases; whether it holds, and what was found in Markdown."""
    size = size or Size()
    lines: list[str] = []
    held = True
    for name in ("SQLite", "PostgreSQL"):
        try:
            if name == "SQLite":
                with tempfile.TemporaryDirectory(prefix="tally-rules-") as folder:
                    found = prove(str(Path(folder) / "tally.db"), size, None, seed=1)
            else:
                with open_crashing_postgres() as (url, crash):
                    found = prove(url, size, crash, seed=2)
        except (AssertionError, RuntimeError, OSError) as error:
            held, found = False, f"DOES NOT HOLD: {error}"
        lines.append(f"- {name}: {found}")
        sys.stdout.write(f"{lines[-1]}\n")
    said = (
        "Traces are sent without end, every third with a span that comes late, while the server, "
        "two workers and the database are killed (-9) at random moments, alone and together, and "
        "started again. Four rules score them: all, edited half-way; with a cap of traces; by a "
        "judge with a cap in money, which counts itself how often it is asked; and one that comes "
        "half-way with a backfill of what is kept."
    )
    return held, f"{said}\n\n" + "\n".join(lines) + "\n"


def main() -> int:
    """0 when it holds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--short", action="store_true")
    held, _ = judge_rules(SHORT if parser.parse_args().short else Size())
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
