"""Lightning: a callback whose trainer tunes the DataLoader of its training."""

from typing import Any

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError:
    from pytorch_lightning import Callback  # type: ignore[assignment] # its earlier name

from nws_sweep.programs.hooks import TrainerHook


class AutoTune(Callback):
    """Tunes num_workers of the training's DataLoader in the first epoch, as :func:`nws_sweep.autotune` does.

    ``Trainer(callbacks=[AutoTune()])``. DataLoaders of validation stay as they are.

    Args:
        options: ``max_workers``, ``settings``, ``reuse`` and ``progress`` as for :func:`nws_sweep.autotune`; and
            ``loader`` for another DataLoader, its number in the order of first iterations or its dataset's class.
    """

    def __init__(self, **options: Any) -> None:
        self._hook = TrainerHook(options)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Begins."""
        self._hook.begin()

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Ends."""
        self._hook.end()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Ends; Lightning does not call ``teardown`` then."""
        self._hook.end()
