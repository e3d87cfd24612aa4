"""Random logs: few names, so that agents and challenges meet again."""

from __future__ import annotations

from hypothesis import strategies as st

from tallymark.ratings import RESULTS, TIERS, Match, Pair

agents = st.sampled_from(["alice", "bob", "charlie", "dora"])
challenges = st.sampled_from(["maze", "audit", "heist"])
matches = st.builds(
    Match,
    agents,
    challenges,
    st.sampled_from(sorted(TIERS)),
    st.sampled_from(sorted(RESULTS)),
    st.booleans(),
    st.booleans(),
)
logs = st.lists(matches, max_size=60)
counts = st.integers(0, 1000)
pairs = st.lists(st.builds(Pair, agents, challenges, counts, counts, counts), max_size=12)
