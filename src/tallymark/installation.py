"""The command that adds a package to this installation, whichever tool made it.

An optional dependency is installed into the environment that runs `tally`: with pip where that has
it, else with uv. Tools of uv and applications of pipx have environments that only those change.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tallymark.errors import InvalidInput

_OWN = "tallymark"


def require_extra(extra: str, what: str, *packages: str) -> None:
    """Refuse work whose packages are not installed, with the command that installs the extra."""
    missing = next((each for each in packages if not _is_installed(each)), None)
    if missing is not None:
        hint = explain_install(f"{_OWN}[{extra}]")
        raise InvalidInput(f"{what} needs {missing}, which is not installed", hint=hint)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # not even the package that it is part of
        return False


def require_server(what: str) -> None:
    """Refuse what serves the API, pages or tools where only the base install is there."""
    packages = ("starlette", "uvicorn", "httptools", "mcp", "prometheus_client")
    require_extra("server", what, *packages)


def explain_install(package: str) -> str:
    """A hint with the command that installs a package, or an extra such as tallymark[models]."""
    return f"install it with: {_make_command(package)}"


def _make_command(package: str) -> str:
    environment = Path(sys.prefix)
    if (environment / "uv-receipt.toml").is_file():
        return _install_tool(package, environment / "uv-receipt.toml")
    if (environment / "pipx_metadata.json").is_file():
        return f'pipx runpip {environment.name} install "{package}"'
    found = shutil.which("python")
    active = found is not None and Path(found).parent == Path(sys.executable).parent
    python = "python" if active else shlex.quote(sys.executable)
    if find_spec("pip") is None:  # an environment that uv made
        return f'uv pip install --python {python} "{package}"'
    return f'{python} -m pip install "{package}"'


def _install_tool(package: str, receipt: Path) -> str:
    """Repeat the packages of the earlier `uv tool install`, which removes all others."""
    import tomllib  # noqa: PLC0415 (only for this hint, and no command should wait for it)

    extras: set[str] = set()
    beside: list[str] = []
    for each in tomllib.loads(receipt.read_text(encoding="utf-8"))["tool"]["requirements"]:
        if each["name"] == _OWN:
            extras.update(each.get("extras", ()))
        else:
            with_extras = f"{each['name']}{_bracket(each.get('extras'))}"
            beside.append(f"{with_extras}{each.get('specifier', '')}")
    if package.startswith(f"{_OWN}["):
        extras.add(package.removeprefix(f"{_OWN}[").removesuffix("]"))
    else:
        beside.append(package)
    words = [f'uv tool install "{_find_source(_bracket(sorted(extras)))}"']
    return " ".join(words + [f'--with "{each}"' for each in beside])


def _bracket(extras: list[str] | None) -> str:
    return f"[{','.join(extras)}]" if extras else ""


def _find_source(extras: str) -> str:
    """The source of this installation: the folder, file or address used before, or an index."""
    from importlib.metadata import distribution  # noqa: PLC0415 (as above)

    source = json.loads(distribution(_OWN).read_text("direct_url.json") or "{}")
    address = source.get("url", "")
    if address.startswith("file:"):
        return f"{unquote(urlsplit(address).path)}{extras}"
    if "vcs_info" in source:
        revision = source["vcs_info"].get("requested_revision")
        address = f"{source['vcs_info']['vcs']}+{address}{f'@{revision}' if revision else ''}"
    return f"{_OWN}{extras} @ {address}" if address else f"{_OWN}{extras}"
