"""Inside a child that is locked in: the plugin is loaded and scores one attempt, as bytes.

From here on the plugin can change anything in its process.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from tallymark.sandbox.limits import NOT_LOADED
from tallymark.sandbox.plugins import answer_frames
from tallymark.sandbox.plugins.plain_data import TooLarge, decode, encode, encode_within
from tallymark.sandbox.plugins.plugin_files import CompiledImporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AFTER_BUILT_IN = 2
"""Where modules of the plugin's root are looked for: after what is part of Python itself."""
_TEXT_CHARS = 500


def load_scorer(opening: dict[str, Any]) -> Callable[[object, str | None], bytes]:
    """Scores an attempt by a new instance of the plugin; if there is none, says why."""
    sys.meta_path.insert(_AFTER_BUILT_IN, CompiledImporter(opening["compiled"]))
    try:
        home = importlib.import_module(opening["module"])
        plugin = getattr(home, opening["attribute"])
    except BaseException as error:  # noqa: BLE001 (a plugin may raise anything)
        failure = _encode_failure(error, NOT_LOADED)
        return lambda *_: failure
    config, context, most = opening["config"], opening["ctx"], opening["most"]

    def score(metrics: object, user: str | None) -> bytes:
        try:
            ctx = decode(context)
            if user is not None:
                ctx["end_user_id"] = user
            given = plugin().score(metrics, decode(config), ctx)
            return answer_frames.mark_given(encode_within(given, most))
        except TooLarge as error:
            return encode((answer_frames.FAILED, "bad answer", f"the answer has {error}"))
        except BaseException as error:  # noqa: BLE001 (as above)
            return _encode_failure(error)

    return score


def _encode_failure(error: BaseException, kind: str = "raised") -> bytes:
    if isinstance(error, MemoryError):
        stopped = "memory" if kind == "raised" else kind
        return encode((answer_frames.FAILED, stopped, "the plugin used more memory than it may"))
    try:
        words = " ".join(str(error)[:_TEXT_CHARS].split())
    except BaseException:  # noqa: BLE001 (its own text may be code of the plugin)
        words = ""
    name = type(error).__name__
    said = f"{name}: {words}" if words else name
    return encode((answer_frames.FAILED, kind, f"the plugin raised {said}{_find_line(error)}"))


def _find_line(error: BaseException) -> str:
    """Where in the plugin's own files it was raised: the last line that is not the library's."""
    found = ""
    for path, line in _walk_traceback(error):
        if path.startswith(sys.path[0]):
            found = f" (line {line} of {path[len(sys.path[0]) :].lstrip('/')})"
    return found


def _walk_traceback(error: BaseException) -> Iterator[tuple[str, int]]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
