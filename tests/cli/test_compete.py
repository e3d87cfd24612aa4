"""`tally compete`: agents of every kind, and those who mean no good on either side."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripts.server_process import ADMIN_KEY, require_as_logged, serve
from tests.cli.tally_process import TALLY, Tally

from tallymark.challenges.challenge_folder import pack
from tallymark.client import Client
from tallymark.store import open_store

SUMS = """
name: {name}
goal: "What is six times seven? \\e[2J\\e]0;mine\\a"
time_limit: {time}
data: {{public: [numbers.txt]}}
submission: {{format: {form}, max_bytes: 2000{schema}}}
evaluator:
  type: {evaluator}
scoring: {{dimensions: {{correctness: 0.9, speed: 0.1}}}}
"""
FIELDS = """deterministic
  truth: truth.json
  fields: {sum: {primitive: exact_match, dimension: correctness}}"""
SCHEMA = ", schema: {type: object, required: [sum]}"


def publish(tally: Player, name: str, form: str = "json", **more: str) -> None:
    """A challenge whose goal would like to clear the screen."""
    given = {"time": "10m", "schema": SCHEMA if form == "json" else "", "evaluator": FIELDS}
    if form != "json":
        given["evaluator"] = "script\n  script: judge.py"
    folder = tally.folder / name
    folder.mkdir()
    text = SUMS.format(name=name, form=form, **given | more)
    (folder / "challenge.yaml").write_text(text, encoding="utf-8")
    (folder / "truth.json").write_text('{"sum": 42}', encoding="utf-8")
    (folder / "numbers.txt").write_text("6 7\n", encoding="utf-8")
    (folder / "judge.py").write_text(JUDGE, encoding="utf-8")
    tally.admin.challenges.publish(pack(folder), force=True)


JUDGE = """
def evaluate(submission, truth, data):
    right = submission == "42" or submission == {"answer.txt": "42"}
    return {"dimensions": {"correctness": 1000 if right else 0}}
"""


class Player(Tally):
    """`tally` before a server in another process."""

    def __init__(self, folder: Path, server: str) -> None:
        super().__init__(folder)
        self.server = {"TALLY_SERVER": server, "TALLY_KEY": ADMIN_KEY}
        self.admin = Client(server, ADMIN_KEY)

    def __call__(
        self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return super().__call__(*arguments, stdin=stdin, env=self.server | (env or {}))

    def list_attempts(self, agent: str) -> list[str]:
        """The states of an agent's attempts."""
        return [each.state for each in self.admin.attempts.list("sums", agent=agent)]


