"""Rescoring: scores, history, board, matches and the rule change together.

A preview does the same in a transaction that is rolled back, so it cannot be wrong. Slow work,
running a plugin or evaluating again, happens before the transaction; attempts that were scored
meanwhile are done inside it. During the transaction no attempt at the challenge is finished: one
that was scored by the older rule is then refused by `Attempts.finish`, and scored again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from sqlalchemy import func, select, tuple_

from tallymark.challenges.attempt import Evaluation
from tallymark.challenges.rescore_plan import describe_rule, evaluation_of, formula_terms
from tallymark.challenges.rescoring import BoardPlace, Move, RatingMove, Rescoring
from tallymark.errors import WorkFailed
from tallymark.ratings import EloRating
from tallymark.sandbox.limits import DEADLY
from tallymark.store.contests import (
    attempt_rows,
    audit_log,
    board_rows,
    formula_scores,
    matches,
    plugin_quarantine,
    rescored_rows,
)
from tallymark.store.contests.agents import is_admitted
from tallymark.store.contests.attempt_rows import read_attempt, select_attempts, to_attempt
from tallymark.store.contests.audit_log import AuditEntry
from tallymark.store.contests.board_rows import SPOT
from tallymark.store.contests.challenges import (
    find_challenge,
    lock_challenge,
    publish_version,
)
from tallymark.store.contests.formula_scores import ScoringStamp
from tallymark.store.contests.rescored_rows import ComputedOutcomes
from tallymark.store.contests.tables import (
    attempt_details,
    attempt_id,
    attempt_scores,
    attempts,
    boards,
    ratings,
)
from tallymark.store.contests.tables import challenge_versions as versions
from tallymark.store.database import TenantRows
from tallymark.store.dialects import enlarge_cache, json_text
from tallymark.store.quick_statements import QuickStatements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Row, Select

    from tallymark.challenges.attempt import Attempt
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.rescore_plan import RescorePlan, Rescorer
    from tallymark.scoring import Origin
    from tallymark.store.contests.challenges import StoredChallenge

_PAGE = 500
_Place: TypeAlias = tuple[str, int]
"""Position of an attempt at a challenge: its agent and number."""
_START: _Place = ("", 0)
_SHOWN = 100
OnProgress = Callable[[int, int | None], None]
"""Called with the number of scored attempts and the total."""
_RankedAttempt = tuple[int, int, float | None]
"""An agent's rank, and the key and score of its best attempt."""
_decode_evaluation = msgspec.json.Decoder(Evaluation).decode


