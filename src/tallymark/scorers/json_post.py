"""Posting JSON to an HTTP endpoint that the user names; what goes wrong is one sentence."""

from __future__ import annotations

from typing import Any

import msgspec

from tallymark.errors import WorkFailed
from tallymark.text import format_number

MOST_BYTES = 4 * 1024 * 1024
"""Largest answer; two embeddings of 4,096 numbers take a twentieth of it."""


async def post_json(url: str, body: Any, *, seconds: float, key: str | None = None) -> Any:
    """The decoded JSON answer to a JSON body; everything else is a WorkFailed."""
    import aiohttp  # noqa: PLC0415 (heavy)

    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    limit = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, headers=headers, trust_env=True) as session,
            session.post(url, json=body, allow_redirects=False) as response,
        ):
            answer = await _read_bounded(response.content)
    except TimeoutError:
        raise WorkFailed(
            f"{_hide_query(url)} did not answer in {format_number(seconds)} s"
        ) from None
    except aiohttp.ClientError as error:
        raise WorkFailed(f"{_hide_query(url)} could not be reached: {error}") from None
    if response.status != 200:
        shown = answer[:200].decode(errors="replace").strip()
        raise WorkFailed(
            f"{_hide_query(url)} answered {response.status} {response.reason}: {shown}"
        )
    try:
        return msgspec.json.decode(answer)
    except msgspec.DecodeError as error:
        raise WorkFailed(f"{_hide_query(url)} did not answer with JSON: {error}") from None


async def _read_bounded(content: Any) -> bytes:
    """The body, if it is not more than a scorer's answer can sensibly be."""
    body = b""
    async for chunk in content.iter_chunked(MOST_BYTES):
        body += chunk
        if len(body) > MOST_BYTES:
            raise WorkFailed(f"it answered with more than {MOST_BYTES >> 20} MB, which is not read")
    return body


def _hide_query(url: str) -> str:
    """The address without its query, which may hold a secret."""
    return url.partition("?")[0]
