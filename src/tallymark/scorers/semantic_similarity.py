"""`semantic_similarity`: how near the output's meaning is to a reference, offline unless asked."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tallymark.errors import ScorerError, WorkFailed
from tallymark.installation import explain_install
from tallymark.scorers.expectations import read_expected_texts
from tallymark.scorers.json_post import post_json
from tallymark.scoring import EvalContext, Score, configurable
from tallymark.scoring.score import make_json_safe
from tallymark.scoring.scorer_options import check_seconds, check_url, read_api_key
from tallymark.text import format_value

_NAME = "semantic_similarity"
_load_lock = threading.Lock()  # `cache` alone would let threads load the weights twice


@configurable
def semantic_similarity(
    reference: str | None = None,
    model: str | None = None,
    model_name: str | None = None,
    api_key_env: str | None = None,
    timeout: float = 30.0,
) -> Callable[[EvalContext], Score | Awaitable[Score]]:
    """max(0, cosine) between the embeddings of the output and of `reference` or expected.output.

    The embeddings are wordllama's, made here without any network: the meanings of the words,
    averaged, so near in topic, blind to word order and negation, and best in English. Otherwise
    `model` is the address of an OpenAI-compatible embeddings API (`https://.../v1/embeddings`),
    `model_name` the model it serves and `api_key_env` the environment variable with its key.
    """
    if model is None:
        if model_name or api_key_env:
            raise ScorerError(f"{_NAME}: model_name and api_key_env go with `model`, an address")
        if find_spec("wordllama") is None:
            raise ScorerError(
                f"{_NAME}: comparing meanings on this machine needs wordllama",
                hint=explain_install("tallymark[semantic]"),
            )
        return lambda ctx: _score_offline(ctx, reference)
    check_url(model, _NAME)
    check_seconds(timeout, _NAME)
    if model_name is None:
        raise ScorerError(f"{_NAME}: `model` is an address, so `model_name` is needed too")
    key = read_api_key(api_key_env, _NAME)

    async def remote(ctx: EvalContext) -> Score:
        texts = _choose_texts(ctx, reference)
        if isinstance(texts, Score):
            return texts
        try:
            body = {"model": model_name, "input": texts}
            return _read_answer(await post_json(model, body, seconds=timeout, key=key))
        except WorkFailed as error:
            return Score.failed(f"{_NAME}: {error}")

    return remote


def _choose_texts(ctx: EvalContext, reference: str | None) -> list[str] | Score:
    """The output and what to compare it with, or the score where no embedding is needed for it."""
    wanted = read_expected_texts(ctx, _NAME) if reference is None else [reference]
    if isinstance(wanted, Score):
        return wanted
    if ctx.output_text in wanted:
        return Score(1.0, "The output equals the reference")
    if not ctx.output_text.strip():
        return Score(0.0, "Empty output")
    texts = (ctx.output_text, *wanted)
    return [make_json_safe(text) for text in texts]  # half surrogate pairs have no tokens


def _score_offline(ctx: EvalContext, reference: str | None) -> Score:
    texts = _choose_texts(ctx, reference)
    if isinstance(texts, Score):
        return texts
    try:
        with _load_lock:
            embedder = _load_embedder()
    except (ImportError, OSError) as error:
        return Score.failed(
            f"{_NAME}: the weights of wordllama cannot be loaded ({error}); install it again"
        )
    # Not `embedder.similarity`, which is slower and starts the tokenizer's own threads.
    tokens = (embedder.tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
    return _similarity(embedder.embedding[ids].sum(axis=0) for ids in tokens)


@cache
def _load_embedder() -> Any:
    """The model whose weights are in wordllama's own package, loaded once, never downloaded."""
    root = logging.getLogger()
    guard = logging.NullHandler()
    root.addHandler(
        guard
    )  # wordllama configures the program's logging unless it is configured already
    try:
        wordllama = import_module("wordllama")
    finally:
        root.removeHandler(guard)
    folder = Path(str(wordllama.__file__)).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


def _read_answer(answer: Any) -> Score:
    try:
        found = sorted(answer["data"], key=lambda each: each["index"])
        score = _similarity(each["embedding"] for each in found)
        tokens = answer.get("usage", {}).get("total_tokens")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WorkFailed(f"the service did not answer with two embeddings: {error!r}") from None
    return score if tokens is None else Score(score.value, score.reason, {"tokens": tokens})


def _similarity(vectors: Iterable[Any]) -> Score:
    import numpy as np  # noqa: PLC0415 (heavy)

    left, *others = (np.asarray(vector, dtype=np.float64) for vector in vectors)
    with np.errstate(all="ignore"):  # what overflows is refused below
        lengths = [float(np.linalg.norm(left) * np.linalg.norm(right)) for right in others]
        cosine = max(
            float(left @ right) / length if length else 0.0
            for right, length in zip(others, lengths, strict=True)
        )
    if not math.isfinite(cosine):
        raise ValueError("an embedding is not finite")
    value = min(1.0, max(0.0, cosine))
    return Score(value, f"Cosine similarity {format_value(value)}")
