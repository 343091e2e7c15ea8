"""Hugging Face transformers: a callback whose trainer tunes the DataLoader of its training."""

from transformers import TrainerCallback

from nws_sweep.programs.hooks import TrainerHook


class AutoTune(TrainerHook, TrainerCallback):
    """Tunes num_workers of the training's DataLoader in the first epoch, as :func:`nws_sweep.autotune` does.

    ``Trainer(..., callbacks=[AutoTune()])``. DataLoaders of evaluation stay as they are.

    Args:
        options: ``max_workers``, ``settings``, ``reuse``, ``once`` and ``progress`` as for
            :func:`nws_sweep.autotune`; and ``loader`` for another DataLoader, its number in the order of first
            iterations or its dataset's class.
    """

    on_train_begin = TrainerHook.begin
    on_train_end = TrainerHook.end  # after an exception, the next training ends it
