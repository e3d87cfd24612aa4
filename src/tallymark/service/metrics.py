"""Metrics of a server for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tallymark.instrumentation import WatchedWork

_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_ABOVE = ("/api/v1", "/api")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Gauge(NamedTuple):
    """Gauges computed when scraped, by label values."""

    name: str
    words: str
    labels: tuple[str, ...]
    values: Mapping[Any, float]


def name_route(scope: Mapping[str, Any]) -> str:
    """The route that a request took, with the names of its parts and none of their values."""
    route: str | None = getattr(scope.get("route"), "path", None)
    if route is None:
        return "unknown"
    # A route of the API does not know below what it was included, and pages have the same names.
    path = scope["path"]
    above = next((each for each in _ABOVE if path.startswith(f"{each}/")), "")
    return route if route.startswith(above) else above + route


class Metrics:
    """The numbers of one server process; nothing is shared between two in one interpreter."""

    def __init__(self) -> None:
        # Part of the extra `server`; the client imports this module through the service.
        from prometheus_client import (  # noqa: PLC0415
            CollectorRegistry,
            Counter,
            Histogram,
            ProcessCollector,
        )

        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        names = ("method", "route", "status")
        self._requests = Counter(
            "tally_requests", "Requests that were answered.", names, registry=self._registry
        )
        self._seconds = Histogram(
            "tally_request_seconds",
            "How long requests took.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._batches = Histogram(
            "tally_batch_size",
            "How many things were done at once.",
            ("thread",),
            buckets=_SIZES,
            registry=self._registry,
        )
        self._sandbox = Counter(
            "tally_sandbox_calls",
            "Calls of the sandbox, by what was called and how it ended.",
            ("kind", "outcome"),
            registry=self._registry,
        )
        self._jobs = Counter(
            "tally_jobs_done",
            "Jobs that were done here, by how they ended.",
            ("kind", "outcome"),
            registry=self._registry,
        )
        # Looking up a counter by its labels costs as much as a quarter of a small request.
        self._known: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def note_request(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        """Counts a request that was answered."""
        route = name_route(scope)
        key = (scope["method"], route, status)
        found = self._known.get(key)
        if found is None:
            method = scope["method"] if route != "unknown" else "ANY"
            found = (
                self._requests.labels(method, route, str(status)),
                self._seconds.labels(route),
            )
            if len(self._known) < 10_000:
                self._known[key] = found
        found[0].inc()
        found[1].observe(seconds)

    @contextmanager
    def watch_work(self, work: WatchedWork) -> Iterator[None]:
        """Counts work that is watched, when it has ended."""
        if work.name == "batch":
            self._batches.labels(work.facts["thread"]).observe(len(work.facts["items"]))
        try:
            yield
        finally:
            counter = {"sandbox": self._sandbox, "job": self._jobs}.get(work.name)
            for outcome, count in work.outcomes.items() if counter is not None else ():
                counter.labels(work.facts["kind"], outcome).inc(count)  # type: ignore[union-attr]

    def watch(self, read: Callable[[], Iterable[Gauge]]) -> None:
        """Add gauges that are computed when scraped."""
        self._registry.register(_Watched(read))

    def render(self) -> bytes:
        """All of them, as Prometheus reads them."""
        from prometheus_client import generate_latest  # noqa: PLC0415 (as above)

        return generate_latest(self._registry)


class _Watched:
    """A collector: the registry asks for nothing but `collect`."""

    def __init__(self, read: Callable[[], Iterable[Gauge]]) -> None:
        self._read = read

    def describe(self) -> Iterable[Any]:
        return ()  # or the registry would read them all to learn their names

    def collect(self) -> Any:
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 (as above)

        for name, words, labels, values in self._read():
            family = GaugeMetricFamily(name, words, labels=labels)
            for of, value in values.items():
                family.add_metric(of, value)
            yield family
