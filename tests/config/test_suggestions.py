import pytest

from nws_sweep.config.suggestions import did_you_mean, suggestion


@pytest.mark.parametrize(
    ("typed", "names", "meant"),
    [
        ("reprot", ["report", "search"], "report"),
        ("batchSize", ["batch_size", "dataset"], "batch_size"),
        # the form of an option
        ("--num_workers", ["--loader", "--num-workers"], "--num-workers"),
        ("version", ["best", "--version"], "--version"),
        # the word of another tool, for what exists where it was typed
        ("timeout", ["num_workers", "time_limit_s"], "time_limit_s"),
        ("timeout", ["--num-workers", "--time-limit"], "--time-limit"),
        ("best", ["best_params", "num_workers"], "best_params"),
        ("best", ["search", "sweep"], "search"),
        # a noun behind what people put before it
        ("find_best_num_workers", ["autotune", "search"], "search"),
        ("to_pandas", ["to_dict", "to_frame"], "to_frame"),
        ("xyzzy", ["search", "sweep"], ""),
    ],
)
def test_what_was_meant(typed: str, names: list[str], meant: str) -> None:
    assert suggestion(typed, names) == meant
    question = f"did you mean {meant}?" if meant else "--help"
    assert did_you_mean(typed, names, "--help") == question
