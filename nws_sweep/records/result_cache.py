"""Cache of results on this machine: an equal search need not be repeated.

Each result is a file named after the search and the machine, with the costs of its
batches beside it; a newer result of the same search replaces both.
"""

import contextlib
import hashlib
import json
import os
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from nws_sweep.records import atomic, codec
from nws_sweep.records.search_record import MACHINE, Host, SearchRecord
from nws_sweep.records.settings import Configuration

FRESH_FOR = timedelta(days=30)


def usual_folder() -> Path:
    """This user's cache folder, unless another one is configured."""
    usual = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return atomic.expand_user(
        os.environ.get("NWS_SWEEP_CACHE_DIR") or f"{usual}/nws_sweep"
    )


class ResultStore:
    """Results in a folder of this user's cache folder, or of another one; the first
    result creates the folder."""

    def __init__(self, cache_dir: str | None = None) -> None:
        cache = atomic.expand_user(cache_dir) if cache_dir else usual_folder()
        self._folder = cache / "results"

    def add(self, record: SearchRecord, working_folder: str = "") -> None:
        """Stores a search that has ended with a verdict, final or not, or was
        interrupted after a candidate had a time.

        For ``working_folder`` see ``find``.
        """
        has_verdict = record.complete and record.verdict is not None
        was_interrupted = not (record.stop_reason or record.error)
        has_time = any(trial.objective_s is not None for trial in record.results)
        if not (has_verdict or (was_interrupted and has_time)):
            return
        # no home folder, a full disk: the search itself succeeded
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._path(record.configuration, record.host, working_folder)
            atomic.write_text(path.with_suffix(".csv"), codec.costs_text(record))
            atomic.write_text(path, codec.to_text(record))

    def find(
        self,
        configuration: Configuration,
        host: Host,
        reuse: str,
        working_folder: str = "",
    ) -> SearchRecord | None:
        """The result of an equal search on the same machine; identifying columns may
        differ.

        One that is not final (``SearchRecord.is_final``) is no answer: it is where the
        search goes on.

        ``reuse`` is ``never``, ``fresh`` (the same versions, at most ``FRESH_FOR`` old)
        or ``always``; relative paths of the dataset begin in ``working_folder``.
        """
        if reuse == "never":
            return None
        path = self._path(configuration, host, working_folder)
        try:
            record = codec.from_text(atomic.read_text(path))
        except (OSError, *codec.UNREADABLE):
            return None
        if reuse == "fresh" and staleness(record, host):
            return None
        # only predictions need the costs of batches
        with contextlib.suppress(OSError, *codec.UNREADABLE):
            record = codec.with_records(
                record, atomic.read_text(path.with_suffix(".csv"))
            )
        return replace(record, configuration=configuration)

    def _path(
        self, configuration: Configuration, host: Host, working_folder: str
    ) -> Path:
        machine = json.dumps(
            [working_folder, *(getattr(host, name) for name in MACHINE)]
        )
        where = hashlib.sha256(machine.encode()).hexdigest()[:8]
        return (
            self._folder
            / f"{replace(configuration, columns={}).fingerprint}-{where}.json"
        )


def staleness(record: SearchRecord, host: Host) -> str:
    """Why a result does not apply to ``host`` today (other versions or machine, age);
    empty if it applies."""
    if difference := record.host.difference(host):
        return difference
    age = datetime.now().astimezone() - datetime.fromisoformat(record.started_at)
    # The clock may have been wrong then, or be wrong now.
    return (
        f"measured {abs(age.days)} days {'ago' if age.days > 0 else 'ahead'}"
        if abs(age) > FRESH_FOR
        else ""
    )
