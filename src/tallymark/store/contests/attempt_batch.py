"""Batches: many items in one transaction, each table read and written once, each item answered.

Items are decided in order, in memory, each seeing what those before it did: so quotas, numbers,
idempotency keys, boards and ratings come to what they would one by one. One that is refused changes
nothing of the others. See docs/decisions/0032-batches.md.

Locks are always taken in one order, the names' if an agent is new, the challenges' by key, the
ratings' by name, so that nobody waits in a circle. Whoever writes to the log of a challenge holds
its lock until the end: so `contest_audit.seq` grows as its entries are committed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tallymark.challenges.agent_names import check_handle
from tallymark.errors import Conflict, InvalidInput, RuleChanged, TallymarkError
from tallymark.store.column_types import make_storable
from tallymark.store.contests import attempt_entry, attempt_rows, disqualifications
from tallymark.store.contests.agents import register_new_agents
from tallymark.store.contests.attempt_items import (
    Enter,
    Expire,
    Finish,
    Report,
    Submit,
    Verdict,
    Wait,
    Withdraw,
)
from tallymark.store.contests.attempt_steps import AttemptSteps
from tallymark.store.contests.attempt_tables import attempt_id
from tallymark.store.contests.batch_memory import ADMISSIONS, OWNERS, BatchMemory
from tallymark.store.contests.batch_rows import BatchRows
from tallymark.store.contests.challenges import explain_unknown_challenge
from tallymark.store.quick_statements import QuickStatements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from tallymark.challenges.attempt import Attempt
    from tallymark.store.contests.attempt_items import Answer, Item
    from tallymark.store.contests.attempt_rows import StoredAttempt
    from tallymark.store.contests.batch_memory import AttemptRow, Entrant
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.contests.idempotency import IdempotentRequest

_DONE = ("submitted", "scored", "failed")
_LATE = """
    SELECT key, challenge_id, agent FROM attempts
    WHERE tenant = ? AND state = 'entered' AND expires_at < ? ORDER BY expires_at LIMIT ?
