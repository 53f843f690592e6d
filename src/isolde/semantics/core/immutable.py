"""Classes of the core's nodes: the type checker lets nobody change one, and running code does not pay for the same check.

A frozen dataclass sets each field through ``object.__setattr__``, which takes several times as long as a plain assignment: a
twelfth of the time in which a statement is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as node
else:

    def node(*, frozen: bool, slots: bool) -> Any:
        """``dataclass``, frozen only for the type checker; equal nodes have one hash, as frozen ones have."""
        return dataclass(slots=slots, unsafe_hash=frozen)


__all__ = ["node"]
