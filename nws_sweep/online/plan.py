"""Planned changes of settings. The ranks of distributed training change at the same
batch, as rank 0 decides.

Rank 0 writes each plan into the key-value store that torch.distributed has set up for
its process group; the other ranks read it. No rank waits for another one: one that
reads a plan late follows it late.
"""

import collections
from dataclasses import dataclass
from typing import Any

import msgspec
from torch import distributed
from torch.utils.data import DataLoader, DistributedSampler

from nws_sweep.dataloading import loaders
from nws_sweep.records import LoaderSettings
from nws_sweep.system import torch_internals

_PUBLISHED = "published"  # key of the number of plans
# agreements of this process by what their loaders are
_made: collections.Counter[str] = collections.Counter()


@dataclass(frozen=True, slots=True)
class Plan:
    """Other settings, why, and from which batch of which epoch they may be used; both
    from 0.

    A plan with the settings in use ends the tuning.
    """

    settings: LoaderSettings
    reason: str
    epoch: int = 0
    batch: int = 0


class Agreement:
    """The plans for one loader; there must be a process group.

    Args:
        what: Identifies the loader in all ranks; loaders with the same value are made
            in the same order in each rank.
    """

    def __init__(self, what: str) -> None:
        _made[what] += 1
        prefix = f"nws_sweep/{what}/{_made[what]}"
        store = torch_internals.default_store()
        self._store: Any = distributed.distributed_c10d.PrefixStore(prefix, store)
        self._count = 0
        self.leads = distributed.get_rank() == 0

    def publish(self, plan: Plan) -> None:
        """Called by rank 0."""
        self._store.set(str(self._count), msgspec.json.encode(plan).decode())
        self._store.add(_PUBLISHED, 1)
        self._count += 1

    def next(self) -> Plan | None:
        """The next plan of rank 0; None if there is none yet. Called by the other
        ranks."""
        if self._store.add(_PUBLISHED, 0) <= self._count:  # torch 2.2 has no ``check``
            return None
        self._count += 1
        return msgspec.json.decode(self._store.get(str(self._count - 1)), type=Plan)


def kind_of(loader: DataLoader[Any]) -> str:
    """Identifies a loader, equally in all ranks: without what depends on the share of a
    rank, such as a length."""
    sampler = loaders.index_sampler(loader)
    inner = getattr(sampler, "sampler", sampler)
    # all ranks have the whole dataset
    is_shared = isinstance(inner, DistributedSampler)
    names = []
    kinds = map(type, (loader, loader.dataset, sampler, inner))
    for part in (*kinds, loader.collate_fn):
        name = getattr(part, "__qualname__", type(part).__qualname__)
        names.append(f"{part.__module__}.{name}")
    length = loaders.length(loader.dataset) if is_shared else None
    shuffle, settings = getattr(inner, "shuffle", None), loaders.settings_of(loader)
    return "/".join(map(str, [*names, shuffle, length, settings]))
