"""`/vars` and `/secrets`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response

from tallymark.http.access import ORGANISERS, TEAM, Services, may
from tallymark.http.answers import ValidateOnly, answer
from tallymark.http.api_route import make_router
from tallymark.wire import accounts as wire

router = make_router("settings")
Name = Annotated[str, Path(max_length=200)]


@router.get("/vars", response_model=wire.Variables, dependencies=[may(TEAM)])
def list_vars(services: Services) -> Response:
    """Variables that suites use."""
    return answer({"vars": services.store.vars()})


@router.put("/vars/{name}", response_model=wire.Variables, dependencies=[may(ORGANISERS, "write")])
def set_var(
    name: Name, body: wire.Variable, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Set a variable."""
    services.store.set_var(name, body.value)
    return answer({"vars": services.store.vars()})


@router.delete(
    "/vars/{name}", response_model=wire.Variables, dependencies=[may(ORGANISERS, "write")]
)
def delete_var(name: Name, services: Services) -> Response:
    """Remove a variable."""
    services.store.delete_var(name)
    return answer({"vars": services.store.vars()})


@router.get("/secrets", response_model=wire.SecretNames, dependencies=[may(ORGANISERS)])
def list_secrets(services: Services) -> Response:
    """The names of secrets; no route gives a value."""
    return answer({"secrets": services.store.secret_names()})


@router.put(
    "/secrets/{name}", response_model=wire.SecretNames, dependencies=[may(ORGANISERS, "write")]
)
def set_secret(
    name: Name, body: wire.Secret, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Set a secret, which is encrypted before it is kept."""
    services.store.set_secret(name, body.value)
    return answer({"secrets": services.store.secret_names()})


@router.delete(
    "/secrets/{name}", response_model=wire.SecretNames, dependencies=[may(ORGANISERS, "write")]
)
def delete_secret(name: Name, services: Services) -> Response:
    """Remove a secret."""
    services.store.delete_secret(name)
    return answer({"secrets": services.store.secret_names()})
