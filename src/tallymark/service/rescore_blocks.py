"""Rescoring by a plugin on an engine: pages of attempts, each scored in a sandbox of a worker.

Pages are those of a rescoring here, and each is scored as if the others did not exist. One thing
goes from page to page: how often an agent's attempts ended the plugin's process. A page of an agent
of whom more is known by then is scored again here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tallymark.challenges.attempt import Attempt, Evaluation, Outcome
from tallymark.challenges.plugins import SandboxedPlugin
from tallymark.challenges.plugins.plugin_sources import PluginSources
from tallymark.challenges.rescore_plan import make_rescorer
from tallymark.sandbox import Policy, Sandbox
from tallymark.service.bulk_work import BulkTask, BulkWork, hash_work

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.rescore_plan import Page, Rescored, RescorePlan
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.sandbox.plugins.plugin_files import PluginCode
    from tallymark.store import Store

Deaths = tuple[int, str]
"""Number of process crashes of an agent's attempts, and the last crash."""
AttemptItem = tuple[Attempt, Evaluation, Deaths | None]
RescoredItem = tuple[Evaluation, Outcome, Deaths | None]


@dataclass(frozen=True)
class PluginRescoring(BulkTask[AttemptItem, RescoredItem]):
    """A challenge, and the plugin with its files."""

    results = list[RescoredItem]
    challenge: Challenge
    tenant: str
    code: PluginCode
    files: Mapping[str, bytes]
    policy: Policy | None
    """None for what the worker's machine offers."""

    @contextmanager
    def prepare(self) -> Iterator[Callable[[list[AttemptItem]], list[RescoredItem]]]:
        """Lays the files out, and opens a sandbox."""
        sources = PluginSources(self.code.module, {}, dict(self.files))
        with Sandbox(self.policy) as sandbox:
            plugin = SandboxedPlugin(replace(self.code, root=sources.copy_files()), sandbox)
            yield lambda page: self._rescore(plugin, page)

    def _rescore(self, plugin: SandboxedPlugin, page: list[AttemptItem]) -> list[RescoredItem]:
        mine = plugin.copy({attempt.agent: known for attempt, _, known in page if known})
        pairs = [(attempt, evaluation) for attempt, evaluation, _ in page]
        rescored = make_rescorer(self.challenge, mine, tenant=self.tenant)(pairs)
        return [
            (*each, mine.deaths.get(attempt.agent))
            for (attempt, _), each in zip(pairs, rescored, strict=True)
        ]


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
    """The plan with attempts scored by workers.

    Results can be cached for a while: a preview is mostly followed by its application.
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
    with store.open_checkpoint(name) as kept, choice.open() as engine:

        def rescore(pages: Iterable[Page]) -> Iterator[tuple[Page, list[Rescored]]]:
            before = dict(plugin.deaths)
            blocks = (
                (page, [(*each, before.get(each[0].agent)) for each in page]) for page in pages
            )
            with closing(BulkWork(engine, kept).do(work, blocks)) as results:
                for page, found in results:
                    agents = [attempt.agent for attempt, _ in page]
                    if any(plugin.deaths.get(agent) != before.get(agent) for agent in agents):
                        yield page, plan.rescorer(page)
                        continue
                    ends = zip(agents, (deaths for *_, deaths in found), strict=True)
                    plugin.deaths |= {agent: deaths for agent, deaths in ends if deaths}
                    yield page, [(evaluation, outcome) for evaluation, outcome, _ in found]

        yield replace(plan, rescore_pages=rescore)
        if not keep:
            kept.clear()