class Rescorings(TenantRows):
    def preview(
        self,
        plan: RescorePlan,
        *,
        at: float,
        most: int = _SHOWN,
        on_progress: OnProgress | None = None,
    ) -> Rescoring:
        """Effects of applying a plan; nothing is changed."""
        computed = self._compute(plan, most, on_progress)

        def work(connection: Connection) -> Rescoring:
            kept = find_challenge(connection, self._tenant, plan.old.name, lock=True)
            before, rated = _read_board(connection, kept), _read_ratings(connection, kept)
            undo = connection.begin_nested()
            done = self._apply(connection, plan, computed, at)
            after = _read_board(connection, find_challenge(connection, self._tenant, plan.old.name))
            rerated = _list_rating_moves(rated, _read_ratings(connection, kept))
            moved = [agent for agent in after | before if _has_moved(before, after, agent)]
            new = {
                each: self._explain_place(connection, plan.new, after.get(each))
                for each in moved[:most]
            }
            undo.rollback()
            old = {
                each: self._explain_place(connection, plan.old, before.get(each)) for each in new
            }
            moves = tuple(Move(agent=each, before=old[each], after=new[each]) for each in new)
            return msgspec.structs.replace(
                done, moved=len(moved), moves=moves, rated=len(rerated), ratings=rerated[:most]
            )

        return self._database.write(work)

    def apply(
        self,
        plan: RescorePlan,
        *,
        at: float,
        most: int = _SHOWN,
        on_progress: OnProgress | None = None,
        reason: str = "",
    ) -> Rescoring:
        """Score every attempt by the new rule, and make that rule current."""
        computed = self._compute(plan, most, on_progress)
        return self._database.write(lambda c: self._apply(c, plan, computed, at, reason=reason))

    def resume(
        self,
        stored: StoredChallenge,
        rescorer: Rescorer,
        agents: Sequence[str],
        *,
        at: float,
        origin: Origin,
        deaths: Mapping[str, tuple[int, str]],
    ) -> Rescoring:
        """End the quarantine of agents, and rescore attempts that ended the process or waited.

        `rescorer` ignores their quarantine; `deaths` is what it finds of them.
        """
        computed = ComputedOutcomes(_SHOWN)
        with self._database.read() as connection:
            failed = (
                _select_scored(stored.tenant)
                .where(attempts.c.challenge_id == stored.id, attempts.c.state == "failed")
                .where(attempts.c.agent.in_(agents))
                .order_by(attempts.c.agent, attempts.c.number)
            )
            pairs = _read_pairs(connection.execute(failed))
            page = [each for each in pairs if _is_paused(each[0])]
        # Untried attempts first: the others may end the plugin again.
        page.sort(key=lambda each: _find_stop(each[0]) != "paused")
        if page:
            computed.add(stored.id, page, rescorer(page))

        def work(connection: Connection) -> Rescoring:
            kept = lock_challenge(connection, stored)
            if kept.revision != stored.revision:
                message = f"challenge {stored.challenge.name!r} was changed meanwhile"
                raise WorkFailed(message, hint="try again")
            plugin_quarantine.resume(connection, kept, agents, at)
            changed = 0
            if computed.rows:
                board_rows.freeze_if_due(connection, kept, at)
                scoring = attempt_rows.add_scoring(
                    connection, kept, "rescore", json_text(origin), at
                )
                rescored_rows.stage_outcomes(connection, computed.rows)
                stamp = ScoringStamp(scoring, at)
                concerned = rescored_rows.find_agents_with_other_results(connection)
                changed = rescored_rows.write_staged(connection, kept, stamp)
                matches.fold_agents(connection, kept.tenant, concerned)
                board_rows.rebuild(connection, kept)
                found = {agent: deaths[agent] for agent in agents if agent in deaths}
                plugin_quarantine.add_counts(connection, kept, origin, found, at)
            return Rescoring(
                challenge=kept.challenge.name,
                version=kept.challenge.version,
                rule=describe_rule(kept.challenge.scoring),
                attempts=len(computed.rows),
                changed=changed,
                undefined=computed.undefined,
                reasons=tuple(computed.reasons),
            )

        return self._database.write(work)

    def _compute(
        self, plan: RescorePlan, most: int, on_progress: OnProgress | None
    ) -> ComputedOutcomes:
        """Compute all outcomes, unless they follow from columns of numbers."""
        computed = ComputedOutcomes(most)
        if plan.need == "formula":
            return computed
        with self._database.read() as connection:
            kept = find_challenge(connection, self._tenant, plan.old.name)
            total = 0 if on_progress is None else connection.scalar(_count_scored(kept))
        tell = on_progress or (lambda _done, _total: None)
        tell(0, total)
        for page, rescored in plan.rescore_all(self._read_all(kept)):
            computed.add(kept.id, page, rescored)
            tell(len(computed.rows), total)
        computed.require_some_score()
        return computed

    def _read_all(self, kept: StoredChallenge) -> Iterator[list[tuple[Attempt, Evaluation]]]:
        """Pages of all attempts that have an outcome, each read in its own transaction."""
        last: _Place | None = _START
        while last is not None:
            with self._database.read() as connection:
                page, last = _read_after(connection, kept, last)
            if page:
                yield page

    def _apply(
        self,
        connection: Connection,
        plan: RescorePlan,
        computed: ComputedOutcomes,
        at: float,
        *,
        reason: str = "",
    ) -> Rescoring:
        kept = find_challenge(connection, self._tenant, plan.old.name, lock=True)
        if kept.challenge.version != plan.old.version:
            message = f"challenge {plan.old.name!r} was changed meanwhile"
            raise WorkFailed(message, hint="look at the preview again")
        computed = computed.copy()  # the transaction may be tried again
        with enlarge_cache(connection):
            self._publish(connection, kept, plan, at)
            origin = json_text(plan.origin)
            why = "formula" if plan.need == "formula" else "rescore"
            scoring = attempt_rows.add_scoring(connection, kept, why, origin, at)
            now = find_challenge(connection, self._tenant, plan.new.name)
            count, changed = _score_all(connection, now, plan, computed, ScoringStamp(scoring, at))
            plugin_quarantine.replace_counts(connection, now, plan.origin, plan.deaths, at)
        done = Rescoring(
            challenge=plan.new.name,
            version=plan.new.version,
            rule=describe_rule(plan.new.scoring),
            attempts=count,
            changed=changed,
            undefined=computed.undefined,
            reasons=tuple(computed.reasons),
        )
        note = {"rule": done.rule, "attempts": count, "changed": changed}
        if reason.strip():
            note["reason"] = audit_log.check_reason(reason)
        entry = AuditEntry(
            at=at,
            actor=audit_log.name_actor(),
            event="rescored",
            before=plan.old.version,
            after=plan.new.version,
            note=note | {"undefined": done.undefined},
        )
        audit_log.write_entry(connection, self._tenant, kept.id, None, entry)
        return done

    def _publish(
        self, connection: Connection, kept: StoredChallenge, plan: RescorePlan, at: float
    ) -> None:
        """Make the new rule current. A due freeze comes before anything moves."""
        packed = plan.packed
        if packed is None:
            mine = (versions.c.challenge_id == kept.id) & (versions.c.version == plan.old.version)
            packed = connection.execute(select(versions.c.packed).where(mine)).scalar_one()
        publish_version(connection, self._tenant, plan.new, packed, at)

    def _explain_place(
        self, connection: Connection, challenge: Challenge, standing: _RankedAttempt | None
    ) -> BoardPlace | None:
        if standing is None:
            return None
        rank, key, score = standing
        attempt = read_attempt(QuickStatements(connection), self._tenant, key).attempt
        return BoardPlace(
            rank=rank,
            attempt=attempt_id(key),
            score=score,
            result=None if attempt.outcome is None else attempt.outcome.result,
            terms=formula_terms(challenge, attempt),
        )


