"""Plans the next settings of a loader: those to try, or earlier ones that were measured to be better, and says why."""

from nws_sweep.online import texts
from nws_sweep.online.decision import Keep, Try, decide
from nws_sweep.online.loader_state import LoaderState
from nws_sweep.online.plan import Plan
from nws_sweep.online.situation import situation_of, workers_may_not_help


def next_plan(state: LoaderState, batch: int, batches: int | None) -> Plan:
    """Settings to try, or earlier ones that were measured to be better; those in use if they stay.

    Args:
        state: Of the loader; the current settings were measured.
        batch: Batches of this epoch so far; 0 before an epoch begins.
        batches: Length of an epoch; None if it is unknown.
    """
    if reason := _reason_to_stay(state):
        return Plan(state.current, reason)
    if batch and state.changes_within_epochs:
        left = None if batches is None else batches - batch
        decision = decision_for(state, left, is_new_epoch=False)
        if isinstance(decision, Try):
            return Plan(decision.settings, texts.tried(state.times, state.current, decision), state.epoch)
    if workers_may_not_help(state):
        return _without_workers(state, batch)
    decision = decision_for(state, batches, is_new_epoch=True)
    if isinstance(decision, Try):
        return Plan(decision.settings, texts.tried(state.times, state.current, decision), state.epoch + 1)
    return _as_measured(state, decision, batch)


def decision_for(state: LoaderState, batches: int | None, *, is_new_epoch: bool) -> Try | Keep:
    """What ``decide`` decides for these batches; the arguments are those of ``situation_of``."""
    situation = situation_of(state, batches, is_new_epoch=is_new_epoch)
    if situation is None:
        return Keep(state.current, "the costs of too few batches are known")
    return decide(situation)


def _reason_to_stay(state: LoaderState) -> str:
    """Why nothing else is tried, whatever is predicted; empty if something may be."""
    if any(switch.before == state.current for switch in state.switches):  # they were left, and are in use again
        return state.switches[-1].reason
    if state.distributes_among is not None and state.current.num_workers >= state.distributes_among:
        return f"{texts.now(state.times, state.current)}; {texts.REPEATED}"
    return ""


def _without_workers(state: LoaderState, batch: int) -> Plan:
    settings = state.base.with_workers(0)
    took = texts.took(state.times, state.current, beside=settings)
    return Plan(settings, f"{took}; its transfer is expensive", state.epoch_of(settings, batch))


def _as_measured(state: LoaderState, decision: Keep, batch: int) -> Plan:
    """The best of the measured settings: the current ones, or earlier ones."""
    if decision.settings != state.current:
        reason = texts.returned(state.times, state.current, decision.settings)
        return Plan(decision.settings, reason, state.epoch_of(decision.settings, batch))
    if state.switches:
        return Plan(state.current, texts.since_the_start(state.times, state.switches[0].before, state.current))
    why = f"other settings were not tried: {decision.refusal}" if decision.refusal else texts.NO_GAIN
    return Plan(state.current, f"{texts.now(state.times, state.current)}; {why}")
