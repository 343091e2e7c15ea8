"""Hugging Face transformers: a callback whose trainer tunes the DataLoader of its training."""

from typing import Any

from transformers import TrainerCallback

from nws_sweep.programs.hooks import TuningHook


class AutoTune(TrainerCallback):
    """Tunes num_workers of the training's DataLoader in the first epoch, as :func:`nws_sweep.autotune` does.

    ``Trainer(..., callbacks=[AutoTune()])``. DataLoaders of evaluation stay as they are.

    Args:
        options: Keywords of :func:`nws_sweep.autotune`.
    """

    def __init__(self, **options: Any) -> None:
        TuningHook.of_trainer(options)  # refuses wrong options now
        self._options = options
        self._hook: TuningHook | None = None  # made when the training begins: trainers pickle callbacks

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begins."""
        self._hook = TuningHook.of_trainer(self._options)
        self._hook.start()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Ends."""
        if self._hook is not None:
            self._hook.end("the training")
            self._hook = None
