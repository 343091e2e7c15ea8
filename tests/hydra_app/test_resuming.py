import errno
import fcntl
from dataclasses import replace
from pathlib import Path

import pytest

from nws_sweep.errors import ConfigurationError
from nws_sweep.hydra_app import resuming
from nws_sweep.records import BatchCost, Host, SearchRecord, TrialState, Verdict
from nws_sweep.records.storage import StoredRun
from tests import factories
from tests.children import child, line_of
from tests.factories import (
    HOST,
    configuration,
    search_result,
    search_rules,
    store_grid,
    store_run,
    trial,
)

ELSEWHERE = replace(HOST, hostname="another")
UPDATED = replace(HOST, torch="99.0")


def half(*workers: int) -> SearchRecord:
    """A search that was interrupted during its last candidate."""
    done = [trial(n, 8.0 - n) for n in workers]
    return search_result(*done[:-1], replace(done[-1], finished=False), stop_reason="")


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def resumed(
    folder: Path, chosen: SearchRecord, host: Host = HOST
) -> tuple[SearchRecord | None, str]:
    return resuming.resume(folder, chosen.configuration, host)


def test_a_complete_search_is_reused_unchanged(tmp_path: Path) -> None:
    complete = search_result(trial(0, 8.0), trial(2, 4.0))
    assert resumed(tmp_path / "run", complete) == (None, "")
    folder = store_run(tmp_path, complete)
    assert resumed(folder, complete) == (complete, "")
    assert names_in(folder) == {
        "result.json",
        "timings.csv",
        "batches.csv",
        "costs.csv",
    }
    assert resuming.ended(folder, complete.configuration, HOST) == StoredRun(
        folder=folder, result=complete
    )


def test_an_unfinished_search_resumes_and_the_batches_of_its_unfinished_trial_are_kept(
    tmp_path: Path,
) -> None:
    folder = store_run(tmp_path, half(0, 1, 2))
    batches = (folder / "batches.csv").read_text()
    assert resumed(folder, half(0, 1, 2)) == (half(0, 1, 2), "")
    assert (
        (folder / "batches.csv.interrupted-1").read_text()
        == (folder / "batches.csv").read_text()
        == batches
    )
    # Resumed and killed before writing.
    assert resumed(folder, half(0, 1, 2)) == (half(0, 1, 2), "")
    assert len(list(folder.glob("*.interrupted-*"))) == 1
    assert resuming.ended(folder, half(0).configuration, HOST) is None


def test_a_search_that_its_limit_ended_is_where_the_next_goes_on(
    tmp_path: Path,
) -> None:
    settings = trial(2, 4.0).settings
    verdict = Verdict(recommended=settings, fastest=settings, provisional=True)
    killed = trial(
        4,
        2.0,
        state=TrialState.INTERRUPTED,
        reason="killed by SIGKILL",
        measurement=None,
    )
    ended = search_result(trial(0, 8.0), trial(2, 4.0), killed, verdict=verdict)
    folder = store_run(tmp_path, ended)
    record, line = resumed(folder, ended)
    assert (record, line) == (ended, "")
    assert record is not None
    assert not record.is_final
    # of the killed trial, which is measured again
    assert "batches.csv.interrupted-1" in names_in(folder)
    nothing = search_result(killed, stop_reason="4 candidates could not be measured")
    assert resumed(store_run(tmp_path, nothing, "nothing"), nothing) == (None, "")


def test_a_skipped_candidate_is_asked_again_and_leaves_no_copy_of_the_batches_of_others(
    tmp_path: Path,
) -> None:
    skipped = factories.failed_trial(
        4, "it needs 9.00 GB of memory", TrialState.SKIPPED
    )
    unfinished = search_result(trial(0, 8.0), skipped, stop_reason="")
    folder = store_run(tmp_path, unfinished)
    record, _ = resumed(folder, unfinished)
    assert record is not None
    assert [kept.num_workers for kept in record.results] == [0]
    assert "batches.csv.interrupted-1" not in names_in(folder)


