"""Immutable records of a search, and the files that hold them.

May import: ``errors``. Names end in their unit; an undefined value is None, never 0.

- Values: ``ranges`` (what they may be), ``settings`` (requested values),
  ``measurements`` (windows, trials), ``account`` (where an epoch goes),
  ``search_record`` (searches, tuning).
- Files: ``storage`` (folders and files), ``codec`` (their text), ``result_cache``
  (earlier results), ``atomic`` (writing).
"""

from nws_sweep.records.account import Account, OtherLoader, Part
from nws_sweep.records.dataset_facts import (
    DatasetFacts,
    ProjectFacts,
    PythonObjects,
    WholeBatches,
)
from nws_sweep.records.measurements import (
    BatchCost,
    BatchRecord,
    BatchTime,
    Estimate,
    LoopCosts,
    MachineTime,
    Measurement,
    Noise,
    Span,
    StageKind,
    StageTime,
    TimeSlice,
    Trial,
    TrialState,
    Usage,
    Window,
    WindowKind,
    WindowRequest,
)
from nws_sweep.records.ranges import ONLINE_STRATEGY, SEARCHABLE, STRATEGIES
from nws_sweep.records.search_record import (
    Host,
    MACHINE,
    SampleMade,
    SamplePart,
    SamplesLogged,
    SamplesSeen,
    SearchRecord,
    Status,
    Switch,
    Tuning,
    VERSIONS,
    Verdict,
)
from nws_sweep.records.settings import (
    Configuration,
    DEFAULT_PREFETCH,
    LoaderSettings,
    MeasureRules,
    NO_STEP,
    ProcessSpec,
    ProcessState,
    Recipe,
    SearchRules,
    shown,
    varying_columns,
)
