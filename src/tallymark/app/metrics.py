"""What a server counts of itself, for Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The numbers of one server process; nothing is shared between two in one interpreter."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
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
        # Looking up a counter by its labels costs as much as a quarter of a small request.
        self._known: dict[tuple[str, str, int], tuple[Any, Any]] = {}

    def note_request(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        """Counts a request that was answered."""
        route = getattr(scope.get("route"), "path", "unknown")
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

    def watch(self, name: str, words: str, read: Callable[[], Mapping[str, float]]) -> None:
        """A number that is read when it is asked for, by one label."""
        self._registry.register(_Watched(name, words, read))

    def render(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self._registry)


class _Watched(Collector):
    def __init__(self, name: str, words: str, read: Callable[[], Mapping[str, float]]) -> None:
        self._name, self._words, self._read = name, words, read

    def collect(self) -> Any:
        family = GaugeMetricFamily(self._name, self._words, labels=["kind"])
        for label, value in self._read().items():
            family.add_metric([label], value)
        yield family
