"""Looks at some samples of each candidate: a candidate whose workers deliver other samples must not be recommended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nws_sweep import sample_comparison
from nws_sweep.errors import WrongSamples
from nws_sweep.records import DatasetFacts, LoaderSettings, SampleMade, SamplesLogged
from nws_sweep.sample_comparison import Parts
from nws_sweep.surroundings import TrialArm

# Samples that are loaded without workers for the comparison: two of each candidate, as long as this share of the time
# that the candidate has taken is not exceeded; more only where something differs.
_NEW_SAMPLES, _SHARE = 2, 0.01
# Samples of an iterable dataset that are loaded without workers, to see whether samples are random.
_FIRST_SAMPLES = 4
# Where workers seem to deliver the same samples, an epoch without workers and one with them are counted, as far as so
# many samples and s go. Workers that make batches by themselves end with shorter ones, so that there are a few more.
_MOST_COUNTED, _COUNT_S, _LONGER = 10_000, 5.0, 1.5

# Has a process that holds the dataset, and is not measured, answer a question; gives None if it cannot.
Ask = Callable[[Callable[[TrialArm], Any]], Any]
REMEDY = "open files and connections in each worker, on first use or in worker_init_fn"
HOW_TO_SHARD = (
    "the iterable dataset does not share its samples among its workers: its __iter__ must take every num_workers-th "
    "sample from number id on (torch.utils.data.get_worker_info)"
)

_UNTOLD = (
    "whether the workers share the samples of the iterable dataset cannot be seen by the first ones, which are random; "
    "check_samples=true counts those of a whole epoch"
)


class SampleWatch:
    """The samples of one search: those without workers, and what is known to be random in them."""

    def __init__(self) -> None:
        self._reference: dict[int | str, Parts] = {}
        self._varying: frozenset[int] = frozenset()
        self._comparable = False

    def check(
        self, logged: SamplesLogged, settings: LoaderSettings, facts: DatasetFacts, spent_s: float, ask: Ask
    ) -> str:
        """Compares the samples that a candidate's workers made; a warning if they cannot be compared, else empty.

        Args:
            logged: The samples, and the files that the workers share.
            settings: The candidate.
            facts: What the dataset says of itself.
            spent_s: Seconds that the candidate has taken.
            ask: Has a process without workers answer, which holds the dataset; None if it cannot.

        Raises:
            WrongSamples: If they are others than without workers.
        """
        if logged.moved_files and settings.num_workers > 1:
            raise WrongSamples(
                f"the workers read {', '.join(logged.moved_files)} through one open file, whose position all of them "
                f"move, so that samples are wrong: {REMEDY}"
            )
        if facts.iterable:
            return self._check_streams(logged.samples, settings, ask)
        samples = sample_comparison.candidates(logged.samples)
        self._load(samples[:_NEW_SAMPLES], _SHARE * spent_s, ask)
        known = [sample for sample in samples if sample.key in self._reference][: sample_comparison.MOST_COMPARED]
        if any(self._differs(sample) for sample in known):
            self._look_closer(samples[: sample_comparison.MOST_COMPARED], settings, facts, ask)
        return ""

    def _differs(self, sample: SampleMade) -> bool:
        return bool(sample_comparison.differing(sample, self._reference) - self._varying)

    def _load(self, samples: Sequence[SampleMade], limit_s: float | None, ask: Ask) -> None:
        """Loads those of the samples without workers that were not loaded yet."""
        keys = list(dict.fromkeys(sample.key for sample in samples if sample.key not in self._reference))
        if keys:
            loaded = ask(lambda arm: arm.load(keys, limit_s)) or ()
            self._reference.update({sample.key: sample.parts for sample in loaded})

    def _look_closer(
        self, samples: Sequence[SampleMade], settings: LoaderSettings, facts: DatasetFacts, ask: Ask
    ) -> None:
        self._load(samples, None, ask)
        first = [sample for sample in samples if sample.key in self._reference]
        again = ask(lambda arm: arm.load_in_turn(first, settings))
        if again is None or len(again) < len(first):
            return
        wrong = sample_comparison.wrong(first, again, self._reference, shares_handles=bool(facts.handles))
        if wrong:
            shared = f"; forked workers share {', '.join(facts.handles)}" if facts.handles else ""
            raise WrongSamples(
                f"{wrong} of {len(first)} compared samples differ from those loaded without workers{shared}: {REMEDY}"
            )
        self._varying |= sample_comparison.varying(again, self._reference)

    def _check_streams(self, made: Sequence[SampleMade], settings: LoaderSettings, ask: Ask) -> str:
        repeated, looked_at = sample_comparison.repeated(made)
        if repeated and self._is_longer(settings, ask):
            raise WrongSamples(
                f"{repeated} of the first {looked_at} samples were delivered by another worker too: {HOW_TO_SHARD}"
            )
        if settings.num_workers == 1 or self._comparable:
            return ""
        alone = ask(lambda arm: arm.load(range(_FIRST_SAMPLES), None)) or ()
        self._comparable = sample_comparison.are_comparable(alone, made)
        return "" if self._comparable else _UNTOLD

    @staticmethod
    def _is_longer(settings: LoaderSettings, ask: Ask) -> bool:
        """Whether an epoch is longer than without workers, as far as can be seen: different samples may be equal."""
        alone = ask(lambda arm: arm.samples(replace(settings, num_workers=0).canonical(), _MOST_COUNTED, _COUNT_S))
        if alone is None or not alone.complete:
            return True
        most = round(_LONGER * len(alone.digests))
        shared = ask(lambda arm: arm.samples(settings, most, _COUNT_S))
        return shared is None or len(shared.digests) >= most or not shared.complete


def about_handles(facts: DatasetFacts) -> str:
    """A line about open files and the like that forked workers share."""
    return f"forked workers share {', '.join(facts.handles)}: {REMEDY}"
