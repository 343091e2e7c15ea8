"""Kinds of nodes: measurements on one kind say nothing about another. Pure.

If the results of a folder come from several kinds, the kind becomes an identifying column of their configurations.
"""

import re
from dataclasses import replace

from nws_sweep.results import SearchRecord
from nws_sweep.results.storage import Stored, StoredRun

COLUMN = "node"
# Parts of CPU names that carry no information.
_DECORATION = re.compile(r"\((?:R|TM|C)\)|\b(?:CPU|Processor|\d+-Core)\b|@.*|\bwith .*", re.IGNORECASE)


def kind(result: SearchRecord) -> str | None:
    """A short name of the kind of node, such as ``Xeon-Platinum-8488C_8-CPUs_62-GiB_cuda``; None if not measured."""
    if not result.trials:  # the host of a lost job is unknown
        return None
    host, accelerator = result.host, result.facts.accelerator if result.facts else None
    model = "-".join(_DECORATION.sub(" ", host.cpu_model).split()).removeprefix("Intel-").removeprefix("AMD-")
    gib = host.memory_bytes / 2**30  # two digits: usable memory differs a little between equal nodes
    memory = f"{round(gib, 2 - len(str(int(gib)))):.0f}-GiB" if gib >= 1 else ""
    cpus = f"{host.usable_cpus}-CPU{'s' if host.usable_cpus != 1 else ''}"
    return "_".join(filter(None, [model, cpus, memory, accelerator]))


def named(stored: Stored) -> Stored:
    """The same results, with the kind as a column if there are several kinds and the name is free."""
    kinds = {kind(run.result) for run in stored.runs} - {None}
    taken = any(COLUMN in run.result.configuration.columns for run in stored.runs)
    return stored if taken or len(kinds) < 2 else replace(stored, runs=tuple(map(_with_column, stored.runs)))


def _with_column(run: StoredRun) -> StoredRun:
    configuration, node = run.result.configuration, kind(run.result)
    columns = {**configuration.columns, **({COLUMN: node} if node else {})}
    return replace(run, result=replace(run.result, configuration=replace(configuration, columns=columns)))
