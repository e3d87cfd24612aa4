"""Keys and operations of callers, for tests."""

from __future__ import annotations

from typing import Any

from tallymark.service.callers import Caller
from tallymark.service.keys import Keys
from tallymark.service.resources import Resources
from tallymark.service.service import Service


def act(service: Service, caller: Caller, tenant: str | None = None) -> Resources:
    """Call operations as somebody, in their own tenant unless another is named."""
    return Resources(service.tenant(tenant or caller.tenant), caller)


def make_key(service: Service, role: Any, tenant: str = "default", **fields: Any) -> str:
    """Make a key as the owner of the store."""
    return str(Keys(service.tenant(tenant)).add("ci", role, **fields).secret)