def _score_all(
    connection: Connection,
    kept: StoredChallenge,
    plan: RescorePlan,
    computed: ComputedOutcomes,
    given: ScoringStamp,
) -> tuple[int, int]:
    """Score all attempts and rebuild the board; return the numbers of scored and changed ones."""
    if plan.need == "formula":
        keys, count, changed = formula_scores.write_scores(connection, kept.id, plan.new, given)
    else:
        keys = _find_not_computed(connection, kept, computed)
        count, changed = len(computed.rows) + len(keys), 0
    for page in _read_pages(connection, kept, keys):
        computed.add(kept.id, page, plan.rescorer(page))
    if computed.rows:
        # Formulas change scores and no results: only what was computed here can change matches.
        rescored_rows.stage_outcomes(connection, computed.rows)
        agents = rescored_rows.find_agents_with_other_results(connection)
        changed += rescored_rows.write_staged(connection, kept, given)
        matches.fold_agents(connection, kept.tenant, agents)
    board_rows.rebuild(connection, kept)
    return count, changed


def _find_not_computed(
    connection: Connection, kept: StoredChallenge, computed: ComputedOutcomes
) -> list[int]:
    """Attempts that were finished after their page was read."""
    scores = attempt_scores.c
    query = select(scores.attempt).where(scores.challenge_id == kept.id)
    return sorted(set(connection.scalars(query)) - computed.keys())


def _select_scored(tenant: str) -> Select[Any]:
    """Attempts that have an outcome, and their evaluations."""
    query = select_attempts(tenant).add_columns(attempt_details.c.evaluation)
    return query.where(attempt_scores.c.attempt.is_not(None))


def _count_scored(kept: StoredChallenge) -> Select[Any]:
    scored = attempts.join(attempt_scores, attempt_scores.c.attempt == attempts.c.key)
    counted = select(func.count()).select_from(scored)
    return counted.where(attempts.c.challenge_id == kept.id)


def _read_pages(
    connection: Connection, kept: StoredChallenge, keys: list[int]
) -> Iterator[list[tuple[Attempt, Evaluation]]]:
    for start in range(0, len(keys), _PAGE):
        yield _read_page(connection, kept, keys[start : start + _PAGE])


def read_scored_pages(
    connection: Connection, kept: StoredChallenge
) -> Iterator[list[tuple[Attempt, Evaluation]]]:
    """Pages of all attempts that have an outcome, agent by agent, in one transaction."""
    for keys in read_key_pages(connection, kept):
        if page := _read_page(connection, kept, keys):
            yield page


