"""Hugging Face transformers: a callback whose trainer tunes the DataLoader of its training."""

from typing import Any

from transformers import TrainerCallback

from nws_sweep.programs.hooks import TrainerHook


class AutoTune(TrainerCallback):
    """Tunes num_workers of the training's DataLoader in the first epoch, as :func:`nws_sweep.autotune` does.

    ``Trainer(..., callbacks=[AutoTune()])``. DataLoaders of evaluation stay as they are.

    Args:
        options: ``max_workers``, ``settings``, ``reuse`` and ``progress`` as for :func:`nws_sweep.autotune`; and
            ``loader`` for another DataLoader, its number in the order of first iterations or its dataset's class.
    """

    def __init__(self, **options: Any) -> None:
        self._hook = TrainerHook(options)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begins."""
        self._hook.begin()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends. After an exception, the next training ends it."""
        self._hook.end()
