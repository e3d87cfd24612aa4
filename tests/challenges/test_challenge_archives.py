"""Archives that people send: what is read of them, and what is refused."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tallymark.challenges import challenge_archives
from tallymark.challenges.challenge_archives import read_archive
from tallymark.challenges.challenge_folder import pack_files
from tallymark.errors import InvalidInput

FILES = {"challenge.yaml": b"name: mine\n", "data/in.json": b"[1]"}


def make_zip(files: dict[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", kind) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return target.getvalue()


def make_tar(files: dict[str, bytes], mode: str = "w") -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode) as packed:  # type: ignore[call-overload]
        for name, content in files.items():
            facts = tarfile.TarInfo(name)
            facts.size = len(content)
            packed.addfile(facts, io.BytesIO(content))
    found: bytes = target.getvalue()
    return found


def make_link(kind: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as packed:
        facts = tarfile.TarInfo("challenge.yaml")
        facts.type, facts.linkname = kind, "/etc/passwd"
        packed.addfile(facts)
    return target.getvalue()


def make_zip_link() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as packed:
        facts = zipfile.ZipInfo("truth.json")
        facts.external_attr = 0o120777 << 16
        packed.writestr(facts, "/etc/passwd")
    return target.getvalue()


@pytest.mark.parametrize(
    "make",
    [
        make_zip,
        make_tar,
        lambda files: make_tar(files, "w:gz"),
        lambda files: make_tar(files, "w:bz2"),
        lambda files: make_tar(files, "w:xz"),
        pack_files,
    ],
    ids=["zip", "tar", "gz", "bz2", "xz", "ours"],
)
def test_files_come_out_as_they_went_in(make: Callable[[dict[str, bytes]], bytes]) -> None:
    assert read_archive(make(FILES)) == FILES


def test_the_one_folder_that_a_tool_packs_is_left_out() -> None:
    inside = {f"mine/{name}": content for name, content in FILES.items()}
    assert read_archive(make_zip(inside)) == FILES


def test_hidden_files_are_no_part_of_it() -> None:
    more = {".git/config": b"x", "__pycache__/a.pyc": b"x", "__MACOSX/._challenge.yaml": b"x"}
    assert read_archive(make_tar({f"./{name}": each for name, each in (FILES | more).items()})) == (
        FILES
    )


@pytest.mark.parametrize("name", ["../up.yaml", "a/../../up.yaml", "/etc/up.yaml", "a\\b.yaml"])
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str) -> None:
    for make in (make_zip, make_tar):
        with pytest.raises(InvalidInput, match="the archive has a file"):
            read_archive(make({name: b"x"}))


@pytest.mark.parametrize(
    "content",
    [make_link(tarfile.SYMTYPE), make_link(tarfile.LNKTYPE), make_link(tarfile.CHRTYPE),
     make_zip_link()],
    ids=["symbolic", "hard", "device", "zip"],
)  # fmt: skip
def test_links_and_devices_are_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput, match="is a link"):
        read_archive(content)


@pytest.mark.parametrize(
    "make", [make_zip, lambda files: make_tar(files, "w:gz"), lambda files: make_tar(files, "w:xz")]
)
def test_a_bomb_is_not_unpacked(
    make: Callable[[dict[str, bytes]], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(challenge_archives, "MAX_BYTES", 100_000)
    monkeypatch.setattr(challenge_archives, "_MOST_TAR", 200_000)
    bomb = make({"challenge.yaml": bytes(5_000_000)})
    assert len(bomb) < 50_000
    with pytest.raises(InvalidInput, match="unpacks to more than"):
        read_archive(bomb)


def test_too_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(challenge_archives, "MAX_FILES", 3)
    with pytest.raises(InvalidInput, match="3 files"):
        read_archive(make_zip({f"f{place}": b"" for place in range(4)}))


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match="twice"):
        read_archive(make_tar({"a.txt": b"1", "./a.txt": b"2"}))


NO_ARCHIVES = {
    "empty": b"",
    "text": b"plain text",
    "begun": b"PK\x03\x04 cut",
    "cut": make_zip(FILES)[:60],
    "broken gzip": b"\x1f\x8b broken",
    "zeros": bytes(2000),
    "broken zstd": b"\x28\xb5\x2f\xfd broken",
    "python": Path(__file__).read_bytes(),
}


@pytest.mark.parametrize("name", NO_ARCHIVES)
def test_what_is_no_archive_is_one_sentence(name: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_archive(NO_ARCHIVES[name])
    assert len(refused.value.problems) == 1
