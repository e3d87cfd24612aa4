"""Files of a challenge in a form: what comes back is what went in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tallymark.errors import InvalidInput
from tallymark.web.challenge_files import (
    MOST_FILES,
    FileField,
    list_fields,
    make_fields,
    read_files,
)
from tallymark.web.page_request import Form

STORED = {
    "challenge.yaml": b"name: mine\r\ngoal: x\r\n",
    "data.bin": bytes(range(256)),
    "odd.txt": "a\u202eb".encode(),
    "run.py": b"\nprint(1)\n\n",
}


def send(fields: list[FileField], **changes: str) -> Any:
    """A request with the form as a browser would send it back."""
    texts = {"count": str(len(fields) + 1)}
    for place, each in enumerate(fields):
        texts |= {f"name-{place}": each.name, f"was-{place}": each.was}
        if each.text is None:
            texts[f"raw-{place}"] = each.raw
        else:
            texts[f"text-{place}"] = each.text.replace("\n", "\r\n")
    return SimpleNamespace(form=Form(tuple({**texts, **changes}.items()), {}))


def test_a_form_that_nobody_changed_is_the_same_files_byte_for_byte() -> None:
    fields, left = make_fields(STORED, STORED)
    assert not left
    assert read_files(send(fields), STORED) == STORED


def test_the_challenge_comes_first_and_what_a_text_area_would_change_is_kept() -> None:
    fields, _ = make_fields(STORED, STORED)
    assert fields[0].name == "challenge.yaml"
    assert {each.name for each in fields if each.text is None} == {"data.bin", "odd.txt"}


def test_a_changed_text_is_taken_a_dropped_file_goes_and_a_new_one_comes() -> None:
    fields, _ = make_fields(STORED, STORED)
    places = {each.name: place for place, each in enumerate(fields)}
    changes = {
        f"text-{places['run.py']}": "print(2)\r\n",
        f"drop-{places['odd.txt']}": "1",
        f"name-{places['data.bin']}": "moved.bin",
        f"name-{len(fields)}": "more.json",
        f"text-{len(fields)}": "[]",
    }
    assert read_files(send(fields, **changes), STORED) == {
        "challenge.yaml": STORED["challenge.yaml"],
        "moved.bin": STORED["data.bin"],
        "more.json": b"[]",
        "run.py": b"print(2)\n",
    }


def test_files_that_have_no_room_in_a_form_stay() -> None:
    many = {f"f{place:03}": b"x" for place in range(MOST_FILES + 20)}
    fields, left = make_fields(many, many)
    assert (len(fields), left) == (MOST_FILES, [])
    assert read_files(send(fields), many) == many


def test_what_an_archive_has_that_is_no_text_is_carried_along() -> None:
    fields, left = make_fields({"a.bin": b"\xff\x00", "b.bin": b"\xff" * 2_000_000}, {})
    assert left == ["b.bin"]
    assert read_files(send(fields), {}) == {"a.bin": b"\xff\x00"}


@pytest.mark.parametrize("name", ["../x", "/x", "a//b", ".hidden"])
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="the file"):
        read_files(send([FileField(name=name, text="x")]), {})


def test_two_files_of_one_name_are_refused() -> None:
    fields = [FileField(name="a", text="1"), FileField(name="a", text="2")]
    with pytest.raises(InvalidInput, match="two files"):
        read_files(send(fields), {})


def test_bytes_that_a_form_has_lost_are_said() -> None:
    with pytest.raises(InvalidInput, match="no longer in this form"):
        read_files(send([FileField(name="a.bin", raw="no base 64!")]), {})


def test_an_archive_that_cannot_be_read_leaves_what_was_typed() -> None:
    request = send([FileField(name="a", text="typed")])
    request.form = Form(
        (("count", "1"), ("name-0", "a"), ("text-0", "typed")), {"archive": b"nonsense"}
    )
    with pytest.raises(InvalidInput, match="no archive"):
        read_files(request, {})
    fields, _ = list_fields(request, {})
    assert [(each.name, each.text) for each in fields] == [("a", "typed")]