@pytest.fixture(scope="module")
def tally(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    folder = tmp_path_factory.mktemp("compete")
    with serve(str(folder / "server.db"), workers=1) as server:
        made = Player(folder, server.url)
        publish(made, "sums")
        yield made
        made.admin.close()
    with open_store(str(folder / "server.db")) as store:
        require_as_logged(store, "attempts")


def write_agent(tally: Player, name: str, code: str) -> str:
    (tally.folder / name).write_text(code, encoding="utf-8")
    return f"{sys.executable} {name}"


def compete(tally: Player, who: str, *words: str) -> dict[str, Any]:
    """The result as JSON."""
    done = tally("compete", *words, "--agent", who, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


PROGRAM = """
import json, os, pathlib, sys
brief = json.load(sys.stdin)
folder = pathlib.Path(os.environ["TALLY_FOLDER"])
assert (folder / "goal.md").read_text().startswith("What is six")
assert json.loads((folder / "schema.json").read_text())["required"] == ["sum"]
assert json.loads((folder / "rules.json").read_text())["name"] == "sums"
assert (folder / "data/numbers.txt").read_text() == brief["data"]["numbers.txt"] == "6 7\\n"
assert "TALLY_KEY" not in os.environ
print("thinking", file=sys.stderr)
print(json.dumps({"sum": 42}))
"""


def test_a_program_gets_its_brief_and_prints_its_answer(tally: Player) -> None:
    command = write_agent(tally, "program.py", PROGRAM)
    done = tally("compete", "sums", "--program", command, "--agent", "anna")
    assert done.returncode == 0, done.stderr
    assert "(win)" in done.stdout
    assert "not witnessed: no span of the agent reached the server" in done.stdout
    assert "that costs the points for efficiency and the Elo bonus" in " ".join(done.stdout.split())
    assert "| thinking" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x07" not in done.stderr


SEEN = """
async def solve(brief):
    with brief.steps.tool("read", "numbers.txt") as step:
        step.output = brief.data["numbers.txt"]
    brief.ask("echo/me", "six times seven?")
    print("printed")
    return {"sum": 42}
"""


def test_a_function_is_seen_at_work(tally: Player) -> None:
    write_agent(tally, "seen.py", SEEN)
    told = compete(tally, "bea", "sums", "--function", "seen.py:solve")
    assert told["attempt"]["trajectory_level"] == "witnessed"
    assert told["witnessed"] == {"spans": 2, "problem": None}


def test_the_one_above_is_told_by_dimension(tally: Player) -> None:
    command = write_agent(tally, "wrong.py", "print('{\"sum\": 41}')")
    told = compete(tally, "carl", "sums", "--program", command)
    assert told["result"] == "loss"
    assert told["above"]["leads"][0]["key"] == "correctness"
    assert told["above"]["leads"][0]["points"] == 900


OTEL = """
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
import os, time, urllib.request
request = trace_service_pb2.ExportTraceServiceRequest()
batch = request.resource_spans.add()
batch.resource.attributes.add(key="tally.attempt").value.string_value = "tlw_another_forged"
span = batch.scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name="chat")
span.start_time_unix_nano = time.time_ns() - 1000
span.end_time_unix_nano = time.time_ns()
span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
span.attributes.add(key="gen_ai.request.model").value.string_value = "m"
for name in ("input", "output"):
    span.attributes.add(key=f"gen_ai.usage.{name}_tokens").value.int_value = 5
address = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
sent = urllib.request.Request(
    address, request.SerializeToString(), {"Content-Type": "application/x-protobuf"}
)
assert urllib.request.urlopen(sent).status == 200
guessed = address.replace(address.split("/")[3], "guessed")
try:
    urllib.request.urlopen(guessed, b"x")
    raise SystemExit("anybody may send")
except urllib.error.HTTPError as error:
    assert error.code == 404
print('{"sum": 42}')
"""


def test_what_an_exporter_sends_is_this_attempts_whatever_it_says(tally: Player) -> None:
    command = write_agent(tally, "otel.py", OTEL)
    told = compete(tally, "dora", "sums", "--program", command)
    assert told["attempt"]["trajectory_level"] == "witnessed"
    assert told["witnessed"]["spans"] == 1


@pytest.mark.parametrize("form", ["text", "files"])
def test_answers_of_other_forms(tally: Player, form: str) -> None:
    publish(tally, form, form)
    code = "import os, pathlib\npath = pathlib.Path(os.environ['TALLY_ANSWER'])\n"
    code += "(path / 'answer.txt' if path.is_dir() else path).write_text('42')\n"
    told = compete(tally, "emil", form, "--program", write_agent(tally, f"{form}.py", code))
    assert told["attempt"]["score"] is not None, told
    assert told["result"] == "win"


def refuse(tally: Player, who: str, code: str, *words: str) -> tuple[int, list[str]]:
    """What is said of an agent that does not do it."""
    command = write_agent(tally, f"{who}.py", code)
    done = tally("compete", "sums", "--program", command, "--agent", who, *words)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("| ")]
    return done.returncode, lines[1:]


HUGE = "for _ in range(1000):\n    print('9' * 10**6)"
SLOW = "import time\ntime.sleep(99)"


@pytest.mark.parametrize(
    ("who", "code", "words", "exit_code", "said"),
    [
        ("breaks", "raise SystemExit('no idea')", (), 3, "ended with exit code 1: no idea"),
        pytest.param("silent", "pass", (), 3, "gave no answer", marks=pytest.mark.proof),
        ("prose", "print('it is 42')", (), 2, "what was printed is not JSON"),
        pytest.param("huge", HUGE, (), 2, "larger than 2,000 bytes", marks=pytest.mark.proof),
        pytest.param("slow", SLOW, ("--timeout", "1"), 3, "had no", marks=pytest.mark.proof),
        ("lacks", "print('{}')", (), 1, "Not submitted"),
    ],
)
def test_a_failing_agent_loses_nothing(
    tally: Player, who: str, code: str, words: tuple[str, ...], exit_code: int, said: str
) -> None:
    ended, lines = refuse(tally, who, code, *words)
    assert ended == exit_code
    assert any(said in line for line in lines), lines
    *_, still, again = lines
    assert still.startswith("The attempt is still open, for ")
    right = write_agent(tally, "right.py", "print('{\"sum\": 42}')")
    number = again.split()[3]
    told = compete(tally, who, "--attempt", number, "--program", right)
    assert (told["attempt"]["id"], told["result"]) == (number, "win")


def test_what_is_checked_is_not_submitted(tally: Player) -> None:
    command = write_agent(tally, "fine.py", "print('{\"sum\": 42}')")
    done = tally("compete", "sums", "--program", command, "--agent", "fay", "--check")
    assert done.returncode == 0, done.stderr
    again = done.stdout.strip().splitlines()[-1].split()[1:]
    assert tally.list_attempts("fay") == ["entered"]
    assert tally(*again).returncode == 0
    done = tally(*again)  # as by somebody who was not told that it had arrived
    assert (done.returncode, tally.list_attempts("fay")) == (0, ["scored"])
    assert "is not open any more. This came of it:" in done.stderr
    assert "(win)" in done.stdout


@pytest.mark.proof
def test_out_of_time_what_was_written_counts(tally: Player) -> None:
    code = "import os, time\nopen(os.environ['TALLY_ANSWER'], 'w').write('{\"sum\": 42}')\n"
    command = write_agent(tally, "patient.py", code + "time.sleep(99)\n")
    told = compete(tally, "gus", "sums", "--program", command, "--timeout", "2")
    assert told["result"] == "win"


def test_the_same_key_enters_once(tally: Player) -> None:
    command = write_agent(tally, "fine.py", "print('{\"sum\": 42}')")
    words = ("sums", "--program", command, "--idempotency-key", "k-1")
    first, second = (compete(tally, "hal", *words) for _ in range(2))
    assert first["attempt"]["id"] == second["id"]


FORKS = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        time.sleep(600)
    os._exit(0)
os.wait()
marks = [pid for pid in os.listdir("/proc") if pid.isdigit()]
print('{"sum": 42}')
"""


def find_processes(word: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in path.read_text("utf-8", "replace"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_who_forks_and_leaves_does_not_outlive_the_attempt(tally: Player) -> None:
    command = write_agent(tally, "forks_and_leaves.py", FORKS)
    told = compete(tally, "ivo", "sums", "--program", command)
    assert told["result"] == "win"
    assert find_processes("forks_and_leaves.py") == []


@pytest.mark.proof
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_whatever_ends_it_the_agent_ends_and_the_attempt_stays(
    tally: Player, number: signal.Signals
) -> None:
    name = f"waits_{number.name}.py".lower()
    code = "import time, pathlib\npathlib.Path(__file__ + '.ready').touch()\ntime.sleep(600)\n"
    command = write_agent(tally, name, code)
    who = f"jo-{number.name}".lower()
    words = ["compete", "sums", "--program", command, "--agent", who]
    env = {key: value for key, value in os.environ.items() if key != "TALLY_DB"} | tally.server
    with subprocess.Popen(
        [TALLY, *words], cwd=tally.folder, env=env, stderr=subprocess.PIPE, text=True
    ) as process:
        _wait_for((tally.folder / f"{name}.ready").exists)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    _wait_for(lambda: not find_processes(name))
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "The attempt is still open" in said
    assert tally.list_attempts(who) == ["entered"]


def _wait_for(state: Any) -> None:
    until = time.monotonic() + 60
    while not state() and time.monotonic() < until:
        time.sleep(0.02)
    assert state()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sums",), "give one of"),
        (("sums", "--function", "a:b", "--program", "x"), "give one of"),
        (("--program", "true"), "no challenge is named"),
        (("sums", "--program", "no-such-program-anywhere"), "there is no program"),
        (("sums", "--program", "'"), "cannot be read"),
        (("sums", "--function", "nothing"), "names no function"),
        (("sums", "--function", "seen.py:nothing"), "has no function"),
        (("nothing", "--program", "true", "--agent", "kim"), "there is no challenge"),
        (("--attempt", "a000000000999", "--program", "true"), "there is no attempt"),
    ],
)
def test_what_cannot_be_begun_costs_no_attempt(
    tally: Player, words: tuple[str, ...], said: str
) -> None:
    write_agent(tally, "seen.py", SEEN)
    done = tally("compete", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_red_against_blue_is_not_competed_in(tally: Player) -> None:
    example = Path(__file__).parents[2] / "examples/challenges/red-blue-guard"
    tally.admin.challenges.publish(pack(example))
    done = tally("compete", "red-blue-guard", "--program", "true", "--agent", "lea")
    assert done.returncode == 2
    assert "red against blue" in done.stderr


def test_ones_own_store_is_competed_in_without_a_server(tmp_path: Path) -> None:
    own = Tally(tmp_path)
    own("challenge", "init", "deterministic", "count-up")
    own("challenge", "publish", "count-up")
    command = f"cat {tmp_path}/count-up/reference.json"
    env = {"TALLY_KEY": "tly_of_another_server"}
    done = own("compete", "count-up", "--program", command, "--agent", "ned", env=env)
    assert done.returncode == 0, done.stderr
    assert "(win)" in done.stdout


def test_a_settings_file_cannot_name_the_agent(tmp_path: Path) -> None:
    (tmp_path / "tally.toml").write_text('[compete]\nprogram = "rm -rf /"\n')
    done = Tally(tmp_path)("compete", "sums", "--agent", "mo")
    assert done.returncode == 2
    assert "runs code" in done.stderr