def test_a_search_of_another_configuration_is_set_aside(tmp_path: Path) -> None:
    """Such as the same overrides with another conf/local."""
    folder = store_run(tmp_path, search_result(trial(0, 8.0)))
    changed = search_result(trial(0, 8.0), configuration=configuration(seed=7))
    assert resuming.ended(folder, changed.configuration, HOST) is None
    record, line = resumed(folder, changed)
    assert record is None
    assert line.endswith(
        "with the same overrides; set aside as result.json.other_values-1, and measured again"
    )
    assert "timings.csv.other_values-1" in names_in(folder)


def test_an_unreadable_result_is_set_aside_with_all_its_files(tmp_path: Path) -> None:
    folder = store_run(tmp_path, half(0, 1))
    (folder / "result.json").write_text("{")
    record, line = resumed(folder, half(0, 1))
    assert record is None
    assert line.startswith(f"{folder / 'result.json'}: cannot be read (")
    assert line.endswith("; set aside as result.json.unreadable-1, and measured again")
    names = ("result.json", "timings.csv", "batches.csv", "costs.csv")
    assert names_in(folder) == {f"{name}.unreadable-1" for name in names}
    assert (folder / "result.json.unreadable-1").read_text() == "{"


@pytest.mark.parametrize(
    ("text", "instead"), [("wait_s", "wait"), ("2,0,0,1", "2,0,0")]
)
def test_unreadable_batches_are_set_aside_and_the_figures_are_kept(
    tmp_path: Path, text: str, instead: str
) -> None:
    complete = search_result(
        trial(0, 8.0), factories.recorded_trial(2, BatchCost(cpu_s=0.25, wait_s=0.5))
    )
    folder = store_run(tmp_path, complete)
    path = folder / "batches.csv"
    path.write_text(path.read_text().replace(text, instead, 1))
    assert resuming.ended(folder, complete.configuration, HOST) is None
    record, line = resumed(folder, complete)
    assert record is not None
    kept = [(each.measurement, each.records) for each in complete.trials]
    assert [(each.measurement, each.records) for each in record.trials] == kept
    assert line.startswith(str(path))
    assert line.endswith(
        "set aside as batches.csv.unreadable-1: the times of its single batches are missing"
    )
    assert instead in (folder / "batches.csv.unreadable-1").read_text()
    assert resumed(folder, complete)[1] == ""


def test_an_unfinished_search_of_another_machine_restarts(tmp_path: Path) -> None:
    folder = store_run(tmp_path, half(0, 1))
    record, line = resumed(folder, half(0, 1), ELSEWHERE)
    assert record is None
    assert "measured with hostname" in line
    assert "result.json.other_host-1" in names_in(folder)
    complete = search_result(trial(0, 8.0))  # of another node of a cluster
    assert resumed(store_run(tmp_path, complete, "node"), complete, ELSEWHERE) == (
        complete,
        "",
    )


def test_candidates_that_depend_on_the_cpus_do_not_change_the_configuration(
    tmp_path: Path,
) -> None:
    """As on the nodes of a cluster and the machine that launches the jobs."""
    here = configuration(
        search=search_rules(candidates=(0, 1, 2), max_workers=2, reference=1)
    )
    large = configuration(
        search=search_rules(candidates=tuple(range(193)), max_workers=192, reference=96)
    )
    adaptive = configuration(
        search=search_rules(
            candidates=(0, 1, 2, 64, 96, 128), max_workers=None, reference=96
        )
    )
    host = replace(HOST, usable_cpus=96, hostname="node")
    for number, chosen in enumerate((adaptive, large)):
        folder = store_run(
            tmp_path,
            search_result(trial(0, 8.0), configuration=chosen, host=host),
            str(number),
        )
        assert resuming.ended(folder, here, HOST) is not None
        assert resuming.resume(folder, here, HOST)[0] is not None
    # Set by the user:
    for other in (
        search_rules(tolerance=0.5),
        search_rules(candidates=(0, 1, 2, 4, 8), max_workers=8),
    ):
        assert resuming.ended(folder, configuration(search=other), HOST) is None
    measured_here = store_run(
        tmp_path, search_result(trial(0, 8.0), configuration=large), "here"
    )
    assert resuming.ended(measured_here, here, HOST) is None


