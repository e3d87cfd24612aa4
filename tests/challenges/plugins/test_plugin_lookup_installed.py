"""Plugins of installed packages: by their entry points, and without importing them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.challenges.plugins.plugin_folders import SCORER, folder_with, install

from tallymark.challenges.plugins import find_plugin
from tallymark.errors import ScorerError
from tallymark.sandbox.plugins.plugin_files import PluginCode

LOUD = "raise SystemExit('imported on the host')\n"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.fixture
def thrifty(site: Path) -> Path:
    install(
        site,
        "thrifty-pack",
        "thrifty = thrifty_pack.scoring:Mine\nlost = thrifty_lost:Mine\n"
        "bad = thrifty_pack.scoring:Mine.score",
        {
            "thrifty_pack/__init__.py": LOUD,
            "thrifty_pack/scoring.py": "import numpy\nfrom . import tables\n" + SCORER,
            "thrifty_pack/tables.py": "import thrifty_other",
            "thrifty_pack/cli.py": SCORER,
            "thrifty_other.py": "",
        },
    )
    return site


@pytest.mark.parametrize("reference", ["thrifty", "thrifty_pack.scoring:Mine"])
def test_by_name_and_by_module(reference: str, thrifty: Path, tmp_path: Path) -> None:
    code = find_plugin(reference, folder=tmp_path)
    assert isinstance(code, PluginCode)
    assert (code.name, code.module, code.attribute) == (reference, "thrifty_pack.scoring", "Mine")
    assert "thrifty_pack" not in sys.modules


def test_only_its_own_package_is_copied(thrifty: Path, tmp_path: Path) -> None:
    code = find_plugin("thrifty", folder=tmp_path)
    assert isinstance(code, PluginCode)
    assert sorted(str(path.relative_to(code.root)) for path in code.root.rglob("*.py")) == [
        "thrifty_pack/__init__.py",
        "thrifty_pack/scoring.py",
        "thrifty_pack/tables.py",
    ]


def test_the_organisers_folder_comes_first(thrifty: Path, tmp_path: Path) -> None:
    folder_with(tmp_path, {"thrifty_pack/scoring.py": SCORER + "# mine"})
    own = find_plugin("thrifty_pack.scoring:Mine", folder=tmp_path)
    installed = find_plugin("thrifty", folder=tmp_path)
    assert isinstance(own, PluginCode)
    assert isinstance(installed, PluginCode)
    assert own.code_hash != installed.code_hash


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("thrifty_pack.cli:Mine", "no module thrifty_pack.cli in .* has to name it in an entry"),
        ("thrifty_pack:Mine", "there is no module thrifty_pack in"),
        ("thrifty_pack.scoring:Other", "thrifty_pack.scoring has no class 'Other'; it has Mine"),
        ("thrify", "there is no plugin 'thrify'; did you mean 'thrifty'?"),
        ("lost", "the plugin thrifty_lost:Mine of an installed package has no Python file"),
        ("bad", "thrifty_pack.scoring has no class 'Mine.score'"),
    ],
)
def test_nothing_else_of_an_installed_package_can_be_named(
    reference: str, said: str, thrifty: Path, tmp_path: Path
) -> None:
    with pytest.raises(ScorerError, match=said):
        find_plugin(reference, folder=tmp_path)


def test_two_packages_with_one_name_are_told_apart_by_module(thrifty: Path, tmp_path: Path) -> None:
    install(thrifty, "other-pack", "thrifty = other_pack:Mine", {"other_pack.py": SCORER})
    said = "more than one plugin is named 'thrifty': other_pack:Mine and thrifty_pack.scoring:Mine"
    with pytest.raises(ScorerError, match=said):
        find_plugin("thrifty", folder=tmp_path)
    assert isinstance(find_plugin("other_pack:Mine", folder=tmp_path), PluginCode)


def test_a_package_cannot_offer_what_is_ours_or_pythons(site: Path, tmp_path: Path) -> None:
    install(site, "sly-pack", "sly = os:system\nsly2 = tallymark.scoring:WeightedScorer", {})
    for name in ("sly", "sly2"):
        with pytest.raises(ScorerError, match=rf"there is no plugin '{name}'|has no Python file"):
            find_plugin(name, folder=tmp_path)
