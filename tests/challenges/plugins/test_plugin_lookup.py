"""What references mean, found without importing anything."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.plugins.plugin_folders import SCORER, folder_with

from tallymark.challenges.attempt_formula import AttemptFormula
from tallymark.challenges.plugins import find_plugin, load_plugin
from tallymark.challenges.plugins.plugin import BuiltinPlugin
from tallymark.errors import FormulaError, InvalidInput, ScorerError
from tallymark.sandbox.plugins.plugin_files import PluginCode

LOUD = "raise SystemExit('imported on the host')\n"


def found(reference: str, folder: Path) -> PluginCode:
    code = find_plugin(reference, folder=folder)
    assert isinstance(code, PluginCode)
    return code


def files(code: PluginCode) -> list[str]:
    return sorted(str(path.relative_to(code.root)) for path in code.root.rglob("*.py"))


@pytest.mark.parametrize(
    "reference", ["builtin.weighted_scorer", "services.scorers.weighted:WeightedScorer"]
)
def test_both_names_reach_the_built_in_scorer(reference: str, tmp_path: Path) -> None:
    plugin = find_plugin(reference, folder=tmp_path)
    assert isinstance(plugin, BuiltinPlugin)
    assert plugin.name == reference


@pytest.mark.parametrize("reference", ["builtin.weighted_scorer", "formula: 100 * succeeded"])
def test_a_config_that_is_none_is_told_in_words(reference: str, tmp_path: Path) -> None:
    plugin = load_plugin(reference, folder=tmp_path, sandbox=None)
    config: Any = None
    for score in (plugin.score, lambda one, *more: plugin.score_many([one], *more)):
        with pytest.raises(InvalidInput, match="a plugin's config is a mapping, not None"):
            score({"succeeded": True}, config, {})


def test_an_organisers_own_file_comes_before_the_built_in_one(tmp_path: Path) -> None:
    folder_with(
        tmp_path, {"services/scorers/weighted.py": SCORER.replace("Mine", "WeightedScorer")}
    )
    found("services.scorers.weighted:WeightedScorer", tmp_path)


def test_a_formula_is_a_plugin(tmp_path: Path) -> None:
    plugin = find_plugin("formula: rating*10 - elapsed_s", folder=tmp_path)
    assert isinstance(plugin, AttemptFormula)
    assert plugin.name == "formula: rating * 10 - elapsed_s"


def test_a_wrong_formula_says_where(tmp_path: Path) -> None:
    with pytest.raises(FormulaError, match="did you mean 'rating'"):
        find_plugin("formula: ratng * 10", folder=tmp_path)


@pytest.mark.parametrize(
    ("reference", "module"),
    [
        ("custom.py:Mine", "custom"),
        ("custom:Mine", "custom"),
        ("scorers/plain.py:Mine", "plain"),
        ("./scorers/plain.py:Mine", "plain"),
        ("scorers.plain:Mine", "scorers.plain"),
        ("pack/deep/inner.py:Mine", "pack.deep.inner"),
        ("pack.deep.inner:Mine", "pack.deep.inner"),
        ("pack:Mine", "pack"),
    ],
)
def test_code_of_the_organisers_folder(reference: str, module: str, tmp_path: Path) -> None:
    folder_with(
        tmp_path,
        {
            "custom.py": LOUD + SCORER,
            "scorers/plain.py": LOUD + SCORER,
            "pack/__init__.py": LOUD + SCORER,
            "pack/deep/__init__.py": LOUD,
            "pack/deep/inner.py": LOUD + SCORER,
        },
    )
    code = found(reference, tmp_path)
    assert (code.name, code.module, code.attribute) == (reference, module, "Mine")
    assert module not in sys.modules


def test_an_absolute_path_inside_the_folder_is_fine(tmp_path: Path) -> None:
    folder_with(tmp_path, {"custom.py": SCORER})
    assert found(f"{tmp_path}/custom.py:Mine", tmp_path).module == "custom"


def test_the_copy_has_what_the_plugin_imports_and_nothing_else(tmp_path: Path) -> None:
    folder_with(
        tmp_path,
        {
            "custom.py": "import json, near\nfrom pack import thing\n" + SCORER,
            "near.py": "def f():\n    from pack.deep import late\n",
            "json.py": "this stays behind: Python has one",
            "pack/__init__.py": "from . import used\n",
            "pack/used.py": "from ..pack.thing import x\nfrom .deep import *\n",
            "pack/thing.py": "x = 1\n",
            "pack/unused.py": "",
            "pack/deep/late.py": "try:\n    import gone\nexcept ImportError:\n    pass\n",
            "truth.json": "{}",
            "generate.py": "",
            ".env": "KEY=secret",
        },
    )
    code = found("custom.py:Mine", tmp_path)
    assert files(code) == [
        "custom.py",
        "near.py",
        "pack/__init__.py",
        "pack/deep/late.py",
        "pack/thing.py",
        "pack/used.py",
    ]
    assert sorted(p.name for p in code.root.rglob("*") if p.suffix != ".py") == ["deep", "pack"]


def test_a_file_may_import_from_its_own_folder_and_from_the_organisers(tmp_path: Path) -> None:
    text = "import beside\nimport lib.shared\n" + SCORER
    folder_with(tmp_path, {"s/custom.py": text, "s/beside.py": "", "lib/shared.py": ""})
    assert files(found("s/custom.py:Mine", tmp_path)) == ["beside.py", "custom.py", "lib/shared.py"]


def test_the_code_hash_is_the_same_everywhere(tmp_path: Path) -> None:
    for place in ("one", "other/place"):
        folder_with(tmp_path / place, {"custom.py": "import near\n" + SCORER, "near.py": "x = 1\n"})
    one, other = (found("custom.py:Mine", tmp_path / place) for place in ("one", "other/place"))
    assert one == other
    text = "import near\n" + SCORER
    named = f"custom.py\x00{len(text)}\x00{text}near.py\x006\x00x = 1\n"
    assert one.code_hash == hashlib.sha256(named.encode()).hexdigest()


@pytest.mark.parametrize(
    ("name", "text", "same"),
    [
        ("custom.py", "import near\n" + SCORER + "# more", False),
        ("near.py", "x = 2\n", False),
        ("unused.py", "x = 2\n", True),
    ],
)
def test_the_code_hash_changes_with_what_runs(
    name: str, text: str, same: bool, tmp_path: Path
) -> None:
    folder_with(tmp_path, {"custom.py": "import near\n" + SCORER, "near.py": "x = 1\n"})
    before = found("custom.py:Mine", tmp_path)
    folder_with(tmp_path, {name: text})
    after = found("custom.py:Mine", tmp_path)
    assert (before.code_hash == after.code_hash) is same
    assert (before.root == after.root) is same


@pytest.mark.parametrize(
    "definition",
    [
        "from pack.thing import Mine",
        "import thing as Mine",
        "from pack.thing import *",
        "Mine = make()",
        "Mine: type = make()",
        "class Mine(Base): pass",
        "try:\n    import fast\nexcept ImportError:\n    class Mine:\n        score = f",
        "if True:\n    class Mine:\n        def score(self): ...",
    ],
)
def test_a_class_may_come_about_in_many_ways(definition: str, tmp_path: Path) -> None:
    folder_with(tmp_path, {"custom.py": definition})
    assert found("custom.py:Mine", tmp_path).attribute == "Mine"


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("os:system", "os cannot be a plugin: the module os is"),
        ("os.path:join", "the module os is Python's or Tallymark's own"),
        ("subprocess:Popen", "the module subprocess is"),
        ("tallymark.scoring.weighted_scorer:WeightedScorer", "the module tallymark is"),
        ("tallymark.cli:main", "the module tallymark is"),
        ("msgspec:Struct", "the module msgspec is"),
        ("numpy:ndarray", "there is no module numpy in .*; an installed package has to name it"),
        ("services.scorers.other:X", "there is no module services.scorers.other in"),
        ("contains", "there is no plugin 'contains'"),
        ("builtin.weigted_scorer", "did you mean 'builtin.weighted_scorer'?"),
        ("", "there is no plugin ''"),
        (":Mine", "':Mine' does not name a plugin; write file.py:Class"),
        ("custom.py:", "does not name a plugin"),
        ("custom.py:Mine()", "does not name a plugin"),
        ("custom.py:Mine.score", "does not name a plugin"),
        ("cus\0tom.py:Mine", "does not name a plugin"),
        ("cus tom:Mine", "'cus tom' is not the name of a module"),
        (".custom:Mine", "'.custom' is not the name of a module"),
        ("../outside.py:Mine", "../outside.py is not in"),
        ("/etc/outside.py:Mine", "/etc/outside.py is not in"),
        ("link.py:Mine", "link.py is not in .*; put it into the challenge's folder"),
        ("link:Mine", "link.py leads out of its folder; put the file itself there"),
        ("circle.py:Mine", "there is no Python file circle.py in"),
        ("linked/x.py:Mine", "linked/x.py is not in"),
        ("reaching.py:Mine", "link.py leads out of its folder"),
        ("custm.py:Mine", "there is no Python file custm.py in .*; did you mean custom.py?"),
        ("custm:Mine", "there is no module custm in .*; did you mean custom.py?"),
        ("notes/:Mine", "there is no Python file notes/"),
        (f"{'x' * 300}.py:Mine", "there is no Python file xxx"),
        ("my-scorer.py:Mine", "my-scorer.py has a name that Python cannot import"),
        ("json.py:Mine", "json.py cannot be a plugin: the module json is"),
        ("custom.py:Mne", "custom.py has no class 'Mne'; did you mean 'Mine'?"),
        ("custom.py:Other", "custom.py has no class 'Other'; it has Mine, Blank"),
        ("blank.py:Other", "blank.py has no class 'Other'$"),
        ("custom.py:function", "function in custom.py is a function; a plugin is a class"),
        ("custom.py:Blank", "the class Blank in custom.py has no method score; add: def score"),
        ("broken.py:Mine", r"broken.py:2:\d+: this is not Python: '\(' was never closed"),
        ("binary.py:Mine", "binary.py.* this is not Python"),
        ("deep.py:Mine", "deep.py: this is not Python: it is nested too deeply"),
        ("importing.py:Mine", "broken.py:2:"),
        ("large.py:Mine", "the plugin and what it imports are more than 500 files or 4 MB"),
    ],
)
def test_refused(reference: str, said: str, tmp_path: Path) -> None:
    folder_with(tmp_path, {"outside.py": SCORER, "elsewhere/x.py": SCORER})
    folder = folder_with(
        tmp_path / "folder",
        {
            "custom.py": SCORER + "class Blank: pass\ndef function(): pass\n",
            "my-scorer.py": SCORER,
            "json.py": SCORER,
            "blank.py": "",
            "broken.py": "x = 1\ny = (",
            "binary.py": "\0",
            "deep.py": "-" * 100_000 + "1",
            "importing.py": "import broken\n" + SCORER,
            "reaching.py": "import link\n" + SCORER,
            "large.py": SCORER + "#" * 4_000_000,
            "notes/read.me": "",
        },
    )
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    (folder / "circle.py").symlink_to(folder / "circle.py")
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ScorerError, match=said):
        find_plugin(reference, folder=folder)


def test_a_folder_that_is_not_there_has_no_modules(tmp_path: Path) -> None:
    with pytest.raises(ScorerError, match="there is no module custom in"):
        find_plugin("custom:Mine", folder=tmp_path / "nowhere")
