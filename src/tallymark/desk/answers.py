"""What a server told, as the value that the services here give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tallymark.errors import WorkFailed

if TYPE_CHECKING:
    from pydantic import BaseModel

T = TypeVar("T")


def read_told(told: BaseModel, kind: type[T], **more: Any) -> T:
    """The value, with more that only this side knows; a server that leaves something out is old."""
    try:
        return msgspec.convert(told.model_dump(exclude_unset=True) | more, kind)
    except msgspec.ValidationError as error:
        raise WorkFailed(
            f"the server does not tell all that this command shows: {error}",
            hint="its version may be older than this command's",
        ) from None
