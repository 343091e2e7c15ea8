"""The child side of a trial: the process that makes the dataset, owns one DataLoader
and answers commands over a pipe.

It is forked from the fork server or from a template process (``trial_process``). It
leads a process group, which is paused, resumed and killed as one. ``commands`` has what
it answers.
"""

import contextlib
import logging
import multiprocessing
import os
import traceback
import warnings
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from nws_sweep.dataloading import sharing
from nws_sweep.errors import NwsSweepError
from nws_sweep.records import ProcessSpec
from nws_sweep.system import fork_server, processes, streams, temporary
from nws_sweep.trials import process_state
from nws_sweep.trials.commands import TrialCommands
from nws_sweep.trials.failures import WorkerExits, as_trial_error

# torch issues these for each DataLoader that nws_sweep makes on purpose.
_EXPECTED_WARNINGS = (
    r"This DataLoader will create \d+ worker processes",
    r"'pin_memory' argument is set as true but no accelerator is found",
    # Python 3.12; threads of libraries
    r"This process .* is multi-threaded, use of fork\(\) may lead to deadlocks",
)
# As if the process held all of the machine's memory, and nine tenths of it (proc(5)).
_OOM_SCORE_ADJ, _OOM_SCORE_ADJ_OF_TEMPLATE = "1000", "900"

# set in a template process, and so in the trial processes forked from it
_template: TrialCommands | None = None


def main(connection: Connection, spec: ProcessSpec, temporary_folder: str) -> None:
    """Answers commands until the command is None or the program closes the pipe."""
    _set_up_process(spec, temporary_folder)
    commands = (
        TrialCommands(spec, temporary_folder)
        if _template is None
        else _template.forked(spec, temporary_folder)
    )
    warnings.showwarning = commands.record_warning  # type: ignore[assignment]
    _forward_progress(connection)
    # When the program has exited, the connection closes, and the fork server kills
    # this process and its workers.
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(connection, commands)


def _set_up_process(spec: ProcessSpec, temporary_folder: str) -> None:
    # The program's own start method; in a forked process it is "fork".
    multiprocessing.set_start_method(spec.start_method, force=True)
    process_state.restore(spec.state)
    for pattern in _EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", message=pattern)
    processes.set_socket_folder(temporary_folder)
    temporary.register_process(temporary_folder)
    os.setpgid(0, 0)  # the program stops and kills the whole group
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if spec.configuration.ranks > 1 and threads.isdecimal():
        # torch has read the variable in the fork server
        torch.set_num_threads(max(1, int(threads)))
    # When memory runs out, the kernel kills a trial process before the template
    # process, and the program last.
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(
            _OOM_SCORE_ADJ if _template else _OOM_SCORE_ADJ_OF_TEMPLATE
        )
    os.chdir(spec.working_folder)
    processes.restore_ending_signals()
    streams.redirect(spec.log_path)
    if fork_server.is_of_program:
        sharing.reopen_files()


def _forward_progress(connection: Connection) -> None:
    """Sends this package's INFO log lines to the program; the lines of workers are
    dropped."""
    pid = os.getpid()

    def send(record: logging.LogRecord) -> None:
        if os.getpid() == pid:
            connection.send(("progress", record.getMessage()))

    handler = logging.Handler(logging.INFO)
    handler.emit = send  # type: ignore[method-assign]
    logger = logging.getLogger("nws_sweep")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)


def _serve(connection: Connection, commands: TrialCommands) -> None:
    exits = WorkerExits()
    while (command := connection.recv()) is not None:
        connection.send(_answer(commands, exits, *command))
        if commands.is_iterating:
            answer = _answer(commands, exits, "take_batches", connection.poll)
            if answer[0] == "error":  # sent without a request
                commands.is_iterating = False
                connection.send(answer)
        if commands.is_template:
            global _template  # noqa: PLW0603 - processes forked from this one read it
            _template = commands
            fork_server.serve(connection)
            return


def _answer(
    commands: TrialCommands, exits: WorkerExits, name: str, *arguments: Any
) -> tuple[str, Any]:
    """Calls a command with torch's handler of workers' exits, which is disabled when
    the answer is returned."""
    try:
        answer = _result(commands, exits, name, *arguments)
    except RuntimeError as error:
        # a second worker exited while the answer to the first exit was made
        answer = "error", as_trial_error(error)
    exits.disable()
    return answer


def _result(
    commands: TrialCommands, exits: WorkerExits, name: str, *arguments: Any
) -> tuple[str, Any]:
    """``"result"`` with the command's result, or ``"error"`` with the exception and the
    signal that killed a worker."""
    try:
        exits.enable()
        return "result", getattr(commands, name)(*arguments)
    except NwsSweepError as error:
        return "error", (error, None)
    except Exception as error:
        exits.disable()
        traceback.print_exc()
        return "error", as_trial_error(exits.cause_of(error))
