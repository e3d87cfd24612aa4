"""Small plugins for tests, written where they are used."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tallymark.sandbox import PluginCode


def plugin(folder: Path, source: str, attribute: str = "Plugin") -> PluginCode:
    """A plugin of one file, `scorer.py`."""
    folder.mkdir(exist_ok=True)
    (folder / "scorer.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return PluginCode(f"scorer.py:{attribute}", folder, "scorer", attribute, "hash-of-the-files")


ORDINARY = """
    class Plugin:
        def score(self, metrics, config, ctx):
            return {"score": metrics["rating"] * config.get("factor", 1)}
"""
"""Twice a rating of 4 at a factor of 2 is 8: the tests' plugin that does no harm."""

BY_WISH = """
    import os, resource, time
    held = []
    class Plugin:
        def score(self, metrics, config, ctx):
            match metrics.get("wish"):
                case "loop":
                    while True: pass
                case "exit": os._exit(4)
                case "crash": __import__("ctypes").string_at(0)
                case "kill itself":
                    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
                    while True: pass
                case "raise": raise ValueError(metrics["rating"])
                case "memory": bytearray(2**40)
                case "fork": os.fork()
                case "nan": return {"score": float("nan")}
                case "negative": return {"score": -1}
                case "slow": time.sleep(0.1)
            return {"score": metrics["rating"]}
"""
"""Does what each attempt's metrics wish."""
