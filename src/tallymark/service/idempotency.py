"""Requests under an idempotency key: each is done once, and its answer is returned again."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tallymark.errors import TallymarkError, WorkFailed
from tallymark.store.idempotency import StoredAnswer

if TYPE_CHECKING:
    from tallymark.service.callers import Caller
    from tallymark.service.tenant import TenantServices

__all__ = ["KeyedRequest", "StoredAnswer"]


class KeyedRequest:
    """A request of a caller under a key; `content` is what makes it the same request."""

    def __init__(self, services: TenantServices, caller: Caller, key: str, content: bytes) -> None:
        self._answers = services.store.idempotent_answers
        self._asker = caller.asker
        self._key = key
        self._digest = hashlib.sha256(content).hexdigest()
        self._at = services.now

    def begin(self) -> StoredAnswer | None:
        """Claim the key, or return the answer that it has.

        The key of another request, or of one that is being served, is a `Conflict`.
        """
        return self._answers.begin(self._asker, self._key, self._digest, at=self._at)

    def fail(self, error: BaseException) -> None:
        """Free the key after a refusal; after other failures the outcome is unknown."""
        if isinstance(error, TallymarkError) and not isinstance(error, WorkFailed):
            self._answers.forget(self._asker, self._key)
        else:
            self._answers.leave(self._asker, self._key)

    def finish(self, answer: StoredAnswer) -> None:
        """Keep the answer; what is shown only once must not be in it."""
        self._answers.finish(self._asker, self._key, answer)