"""


class AttemptBatch:
    """One batch, in the caller's transaction."""

    def __init__(self, connection: Connection, items: Sequence[Item], *, assume: bool) -> None:
        """With `assume`, open attempts that were read before are not read again: the batch then may
        find that it was `Overtaken`.
        """
        self._connection = connection
        self._items = items
        self._statements = QuickStatements(connection)
        self._memory = BatchMemory(self._statements)
        entering = Counter(each.tenant for each in items if isinstance(each, Enter | Report))
        self._rows = BatchRows(self._statements, self._memory, entering)
        self._steps = AttemptSteps(self._statements, self._memory, self._rows)
        self._refused: dict[int, TallymarkError] = {}
        """By the number of the item."""
        self._found: dict[int, Any] = {}
        """By the number of the item: its challenge, or its attempt."""
        self._pairs: set[tuple[int, str]] = set()
        self._disqualified: set[tuple[str, str]] = set()
        self._wanted: dict[int, tuple[str, int, str]] = {}
        """Attempts to be read, by key: whose they are, and which challenge's."""
        self._assume = assume
        self._assumed: dict[int, StoredAttempt] = {}

    @property
    def challenge_ids(self) -> set[int]:
        """The challenges that it is about."""
        assumed = {each.challenge_id for each in self._assumed.values()}
        return {challenge_id for challenge_id, _ in self._pairs} | assumed

    def apply(self) -> list[Answer | TallymarkError]:
        """Does all items: for each its answer, or why it was refused."""
        self._find_attempts()
        self._find_challenges()
        self._admit_agents()
        self._memory.lock_challenges(self.challenge_ids)
        self._leave_out_gone()
        self._memory.load(self._wanted, self._pairs, self._list_requests())
        self._memory.assume(self._assumed.values())
        answers = [self._answer(nth, item) for nth, item in enumerate(self._items)]
        self._rows.write()
        return answers

    def _answer(self, nth: int, item: Item) -> Answer | TallymarkError:
        if nth in self._refused:
            return self._refused[nth]
        try:
            return self._decide(item, self._found.get(nth))
        except TallymarkError as error:
            return error

    def _decide(self, item: Item, found: Any) -> Answer:
        """Whatever refuses does so before it changes anything that it would have to undo."""
        match item:
            case Report():
                return self._report(item, found)
            case Enter():
                return self._enter(item, found)
            case Submit():
                return self._submit(item, found)
            case Finish():
                return self._finish(item, found)
            case Withdraw():
                return self._withdraw(item, found)
            case Expire():
                return self._expire(item)
            case Wait():
                self._wait(item, found)
                return None

    # What the items are about

    def _find_attempts(self) -> None:
        keys: dict[int, int] = {}
        for nth, item in enumerate(self._items):
            if isinstance(item, Expire):
                late = self._statements.read(_LATE, item.tenant, item.at, item.most)
                self._wanted |= {key: (item.tenant, of, agent) for key, of, agent in late}
            elif isinstance(item, Submit | Withdraw | Finish | Wait):
                key = attempt_rows.attempt_key(item.attempt)
                known: StoredAttempt | None = getattr(item, "known", None)
                if key is None:
                    continue
                if known is None:
                    keys[nth] = key
                else:
                    self._take_known(nth, key, item, known)
        given = [(key,) for key in set(keys.values())]
        owners = {key: owner for key, *owner in self._statements.read_many(OWNERS, given)}
        for nth, key in keys.items():
            tenant, challenge_id, agent = owners.get(key, (None, 0, ""))
            if tenant == self._items[nth].tenant:
                self._found[nth] = key
                self._wanted[key] = (tenant, challenge_id, agent)
        self._pairs |= {(of, agent) for _, of, agent in self._wanted.values()}

    def _take_known(self, nth: int, key: int, item: Item, known: StoredAttempt) -> None:
        self._found[nth] = key
        attempt = known.attempt
        is_open = attempt.state == "entered" and item.at <= attempt.expires_at
        if self._assume and isinstance(item, Submit) and is_open:
            self._assumed[key] = known
        else:
            self._wanted[key] = (item.tenant, known.challenge_id, attempt.agent)

    def _list_requests(self) -> list[tuple[str, str, str]]:
        """Idempotency keys to look up: not those of open attempts, which were not submitted yet.

        If such a key was used for another attempt, writing it fails, and the batch is repeated.
        """
        asked = (
            getattr(item, "request", None)
            for nth, item in enumerate(self._items)
            if not (isinstance(item, Submit) and self._found.get(nth) in self._assumed)
        )
        return [each.id for each in asked if each is not None]

    def _find_challenges(self) -> None:
        for nth, item in enumerate(self._items):
            if isinstance(item, Enter | Report):
                found = self._memory.find_challenge_id(item.tenant, item.challenge)
                self._found[nth] = found

    def _leave_out_gone(self) -> None:
        """Challenges that were deleted or renamed before they were locked."""
        known = self._memory.challenges
        self._pairs = {pair for pair in self._pairs if pair[0] in known}
        for nth, item in enumerate(self._items):
            if isinstance(item, Enter | Report):
                kept = known.get(self._found[nth])
                if kept is None or kept.challenge.name != item.challenge:
                    self._found[nth] = None

    def _admit_agents(self) -> None:
        """Who may not compete, and who competes for the first time."""
        named: set[tuple[str, str]] = set()
        for nth, item in enumerate(self._items):
            if isinstance(item, Enter | Report | Submit):
                try:
                    check_handle(item.agent)
                except InvalidInput as error:
                    self._refused[nth] = error
                else:
                    named.add((item.tenant, item.agent))
        unknown: set[tuple[str, str]] = set()
        for tenant, agent, known, out in self._statements.read_many(ADMISSIONS, list(named)):
            if out:
                self._disqualified.add((tenant, agent))
            elif not known:
                unknown.add((tenant, agent))
        self._register_agents(unknown)

    def _register_agents(self, unknown: set[tuple[str, str]]) -> None:
        """Makes those known that enter: in order, so that of twins the first is taken."""
        new: dict[tuple[str, str], list[int]] = {}
        for nth, item in enumerate(self._items):
            if nth in self._refused or not isinstance(item, Enter | Report):
                continue
            if self._found[nth] is not None:
                self._pairs.add((self._found[nth], item.agent))
                if (item.tenant, item.agent) in unknown:
                    new.setdefault((item.tenant, item.agent), []).append(nth)
        if new:
            since = {who: self._items[entering[0]].at for who, entering in new.items()}
            for who, why in register_new_agents(self._statements, since).items():
                self._refused |= dict.fromkeys(new[who], why)

    def _check_admission(self, item: Enter | Report | Submit) -> None:
        if (item.tenant, item.agent) in self._disqualified:
            raise disqualifications.explain_refusal(item.agent)

    # Deciding: one method for each kind of item

    def _enter(self, item: Enter, challenge_id: int | None) -> Attempt:
        kept, entrant = self._find_place(item, challenge_id)
        if (answered := self._find_answer(item.request)) is not None:
            return self._steps.read_attempt(item.tenant, answered)
        row = None if entrant.open_key is None else self._memory.rows[entrant.open_key]
        if row is not None and _is_late(row, item.at):
            self._steps.expire(row, item.at)
            row = None
        if row is None:
            self._refuse_entry(kept, entrant, item)
            row = self._steps.enter(kept, entrant, item, item.seed, memoryless=item.memoryless)
            entrant.open_key = row.key
        self._keep_answer(item.request, row, item.at)
        return self._steps.tell(row)

    def _report(self, item: Report, challenge_id: int | None) -> Attempt:
        kept, entrant = self._find_place(item, challenge_id)
        if (answered := self._find_answer(item.request)) is not None:
            return self._steps.read_attempt(item.tenant, answered)
        if item.check is not None:
            item.check(kept.challenge)
        self._refuse_entry(kept, entrant, item)
        row = self._steps.enter(kept, entrant, item, seed=0, memoryless=False)
        row.state, row.submitted_at, row.match_at = "submitted", item.at, item.at
        self._rows.keep_payload(row, item.texts)
        moved: Any = {"before": "entered", "after": "submitted", "actor": item.actor}
        self._rows.log(row, item.at, "reported", **moved)
        self._keep_answer(item.request, row, item.at)
        if item.judge is not None:
            try:
                verdict = item.judge(self._steps.tell(row), kept)
            except Exception:  # noqa: BLE001 (it stays submitted: who settles it finds out)
                verdict = None
            if verdict is not None:
                self._steps.end_scored(kept, entrant, row, verdict, item.at)
        return self._steps.tell(row)

    def _submit(self, item: Submit, key: int | None) -> Attempt:
        row = self._find_own_row(item, key)
        self._check_admission(item)
        if self._find_answer(item.request) is None:
            if _is_late(row, item.at):
                self._steps.expire(row, item.at)
                raise attempt_rows.explain_expiry(row)
            if row.state == "entered":
                size = attempt_rows.count_bytes(item.texts)
                who = (item.tenant, item.agent, item.at)
                if not attempt_rows.count_agent_bytes(self._statements, *who, size):
                    raise Conflict(
                        attempt_rows.TOO_MANY_BYTES, hint="submit less, or tomorrow (UTC)"
                    )
                row.submitted_at = row.match_at = item.at
                self._steps.move(row, "submitted", item.at, "submitted", item.actor)
                self._rows.keep_payload(row, item.texts)
            else:
                self._refuse_other_content(row, item.texts["digest"])
            self._keep_answer(item.request, row, item.at)
        return self._steps.read_attempt(item.tenant, row.key)

    def _withdraw(self, item: Withdraw, key: int | None) -> Attempt:
        row = self._find_own_row(item, key)
        if _is_late(row, item.at):
            self._steps.expire(row, item.at)
            raise attempt_rows.explain_expiry(row)
        if row.state == "entered":
            note = None if item.reason is None else {"reason": make_storable(item.reason)}
            row.match_at = item.at
            self._steps.move(row, "withdrawn", item.at, "withdrawn", item.actor, note=note)
            self._steps.end_match(row, "loss")
        if row.state != "withdrawn":
            raise Conflict(
                f"attempt {item.attempt} is {row.state}, and cannot be withdrawn",
                hint="only an open attempt can",
            )
        return self._steps.tell(row)

    def _expire(self, item: Expire) -> int:
        # With those that were entered by this batch, or are open for other reasons.
        mine = [row for row in self._memory.rows.values() if row.tenant == item.tenant]
        # This batch submits the assumed ones, which arrived in time.
        late = [row for row in mine if _is_late(row, item.at) and not row.assumed]
        late.sort(key=_take_deadline)
        for row in late[: item.most]:
            self._steps.expire(row, item.at)
        return len(late[: item.most])

    def _finish(self, item: Finish, key: int | None) -> Attempt | bool:
        row = self._find_row(item, key)
        kept = self._memory.challenges[row.challenge_id]
        if row.state not in _DONE:
            raise Conflict(
                f"attempt {attempt_id(row.key)} is {row.state}, and cannot be scored",
                hint="only a submitted attempt can",
            )
        if row.state != "submitted":
            return False
        if item.revision is not None and item.revision != kept.revision:
            raise RuleChanged(
                f"the scoring of challenge {kept.challenge.name!r} changed while attempt"
                f" {attempt_id(row.key)} was scored",
                hint="score it again",
            )
        entrant = self._memory.entrants[row.challenge_id, row.agent]
        verdict = item.verdict if isinstance(item.verdict, Verdict) else item.verdict(kept)
        self._steps.end_scored(kept, entrant, row, verdict, item.at)
        return self._steps.tell(row)

    def _wait(self, item: Wait, key: int | None) -> None:
        row = self._find_row(item, key)
        if row.state != "submitted" or row.waiting == item.reason:
            return
        self._steps.keep_waiting(row, item)

    # Steps that the kinds share

    def _find_place(
        self, item: Enter | Report, challenge_id: int | None
    ) -> tuple[StoredChallenge, Entrant]:
        self._check_admission(item)
        if challenge_id is None:
            raise explain_unknown_challenge(self._connection, item.tenant, item.challenge)
        entrant = self._memory.entrants[challenge_id, item.agent]
        return self._memory.challenges[challenge_id], entrant

    def _find_row(self, item: Finish | Wait, key: int | None) -> AttemptRow:
        row = None if key is None else self._memory.rows.get(key)
        if row is None:
            raise attempt_rows.explain_unknown_attempt(item.attempt)
        return row

    def _find_own_row(self, item: Submit | Withdraw, key: int | None) -> AttemptRow:
        """An attempt of this agent; of another's no more is said than of none."""
        row = None if key is None else self._memory.rows.get(key)
        if row is None or row.agent != item.agent:
            raise attempt_rows.explain_foreign_attempt(item.attempt, item.agent)
        return row

    def _find_answer(self, request: IdempotentRequest | None) -> int | None:
        """The attempt that was the answer before; a key used for something else is refused."""
        known = None if request is None else self._memory.requests.get(request.id)
        if request is None or known is None:
            return None
        digest, attempt = known
        request.check(digest)
        return attempt

    def _keep_answer(self, request: IdempotentRequest | None, row: AttemptRow, at: float) -> None:
        if request is not None:
            self._rows.keep_request(request.id, request.digest, row.key, at)

    def _refuse_entry(self, kept: StoredChallenge, entrant: Entrant, item: Enter | Report) -> None:
        refusal = attempt_entry.find_refusal(self._statements, kept, item.agent, entrant, item.at)
        if refusal is not None:
            raise refusal

    def _refuse_other_content(self, row: AttemptRow, digest: str) -> None:
        """Refuses a submission that cannot be taken, unless it is the one that already was."""
        identifier = attempt_id(row.key)
        if row.state not in _DONE:
            raise Conflict(f"attempt {identifier} is {row.state}", hint="enter the challenge again")
        known = row.digest or attempt_rows.read_digest(self._connection, row.key)
        if known != digest:
            raise Conflict(
                f"attempt {identifier} was already submitted, with other content",
                hint="enter the challenge again to try something else",
            )


def _take_deadline(row: AttemptRow) -> tuple[float, int]:
    return row.expires_at, row.key


def _is_late(row: AttemptRow, at: float) -> bool:
    """Whether an open attempt's time is over."""
    return bool(row.state == "entered" and at > row.expires_at)
