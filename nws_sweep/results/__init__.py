"""Frozen values of a search, and the files that hold them.

May import: ``errors``.
"""

from nws_sweep.results.measurements import (
    Burst, BurstKind, BurstRequest, Bytes, Estimate, Finite, MachineTime, Measurement, Noise, NotNegative,
    Positive, RankMeasurement, Trial, TrialState, Turn, Usage,
)  # fmt: skip
from nws_sweep.results.search_record import (
    DatasetFacts, Host, HostedRun, MACHINE, ObjectStore, ProjectFacts, SampleCheck, SampleMade, SamplePart,
    SamplesLogged, SamplesSeen, SearchCost, SearchRecord, VERSIONS, Verdict,
)  # fmt: skip
from nws_sweep.results.settings import (
    ArmSpec, Candidates, Configuration, Count, HOSTED, LoaderSettings, MeasureRules, Rank, SearchRules, shown,
    varying_columns,
)  # fmt: skip

__all__ = [
    "HOSTED",
    "MACHINE",
    "VERSIONS",
    "ArmSpec",
    "Burst",
    "BurstKind",
    "BurstRequest",
    "Bytes",
    "Candidates",
    "Configuration",
    "Count",
    "DatasetFacts",
    "Estimate",
    "Finite",
    "Host",
    "HostedRun",
    "LoaderSettings",
    "MachineTime",
    "MeasureRules",
    "Measurement",
    "Noise",
    "NotNegative",
    "ObjectStore",
    "Positive",
    "ProjectFacts",
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
    "Trial",
    "TrialState",
    "Turn",
    "Usage",
    "Verdict",
    "shown",
    "varying_columns",
]  # fmt: skip
