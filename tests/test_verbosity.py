import pytest

from nws_sweep import NwsSweepWarning, verbosity
from nws_sweep.errors import ConfigurationError
from nws_sweep.programs import command
from nws_sweep.verbosity import Verbosity


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(verbosity.VARIABLE, "")  # is restored after a flag sets it


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("", Verbosity.NORMAL),
        ("normal", Verbosity.NORMAL),
        ("quiet", Verbosity.QUIET),
        ("VERBOSE", Verbosity.VERBOSE),
    ],
)
def test_the_environment_chooses(
    value: str, expected: Verbosity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(verbosity.VARIABLE, value)
    assert verbosity.current() is expected


def test_another_value_is_an_error_of_a_command_and_a_warning_of_a_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(verbosity.VARIABLE, "debug")
    message = "NWS_SWEEP_LOG=debug: must be quiet, normal or verbose"
    with pytest.raises(ConfigurationError, match=f"^{message}$"):
        verbosity.check()
    with pytest.warns(NwsSweepWarning, match=message):
        assert verbosity.current() is Verbosity.NORMAL


def test_the_last_flag_counts_before_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(verbosity.VARIABLE, "quiet")
    rest = verbosity.take_flags(["-m", "-q", "batch_size=2", "--verbose", "--cfg"])
    assert rest == ["-m", "batch_size=2", "--cfg"]
    assert verbosity.current() is Verbosity.VERBOSE


def test_flags_behind_a_program_are_the_programs() -> None:
    rest = verbosity.take_leading_flags(["-v", "search", "train.py", "-q"])
    assert rest == ["search", "train.py", "-q"]
    assert verbosity.current() is Verbosity.VERBOSE


@pytest.mark.parametrize(
    ("arguments", "program", "expected"),
    [
        (["train.py", "-v"], ["train.py", "-v"], Verbosity.NORMAL),
        (["-v", "train.py", "-q"], ["train.py", "-q"], Verbosity.VERBOSE),
        (["--quiet", "-m", "train", "-v"], ["train", "-v"], Verbosity.QUIET),
    ],
)
def test_commands_have_the_flags_before_a_program(
    arguments: list[str], program: list[str], expected: Verbosity
) -> None:
    assert command.parser_of("search").parse_args(arguments).program == program
    assert verbosity.current() is expected