def read_key_pages(connection: Connection, kept: StoredChallenge) -> Iterator[list[int]]:
    """Pages of the keys of all attempts, agent by agent, in one transaction."""
    last: _Place | None = _START
    while last is not None:
        keys, last = _read_keys_after(connection, kept, last)
        if keys:
            yield keys


def _read_after(
    connection: Connection, kept: StoredChallenge, last: _Place
) -> tuple[list[tuple[Attempt, Evaluation]], _Place | None]:
    """The next attempts that have an outcome, and the position to continue at; None at the end."""
    keys, last_read = _read_keys_after(connection, kept, last)
    return _read_page(connection, kept, keys), last_read


def _read_keys_after(
    connection: Connection, kept: StoredChallenge, last: _Place
) -> tuple[list[int], _Place | None]:
    # After the last one seen, not by offset: attempts finished meanwhile shift nothing.
    place = (attempts.c.agent, attempts.c.number)
    query = select(attempts.c.key, *place).where(attempts.c.challenge_id == kept.id)
    query = query.where(tuple_(*place) > last).order_by(*place).limit(_PAGE)
    rows = connection.execute(query).all()
    return [row.key for row in rows], (rows[-1].agent, rows[-1].number) if rows else None


def _read_page(
    connection: Connection, kept: StoredChallenge, keys: Sequence[int]
) -> list[tuple[Attempt, Evaluation]]:
    """Attempts with an outcome, in the order of `keys`.

    Read by their keys alone: to join and sort them, a database would go through all attempts of the
    challenge for each page (PostgreSQL to sort, SQLite in the order of an index).
    """
    query = _select_scored(kept.tenant).where(attempts.c.key.in_(keys))
    found = {row.key: row for row in connection.execute(query)}
    return list(_read_pairs(found[key] for key in keys if key in found))


def _read_pairs(rows: Iterable[Row[Any]]) -> Iterator[tuple[Attempt, Evaluation]]:
    for row in rows:
        attempt = to_attempt(row)
        if row.evaluation is not None:
            yield attempt, _decode_evaluation(row.evaluation)
        elif attempt.outcome is not None:
            yield attempt, evaluation_of(attempt.outcome)


def _is_paused(attempt: Attempt) -> bool:
    """Return whether an attempt has no score because the plugin's process ended."""
    return _find_stop(attempt) in ("paused", *DEADLY)


def _find_stop(attempt: Attempt) -> Any:
    details = attempt.outcome.details if attempt.outcome is not None else {}
    return (details.get("scorer") or {}).get("stopped")


def _read_board(connection: Connection, kept: StoredChallenge) -> dict[str, _RankedAttempt]:
    """The live board, best first."""
    query = select(boards.c.agent, boards.c.attempt, boards.c.score)
    mine = kept.live_board.rows() & is_admitted(kept.tenant, boards.c.agent)
    rows = connection.execute(query.where(mine).order_by(*SPOT))
    return {agent: (rank, key, score) for rank, (agent, key, score) in enumerate(rows, 1)}


def _read_ratings(connection: Connection, kept: StoredChallenge) -> dict[str, int]:
    """Elo ratings of all agents that played at a challenge."""
    played = select(attempts.c.agent).where(attempts.c.challenge_id == kept.id)
    query = select(ratings.c.agent, ratings.c.rating).where(
        ratings.c.tenant == kept.tenant,
        ratings.c.agent.in_(played),
        is_admitted(kept.tenant, ratings.c.agent),
    )
    return dict(connection.execute(query).all())


def _list_rating_moves(
    before: Mapping[str, int], after: Mapping[str, int]
) -> tuple[RatingMove, ...]:
    """Changed ratings, the largest change first."""
    moves = (
        RatingMove(agent=agent, before=before.get(agent, EloRating().rating), after=rating)
        for agent, rating in after.items()
    )
    changed = (each for each in moves if each.before != each.after)
    return tuple(sorted(changed, key=lambda each: (-abs(each.after - each.before), each.agent)))


def _has_moved(
    before: dict[str, _RankedAttempt], after: dict[str, _RankedAttempt], agent: str
) -> bool:
    old, new = before.get(agent), after.get(agent)
    return (old and old[0]) != (new and new[0])
