"""`Form`: what was sent to a page, read within its bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from tallymark.errors import InvalidInput

_MOST_FILES, _MOST_FIELDS, _LONGEST_FIELD = 4, 200, 4_000_000


class Form:
    """What was sent: texts and files by the names of their fields."""

    def __init__(
        self,
        texts: Sequence[tuple[str, str]],
        files: Mapping[str, bytes],
        file_names: Mapping[str, str] | None = None,
    ) -> None:
        self._texts = texts
        self._files = files
        self._file_names = file_names or {}

    def get(self, name: str, default: str = "") -> str:
        """A text, without the space around it."""
        found = self.get_all(name)
        return found[-1] if found else default

    def get_all(self, name: str) -> list[str]:
        """Every text that was sent under a name."""
        return [value.strip() for key, value in self._texts if key == name]

    def get_text(self, name: str) -> str | None:
        """A text as it was typed, with plain line ends; None where there is no such field."""
        found = next((value for key, value in reversed(self._texts) if key == name), None)
        return None if found is None else found.replace("\r\n", "\n").replace("\r", "\n")

    def require(self, name: str, words: str) -> str:
        """The same; `words` say what is missing."""
        found = self.get(name)
        if not found:
            raise InvalidInput(words)
        return found

    def get_file(self, name: str) -> bytes | None:
        """A file that was chosen."""
        return self._files.get(name) or None

    def get_file_name(self, name: str) -> str:
        """What its sender calls it."""
        return self._file_names.get(name, "")


def _is_urlencoded(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/x-www-form-urlencoded"


async def read_form(request: Request) -> Form:
    """The fields of a form; the body as a whole is bounded by whoever serves it."""
    bounds = {
        "max_files": _MOST_FILES,
        "max_fields": _MOST_FIELDS,
        "max_part_size": _LONGEST_FIELD,
    }
    body = await request.body() if _is_urlencoded(request) else b""
    if body.count(b"&") >= _MOST_FIELDS:  # Starlette bounds only the fields of the other kind
        raise InvalidInput(f"the form has more than {_MOST_FIELDS} fields")
    try:
        async with request.form(**bounds) as sent:
            pairs = sent.multi_items()
            texts = [(name, value) for name, value in pairs if isinstance(value, str)]
            uploads = {name: value for name, value in sent.items() if isinstance(value, UploadFile)}
            files = {name: await value.read() for name, value in uploads.items()}
    except HTTPException as error:
        raise InvalidInput(f"the form cannot be read: {error.detail}") from None
    return Form(texts, files, {name: value.filename or "" for name, value in uploads.items()})
