"""Answers of judge models, cached for good: the same question has one verdict."""

from __future__ import annotations

import time

from sqlalchemy import select

from tallymark.judging.judge_dialogue import JudgeAnswer
from tallymark.store.contests.tables import judge_answers
from tallymark.store.database import TenantRows
from tallymark.store.dialects import insert_once


class JudgeAnswers(TenantRows):
    """Cache of judges' answers; an `AnswerStore`."""

    def find(self, question: str) -> JudgeAnswer | None:
        """The answer to the question with this hash."""
        query = select(judge_answers.c.answer, judge_answers.c.model).where(
            judge_answers.c.tenant == self._tenant, judge_answers.c.question == question
        )
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else JudgeAnswer(row.answer, row.model)

    def keep(self, question: str, answer: JudgeAnswer) -> JudgeAnswer:
        """Store an answer unless there is one already; return the stored one."""
        row = {"tenant": self._tenant, "question": question, "at": time.time()}
        row |= {"answer": answer.text, "model": answer.model}
        self._database.write(lambda connection: insert_once(connection, judge_answers, row))
        return self.find(question) or answer