def test_a_search_without_finished_trials_restarts_on_this_machine(
    tmp_path: Path,
) -> None:
    """The record of a lost job has the host that launched it."""
    lost = search_result(
        stop_reason="", error="job 7 was lost", host=replace(HOST, hostname="login")
    )
    folder = store_run(tmp_path / "grid", lost)
    assert resumed(folder, lost) == (None, "")
    check(tmp_path / "grid")
    unfinished = search_result(trial(0, 8.0, finished=False), stop_reason="")
    folder = store_run(tmp_path, unfinished, "other")
    assert resumed(folder, unfinished) == (None, "")
    assert "batches.csv.interrupted-1" in names_in(folder)


def check(
    folder: Path, host: Host = HOST, *, is_grid: bool = True, nodes_differ: bool = False
) -> None:
    resuming.check(folder, lambda _: host, is_grid=is_grid, nodes_differ=nodes_differ)


@pytest.mark.parametrize(
    ("host", "difference"), [(ELSEWHERE, "hostname"), (UPDATED, "torch")]
)
def test_another_host_or_other_versions_are_refused_with_a_reason(
    tmp_path: Path, host: Host, difference: str
) -> None:
    folder = store_grid(
        tmp_path, half(0, 1), search_result(trial(0, 8.0), columns={"batch_size": 8})
    )
    check(folder)
    check(tmp_path / "new")
    now = getattr(host, difference)
    expected = rf"measured with {difference} .*, this is {now}; choose another hydra\.sweep\.dir"
    with pytest.raises(ConfigurationError, match=expected):
        check(folder, host)
    if host is ELSEWHERE:
        # on nodes of a cluster only the versions must be equal
        check(folder, host, nodes_differ=True)
    else:
        with pytest.raises(ConfigurationError, match="torch"):
            check(folder, host, nodes_differ=True)


def test_a_run_and_a_grid_do_not_share_a_folder_and_a_run_has_one_configuration(
    tmp_path: Path,
) -> None:
    run = store_run(tmp_path, search_result(trial(0, 8.0)))
    with pytest.raises(
        ConfigurationError,
        match=r"holds a single run; choose another hydra\.sweep\.dir",
    ):
        check(run)
    with pytest.raises(
        ConfigurationError, match=r"holds a grid; choose another hydra\.run\.dir"
    ):
        check(store_grid(tmp_path, search_result(trial(0, 8.0))), is_grid=False)
    check(run, is_grid=False)
    resuming.refuse_another(run, configuration())
    resuming.refuse_another(tmp_path / "new", configuration())
    with pytest.raises(ConfigurationError, match="another configuration"):
        resuming.refuse_another(run, configuration(seed=7))


def test_nothing_is_written_through_links_out_of_a_folder_from_others(
    tmp_path: Path,
) -> None:
    grid = store_grid(tmp_path, search_result(trial(0, 8.0)))
    (run,) = (path for path in grid.iterdir() if path.is_dir())
    (tmp_path / "mine").touch()
    for name in ("trial.log", ".hydra"):
        (run / name).symlink_to(tmp_path / "mine")
        with pytest.raises(
            ConfigurationError,
            match=rf"{name}: a link to {tmp_path}/mine, out of the folder; remove it$",
        ):
            check(grid)
        (run / name).unlink()
    (grid / "latest").symlink_to(run)
    check(grid)


def test_only_one_program_locks_a_folder_until_it_is_killed(tmp_path: Path) -> None:
    """Two programs started in the same second would overwrite each other's files."""
    script = """
        import sys; from nws_sweep.hydra_app import resuming; from pathlib import Path
        taken = resuming.folder_lock(Path(sys.argv[1]))
        print("claimed", flush=True); input()
    """
    with child(script, tmp_path) as process:
        line_of(process)
        with pytest.raises(
            ConfigurationError,
            match=r"another program is measuring into this folder.*hydra\.run\.dir",
        ):
            resuming.folder_lock(tmp_path)
        process.kill()
    assert resuming.folder_lock(tmp_path).is_locked


def test_folders_on_file_systems_without_locks_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    being_written = tmp_path / ".nws_sweep-result.json-1"
    being_written.touch()
    assert not resuming.folder_lock(tmp_path).is_locked
    assert being_written.exists()
