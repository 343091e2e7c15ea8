"""Lightning: a callback whose trainer tunes the DataLoader of its training."""

from typing import Any

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError:
    from pytorch_lightning import Callback  # type: ignore[assignment] # its earlier name

from nws_sweep.programs.hooks import TuningHook


class AutoTune(Callback):
    """Tunes num_workers of the training's DataLoader in the first epoch, as :func:`nws_sweep.autotune` does.

    ``Trainer(callbacks=[AutoTune()])``. DataLoaders of validation stay as they are.

    Args:
        options: Keywords of :func:`nws_sweep.autotune`.
    """

    def __init__(self, **options: Any) -> None:
        TuningHook.of_trainer(options)  # refuses wrong options now
        self._options = options
        self._hook: TuningHook | None = None  # made when the training begins: trainers pickle callbacks

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begins."""
        self._hook = TuningHook.of_trainer(self._options)
        self._hook.start()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Ends, also after an exception."""
        if self._hook is not None:
            self._hook.end("the training")
            self._hook = None
