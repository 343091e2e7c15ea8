"""Hugging Face transformers: a callback that tunes the training DataLoader of its
trainer."""

from transformers import TrainerCallback

from nws_sweep.programs.tuning_hook import TrainerHook


class AutoTune(TrainerHook, TrainerCallback):
    """Tunes num_workers of the training DataLoader in the first epoch, as
    :func:`nws_sweep.autotune` does.

    ``Trainer(..., callbacks=[AutoTune()])``. Evaluation DataLoaders are not changed.

    Args:
        options: ``max_workers``, ``settings``, ``reuse``, ``once`` and ``progress`` as
            for :func:`nws_sweep.autotune`; and ``loader`` for another DataLoader, its
            number in the order of first iterations or its dataset's class.
    """

    on_train_begin = TrainerHook.begin
    on_train_end = TrainerHook.end  # after an exception, the next training run ends it
