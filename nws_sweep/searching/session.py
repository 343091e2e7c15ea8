"""A search with what surrounds it: results of earlier searches, and the lock of the
machine."""

from collections.abc import Callable
from dataclasses import dataclass

from nws_sweep.records import SearchRecord
from nws_sweep.records.result_cache import ResultStore
from nws_sweep.searching import earlier_results
from nws_sweep.system import host_lock

# goes on from a record, and returns the record of the search
Measure = Callable[[SearchRecord], SearchRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Measures one search at a time on this machine, and none whose result is stored.

    Attributes:
        store: Results of earlier searches; None if the data have nothing by which to
            recognize them.
        reuse: Which of the results are answers; see ``ResultStore.find``.
        lock_file: Held while a search measures; None for no lock.
        working_folder: Where relative paths of the dataset begin; empty if it has none.
        has_same_data: Whether a stored result is of the samples and the code of this
            search.
    """

    store: ResultStore | None
    reuse: str
    lock_file: str | None
    working_folder: str = ""
    has_same_data: Callable[[SearchRecord], bool] = lambda stored: True

    def run(
        self,
        start: SearchRecord,
        measure: Measure,
        on_wait: host_lock.Say,
        warn: host_lock.Say,
    ) -> tuple[SearchRecord, bool]:
        """Measures, unless the result is stored; returns the record, and whether an
        earlier search has stored it.

        A search goes on where an equal one was ended. For ``on_wait`` and ``warn`` see
        ``host_lock.held``.
        """
        stored = self._continued(start)
        if stored.is_final:
            return stored, True
        with host_lock.held(self.lock_file, on_wait, warn):
            # Another process may have finished the same search meanwhile, such as a
            # rank without a process group.
            stored = self._continued(start)
            if stored.is_final:
                return stored, True
            record = measure(stored)
            # before the next search has the lock, which may be the same
            self.keep(record)
        return record, False

    def keep(self, record: SearchRecord) -> None:
        """Stores a record for later searches."""
        if self.store is not None:
            self.store.add(record, self.working_folder)

    def _continued(self, start: SearchRecord) -> SearchRecord:
        """Finds the final result of an equal search; else adds to the start what an
        equal search measured."""
        if self.store is None:
            return start
        stored = self.store.find(
            start.configuration, start.host, self.reuse, self.working_folder
        )
        if stored is None or not self.has_same_data(stored):
            return start
        return stored if stored.is_final else earlier_results.continued(start, stored)
