"""``explain``: which functions make a sample expensive, by a search."""

from typing import Any

from nws_sweep.api.request import TrainingStep
from nws_sweep.api.searching import search
from nws_sweep.config.python_notation import explained, require_arguments
from nws_sweep.report import explanation
from nws_sweep.report.explanation import Explanation
from nws_sweep.report.search_result import SearchResult


@explained
def explain(
    loader: Any, training_step: TrainingStep = None, **arguments: Any
) -> Explanation:
    """Says which functions make a sample expensive, and what the epoch would take if
    one of them took no time.

    Some calls of the first workers are timed while a search measures; nothing of the
    dataset is changed.

    Args:
        loader: A DataLoader, a dataset or a function that makes one, as for ``search``;
            or what ``search`` returned.
        training_step: As for ``search``.
        **arguments: Those of ``search``.

    Returns:
        The stages of a sample, the most expensive first; ``print`` shows a table.

    Raises:
        NwsSweepError: If no calls were timed: no candidate has workers, or another tool
            profiles them.

    Example:
        >>> import torch, nws_sweep
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> loader = DataLoader(TensorDataset(torch.arange(512.0)), batch_size=64)
        >>> explanation = nws_sweep.explain(loader, num_workers=[1])
        >>> explanation.stages[0].share > 0
        True
    """
    require_arguments("explain", arguments, search)
    if isinstance(loader, SearchResult):
        return explanation.of_record(loader.record)
    result = search(loader, training_step=training_step, **arguments)
    return explanation.of_record(result.record)
