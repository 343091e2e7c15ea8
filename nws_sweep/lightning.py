"""Lightning: a callback that tunes the training DataLoader of its trainer."""

try:
    from lightning.pytorch import Callback
except ModuleNotFoundError:
    from pytorch_lightning import Callback  # type: ignore[assignment] # its earlier name

from nws_sweep.programs.tuning_hook import TrainerHook


class AutoTune(TrainerHook, Callback):
    """Tunes num_workers of the training DataLoader in the first epoch, as
    :func:`nws_sweep.autotune` does.

    ``Trainer(callbacks=[AutoTune()])``. Validation DataLoaders are not changed.

    Args:
        options: ``max_workers``, ``settings``, ``reuse``, ``once`` and ``progress`` as
            for :func:`nws_sweep.autotune`; and ``loader`` for another DataLoader, its
            number in the order of first iterations or its dataset's class.
    """

    on_fit_start = TrainerHook.begin
    teardown = TrainerHook.end
    on_exception = TrainerHook.end  # Lightning does not call ``teardown`` then
