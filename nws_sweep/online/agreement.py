"""The ranks of a distributed training change their settings at the same batch, as rank 0 decides.

Rank 0 writes each plan into the key-value store that torch.distributed has set up for its process group; the other
ranks read it. No rank waits for another one: one that reads a plan late follows it late.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from typing import Any

import msgspec
from torch import distributed

from nws_sweep.online.plan import Plan
from nws_sweep.system.torch_internals import default_store

_PUBLISHED = "published"  # key of the number of plans
_numbers = itertools.count(1)  # of the loaders with an agreement in this process


class Agreement:
    """The plans for one loader, which all ranks make in the same order; there must be a process group."""

    def __init__(self) -> None:
        self._store: Any = distributed.distributed_c10d.PrefixStore(f"nws_sweep/{next(_numbers)}", default_store())
        self._count = 0
        self.leads = distributed.get_rank() == 0

    def publish(self, plan: Plan) -> None:
        """Called by rank 0."""
        self._store.set(str(self._count), json.dumps(asdict(plan)))
        self._store.add(_PUBLISHED, 1)
        self._count += 1

    def next(self) -> Plan | None:
        """The next plan of rank 0; None if there is none yet. Called by the other ranks."""
        if self._store.add(_PUBLISHED, 0) <= self._count:
            return None
        text = self._store.get(str(self._count))
        self._count += 1
        return msgspec.convert(json.loads(text), Plan)


def make() -> Agreement | None:
    """An agreement if this process is one of several ranks."""
    if not (distributed.is_available() and distributed.is_initialized()) or distributed.get_world_size() == 1:
        return None
    return Agreement()
