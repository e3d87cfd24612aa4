"""Rescoring by a plugin on an engine: pages of attempts, each scored in a sandbox of a worker.

Pages are those of a rescoring here, and each is scored as if the others did not exist. One thing
goes from page to page: how often an agent's attempts ended the plugin's process. Where a page turns
out to depend on that, it is scored again here.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from tallymark.challenges.attempt import Attempt, Evaluation, Outcome
from tallymark.challenges.plugins import SandboxedPlugin
from tallymark.challenges.plugins.plugin_sources import PluginSources
from tallymark.challenges.rescore_plan import make_rescorer
from tallymark.sandbox import Policy, Sandbox
from tallymark.service.bulk_work import BlockCodec, BulkWork, hash_work

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.rescore_plan import Page, Rescored, RescorePlan
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.sandbox.plugin_code import PluginCode
    from tallymark.store import Store

Deaths = dict[str, tuple[int, str]]


class AttemptBlock(msgspec.Struct, frozen=True):
    """A page of attempts, and what is known of their agents."""

    pairs: list[tuple[Attempt, Evaluation]]
    deaths: Deaths


class RescoredBlock(msgspec.Struct, frozen=True):
    """What a worker makes of a page, and how often agents have ended the process by then."""

    rescored: list[tuple[Evaluation, Outcome]]
    deaths: Deaths


_ATTEMPTS = BlockCodec(AttemptBlock)
_RESCORED = BlockCodec(RescoredBlock)


@dataclass(frozen=True)
class PluginRescoring:
    """The work: a challenge, and the plugin with its files."""

    challenge: Challenge
    tenant: str
    code: PluginCode
    files: Mapping[str, bytes]
    policy: Policy | None
    """None for what the worker's machine offers."""

    @contextmanager
    def open(self) -> Iterator[Callable[[bytes], bytes]]:
        """Lays the files out, and opens a sandbox."""
        sources = PluginSources(self.code.module, {}, dict(self.files))
        with Sandbox(self.policy) as sandbox:
            plugin = SandboxedPlugin(replace(self.code, root=sources.copy_files()), sandbox)
            yield lambda data: self._rescore(plugin, _ATTEMPTS.decode(data))

    def _rescore(self, plugin: SandboxedPlugin, block: AttemptBlock) -> bytes:
        mine = plugin.copy(block.deaths)
        rescored = make_rescorer(self.challenge, mine, tenant=self.tenant)(block.pairs)
        return _RESCORED.encode(RescoredBlock(rescored, mine.deaths))


@contextmanager
def rescore_on_engine(
    choice: EngineChoice,
    store: Store,
    plan: RescorePlan,
    plugin: SandboxedPlugin,
    policy: Policy | None,
    *,
    keep: bool,
) -> Iterator[RescorePlan]:
    """The plan, whose attempts are scored by workers.

    What they find can be kept for a while: whoever previews a rescoring mostly applies it next.
    """
    root = plugin.code.root
    files = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }
    work = PluginRescoring(plan.new, store.tenant, plugin.code, files, policy)
    old = (plan.old.name, plan.old.version)
    name = hash_work("rescore", old, plan.new, plugin.code_hash, plugin.code.name, policy)
    with store.open_work(name) as kept, choice.open() as engine:
        bulk = BulkWork(engine, kept)
        yield replace(plan, rescore_pages=_BlockRescorer(bulk, work, plan, plugin).rescore)
        if not keep:
            kept.clear()


@dataclass(frozen=True)
class _BlockRescorer:
    """Rescores pages by blocks."""

    bulk: BulkWork
    work: PluginRescoring
    plan: RescorePlan
    plugin: SandboxedPlugin

    def rescore(self, pages: Iterable[Page]) -> Iterator[tuple[Page, list[Rescored]]]:
        """Each page with its outcomes, in their order."""
        before = dict(self.plugin.deaths)
        waiting: deque[Page] = deque()

        def cut() -> Iterator[tuple[str, bytes]]:
            for page in pages:
                waiting.append(page)
                agents = {attempt.agent for attempt, _ in page}
                known = {agent: before[agent] for agent in sorted(agents & before.keys())}
                data = _ATTEMPTS.encode(AttemptBlock(list(page), known))
                yield hashlib.sha256(data).hexdigest(), data

        with closing(self.bulk.do(self.work, cut())) as results:
            for data in results:
                page, found = waiting.popleft(), _RESCORED.decode(data)
                yield page, self._accept(page, found, before)

    def _accept(self, page: Page, found: RescoredBlock, before: Deaths) -> list[Rescored]:
        """What the worker found, unless an agent of the page has ended the process since."""
        now = self.plugin.deaths
        if any(now.get(attempt.agent) != before.get(attempt.agent) for attempt, _ in page):
            return self.plan.rescorer(page)
        now |= found.deaths
        return found.rescored
