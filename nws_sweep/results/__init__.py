"""Frozen values of a search, and the files that hold them.

May import: ``errors``.
"""

from nws_sweep.results.measurements import (
    Window, WindowKind, WindowRequest, Bytes, Estimate, Finite, MachineTime, Measurement, Noise, NotNegative,
    Positive, RankMeasurement, Trial, TrialState, TimeSlice, Usage,
)  # fmt: skip
from nws_sweep.results.search_record import (
    DatasetFacts, Host, ProgramRun, MACHINE, PythonObjects, ProjectFacts, SampleCheck, SampleMade, SamplePart,
    SamplesLogged, SamplesSeen, SearchCost, SearchRecord, VERSIONS, Verdict,
)  # fmt: skip
from nws_sweep.results.settings import (
    ProcessSpec, Candidates, Configuration, Count, PROGRAM_STRATEGY, LoaderSettings, MeasureRules, Rank, SearchRules, shown,
    varying_columns,
)  # fmt: skip

__all__ = [
    "MACHINE",
    "PROGRAM_STRATEGY",
    "VERSIONS",
    "Bytes",
    "Candidates",
    "Configuration",
    "Count",
    "DatasetFacts",
    "Estimate",
    "Finite",
    "Host",
    "LoaderSettings",
    "MachineTime",
    "MeasureRules",
    "Measurement",
    "Noise",
    "NotNegative",
    "Positive",
    "ProcessSpec",
    "ProgramRun",
    "ProjectFacts",
    "PythonObjects",
    "Rank",
    "RankMeasurement",
    "SampleCheck",
    "SampleMade",
    "SamplePart",
    "SamplesLogged",
    "SamplesSeen",
    "SearchCost",
    "SearchRecord",
    "SearchRules",
    "TimeSlice",
    "Trial",
    "TrialState",
    "Usage",
    "Verdict",
    "Window",
    "WindowKind",
    "WindowRequest",
    "shown",
    "varying_columns",
]  # fmt: skip
