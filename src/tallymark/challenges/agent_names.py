"""Names of agents: handles, which identify them, and display names, which are shown.

Two agents must not be mistaken for each other. A handle uses few letters; a display name is free if
it has no invisible characters and does not look like another one: names with the same skeleton look
alike. The idea is from Unicode Technical Standard 39, with our own table for scripts whose letters
look Latin.
"""

from __future__ import annotations

import re
import unicodedata

from tallymark.errors import InvalidInput
from tallymark.text import shorten

LONGEST_NAME = 60
_LONGEST_HANDLE = 40
_HANDLE = re.compile(r"[a-z0-9][a-z0-9._-]{0,38}[a-z0-9]")
_RESERVED = frozenset({"system"})
"""Actor in the log for automatic actions."""

# Capitals are replaced first: a Greek nu looks like an N, and a small one like a v.
_CAPITALS = str.maketrans(
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϺ" + "АВЕЅІЈКМНОРСТУХҮԚԜԌ" + "ՍՕԼᎪᏴᏟᎠᎬᎻᎫᏦᏞᎷᏢᏒᏚᎢᏙᎳᏃ",  # noqa: RUF001 (what it is a table of)
    "ABEZHIKMNOPTYXCM" + "ABESIJKMHOPCTYXYQWG" + "UOLABCDEHJKLMPRSTVWZ",
)
_SMALL = str.maketrans(
    "αβεγηικνορτυχωϲϳ" + "авеѕіјкмнорстухүԛԝһԁьпгԍ" + "օոսհցյզքւ" + "ıɑɡɩɪʏɴʀøđłħŧƒ",
    "abeynikvoptuxwcj" + "abesijkmhopctyxyqwhdbnrg" + "onuhgjqpl" + "iagiiynrodlhtf",
)
_MARKS = re.compile("[\u0300-\u036f]")  # of Latin, Greek and Cyrillic; elsewhere they are letters
_PILE = re.compile("[\u0300-\u036f]{2}")
_GAPS = re.compile(r"[\s_-]+")
_TWINS = str.maketrans("i1|!0", "llllo")
_LATIN_MAY_JOIN = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"})
# Invisible letters, marks and symbols, in addition to Unicode's formats and controls.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def is_handle(given: str) -> bool:
    """True for a valid handle."""
    return _HANDLE.fullmatch(given) is not None and given not in _RESERVED


def check_handle(given: str) -> None:
    """Refuse an invalid handle, and suggest a valid one."""
    if is_handle(given):
        return
    raise InvalidInput(
        f"{shorten(given, 60)!r} is no handle of an agent",
        hint=f"take {propose_handle(given)!r}, for example: 2 to {_LONGEST_HANDLE} of a-z, 0-9, "
        "'.', '_' and '-', the first and the last a letter or a digit",
    )


def check_new_handle(given: str) -> None:
    """Refuses what no new agent may be known by: what the logs call others, or what looks like it.

    Agents that were called so before keep their handles.
    """
    check_handle(given)
    if make_skeleton(given) in _LOOKS_OF_OTHERS:
        raise InvalidInput(
            f"{given!r} cannot be the handle of an agent: logs use this name for something else",
            hint=f"take {given + '-2'!r}, for example",
        )


def propose_handle(name: str) -> str:
    """The handle that is nearest to a name."""
    handle = name if is_handle(name) else _make_handle(name)
    return f"{handle}-2" if handle in _RESERVED else handle


def _make_handle(name: str) -> str:
    folded = _replace_twins_of_latin(name)
    plain = re.sub(r"[^a-z0-9._]+", "-", folded).strip("._-")[:_LONGEST_HANDLE].strip("._-")
    return plain if len(plain) > 1 else f"agent-{plain}".strip("-")


def check_display_name(name: str) -> None:
    """Refuses what could not be read as it is written, or could be read in two ways."""
    why = _find_fault(name)
    if why is not None:
        raise InvalidInput(f"an agent cannot be shown as {shorten(name, 80)!r}: {why}")


def make_skeleton(name: str) -> str:
    """The appearance of a name: two with the same skeleton look alike."""
    folded = name if name.isascii() else _replace_twins_of_latin(name)
    look = _GAPS.sub("-", folded.strip().casefold()).translate(_TWINS)
    return look.replace("rn", "m").replace("vv", "w")


_LOOKS_OF_OTHERS = frozenset(
    map(
        make_skeleton,
        ("operator", "organiser", "admin", "owner", "anonymous", "reporter", "viewer"),
    )
)


def label_agent(handle: str, name: str) -> str:
    """An agent as people see it: by its name, with its handle where that is another."""
    return handle if name == handle else f"{name} ({handle})"


def _find_fault(name: str) -> str | None:
    if not 0 < len(name) <= LONGEST_NAME:
        return f"a name has 1 to {LONGEST_NAME} characters"
    for each in name:
        if not _is_seen(each):
            return f"it holds the invisible character U+{ord(each):04X}"
        if unicodedata.category(each) in {"Ps", "Pe"}:
            return "brackets are for the handle, which is shown beside the name"
    if " ".join(name.split()) != name:
        return "it begins or ends with a space, or has one that is not plain"
    plain = unicodedata.normalize("NFKC", name)
    if plain != name:
        return f"write it with plain letters, as {plain!r}"
    if not name[0].isalnum():
        return "it does not begin with a letter or a digit"
    if _PILE.search(name):
        return "it piles up marks on a letter"
    scripts = {_find_script(each) for each in name if each.isalpha()}
    if len(scripts - _LATIN_MAY_JOIN) > 1:
        return f"it mixes letters of several scripts ({', '.join(sorted(scripts)).lower()})"
    return None


def _is_seen(character: str) -> bool:
    return unicodedata.category(character) not in _UNSEEN and not _BLANK.match(character)


def _find_script(letter: str) -> str:
    """The first word of a letter's name, which is its script; both kinds of width are the same."""
    return unicodedata.name(letter, "unknown").split(" ")[0].removesuffix("-COMPATIBILITY")


def _replace_twins_of_latin(name: str) -> str:
    """The name in small letters, those that look Latin replaced by Latin ones, without accents."""
    seen = "".join(each for each in name if each.isspace() or _is_seen(each))
    bare = unicodedata.normalize("NFKD", seen).translate(_CAPITALS).casefold()
    return _MARKS.sub("", unicodedata.normalize("NFKD", bare)).translate(_SMALL)
