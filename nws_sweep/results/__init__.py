"""Frozen values of a search, and the files that hold them.

May import: ``errors``.

- Values: ``settings`` (what is asked for), ``measurements`` (windows, trials), ``search_record`` (one search).
- Files: ``storage`` (folders and files), ``codec`` (result.json), ``timing_table`` (timings.csv, ranks.csv),
  ``batch_table`` (batches.csv), ``selection`` (``--where``), ``result_cache`` (earlier results), ``atomic`` (writing).
"""

from nws_sweep.results.measurements import (
    Window, WindowKind, WindowRequest, Bytes, Estimate, Finite, MachineTime, Measurement, Noise, NotNegative,
    Positive, RankMeasurement, Trial, TrialState, TimeSlice, Usage,
)  # fmt: skip
from nws_sweep.results.search_record import (
    DatasetFacts, Host, MACHINE, ProgramRun, ProjectFacts, PythonObjects, SampleCheck, SampleMade, SamplePart,
    SamplesLogged, SamplesSeen, SearchCost, SearchRecord, VERSIONS, Verdict,
)  # fmt: skip
from nws_sweep.results.settings import (
    Candidates, Configuration, Count, LoaderSettings, MeasureRules, PROGRAM_STRATEGY, ProcessSpec, Rank, SearchRules,
    shown, varying_columns,
)  # fmt: skip

__all__ = [
    "MACHINE", "PROGRAM_STRATEGY", "VERSIONS", "Bytes", "Candidates", "Configuration", "Count", "DatasetFacts",
    "Estimate", "Finite", "Host", "LoaderSettings", "MachineTime", "MeasureRules", "Measurement", "Noise",
    "NotNegative", "Positive", "ProcessSpec", "ProgramRun", "ProjectFacts", "PythonObjects", "Rank",
    "RankMeasurement", "SampleCheck", "SampleMade", "SamplePart", "SamplesLogged", "SamplesSeen", "SearchCost",
    "SearchRecord", "SearchRules", "TimeSlice", "Trial", "TrialState", "Usage", "Verdict", "Window", "WindowKind",
    "WindowRequest", "shown", "varying_columns",
]  # fmt: skip
