"""Kinds of nodes: measurements on one kind say nothing about another. Pure.

If the results of a folder come from several kinds, the kind becomes an identifying column of their configurations.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nws_sweep.results import VERSIONS, Host, SearchRecord

COLUMN = "node"
# Parts of CPU names that carry no information.
_DECORATION = re.compile(r"\((?:R|TM|C)\)|\b(?:CPU|Processor|\d+-Core)\b|@.*|\bwith .*", re.IGNORECASE)


def kind_of(host: Host, accelerator: str | None = None) -> str:
    """A short name that nodes of one kind share, such as ``Xeon-Platinum-8488C_8-CPUs_62-GiB_cuda``."""
    model = "-".join(_DECORATION.sub(" ", host.cpu_model).split()).removeprefix("Intel-").removeprefix("AMD-")
    gib = host.memory_bytes / 2**30  # two digits: usable memory differs a little between equal nodes
    memory = f"{round(gib, 2 - len(str(int(gib)))):.0f}-GiB" if gib >= 1 else ""
    cpus = f"{host.usable_cpus}-CPU{'s' if host.usable_cpus != 1 else ''}"
    return "_".join(filter(None, [model, cpus, memory, accelerator]))


def kind(result: SearchRecord) -> str | None:
    """The kind of node on which a search was measured; None if nothing was measured."""
    if not result.trials:  # the host of a lost job is unknown
        return None
    return kind_of(result.host, result.facts.accelerator if result.facts else None)


def named(results: Sequence[SearchRecord]) -> list[SearchRecord]:
    """The same results, with the kind as a column if there are several kinds and the name is free."""
    kinds = [kind(result) for result in results]
    taken = any(COLUMN in result.configuration.columns for result in results)
    if taken or len({one for one in kinds if one}) < 2:
        return list(results)
    return [_with_column(result, one) if one else result for result, one in zip(results, kinds, strict=True)]


def _with_column(result: SearchRecord, node: str) -> SearchRecord:
    columns = {**result.configuration.columns, COLUMN: node}
    return replace(result, configuration=replace(result.configuration, columns=columns))


def versions_differ(results: Iterable[SearchRecord]) -> bool:
    """Whether results from one kind of node have different systems or versions, so that they are not comparable."""
    facts = operator.attrgetter("platform", "cpu_count", *VERSIONS)
    versions = {(kind(result), facts(result.host)) for result in results if kind(result)}
    return len(versions) > len({node for node, _ in versions})
