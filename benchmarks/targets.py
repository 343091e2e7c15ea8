"""Targets of the search with default arguments, whether they are met, and where other
methods are better. Pure."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from benchmarks.methods import ADAPTIVE, EXHAUSTIVE, HEURISTICS, OTHER, PLAIN
from benchmarks.oracle import Truth
from benchmarks.scores import Score, pooled, quantile

MOST_REGRET, MOST_HIGH_REGRET, WORST_REGRET = 0.01, 0.05, 0.08
MOST_EPOCHS, EPOCHS_OF = 0.6, "cifar"
MOST_MEDIAN_S, WORST_S, MOST_PROCESSES = 5.0, 15.0, 120
SHORT_EPOCH_S, MOST_SHORT_EPOCHS = 3.0, 2.0
MOST_GROWTH, SHORTER, LONGER = 1.1, "fifty", "million"
MOST_OF_EXHAUSTIVE = 0.25


def verdicts(scores: Sequence[Score], truths: Mapping[str, Truth]) -> list[str]:
    """One sentence per target: met, or missed by which workloads."""
    own = _of(scores, PLAIN)
    everywhere = [score.regrets for score in own.values()]
    regrets, high_regrets = (
        [("all together", pooled(everywhere, share))] if own else []
        for share in (0.5, 0.95)
    )
    regrets += [(_with_floor(s, truths), s.regret) for s in own.values()]
    high_regrets += [(_with_floor(s, truths), s.high_regret) for s in own.values()]
    return [
        verdict(f"regret, median over the repeats, at most {percent(MOST_REGRET)} together and on each workload",
                regrets, MOST_REGRET, percent),
        verdict(f"regret, 95th percentile, at most {percent(MOST_HIGH_REGRET)} together and on each workload",
                high_regrets, MOST_HIGH_REGRET, percent),
        verdict("regret of adaptive no larger than that of another version by more than the noise floor, on each "
                "workload", _beyond_noise(scores, truths), 0, percent),
        verdict(f"regret, the largest, at most {percent(WORST_REGRET)}",
                [(_with_floor(s, truths), quantile(s.regrets, 1.0)) for s in own.values()], WORST_REGRET, percent),
        verdict(f"cost on {EPOCHS_OF} at most {MOST_EPOCHS:g} epochs", _epochs(own), MOST_EPOCHS, "{:.2f}".format),
        verdict(f"cost, median over the workloads, at most {MOST_MEDIAN_S:g} s",
                _median_cost(own), MOST_MEDIAN_S, "{:.1f} s".format),
        verdict(f"cost, the largest, at most {WORST_S:g} s",
                [(name, max(s.costs_s)) for name, s in own.items()], WORST_S, "{:.1f} s".format),
        verdict(f"at most {MOST_PROCESSES} processes at a time",
                [(name, float(s.most_processes)) for name, s in own.items()], MOST_PROCESSES, "{:.0f}".format),
        verdict(f"cost where an epoch takes less than {SHORT_EPOCH_S:g} s, at most the larger of {SHORT_EPOCH_S:g} s "
                f"and {MOST_SHORT_EPOCHS:g} epochs", _short(own), 1, "{:.2f} times as much".format),
        verdict(f"cost with 1.28 million samples / with 50 thousand at most {MOST_GROWTH:g}",
                _growth(own), MOST_GROWTH, "{:.2f}".format),
        verdict(f"cost at most {MOST_OF_EXHAUSTIVE:g} of that of exhaustive on each workload",
                _shares(own, _of(scores, EXHAUSTIVE)), MOST_OF_EXHAUSTIVE, "{:.2f}".format),
        verdict("no crash", [(s.workload, float(len(s.crashes))) for s in own.values()], 0, "{:.0f}".format),
        verdict("no process left behind", [(s.workload, float(len(s.left_behind))) for s in own.values()],
                0, "{:.0f}".format),
        _ambiguous(own),
    ]  # fmt: skip


def _of(scores: Sequence[Score], method: str) -> dict[str, Score]:
    return {score.workload: score for score in scores if score.method == method}


def _with_floor(score: Score, truths: Mapping[str, Truth]) -> str:
    truth = truths.get(score.workload)
    if truth is None or truth.noise_floor is None:
        return score.workload
    return f"{score.workload} with a noise floor of {percent(truth.noise_floor)}"


def _epochs(own: Mapping[str, Score]) -> list[tuple[str, float | None]]:
    if EPOCHS_OF not in own:
        return []
    score = own[EPOCHS_OF]
    return [(EPOCHS_OF, score.cost_epochs if _came_to_something(score) else None)]


def _median_cost(own: Mapping[str, Score]) -> list[tuple[str, float | None]]:
    failed: list[tuple[str, float | None]] = [
        (n, None) for n, s in own.items() if not _came_to_something(s)
    ]
    return failed or (
        [("all", statistics.median(s.cost_s for s in own.values()))] if own else []
    )


def _short(own: Mapping[str, Score]) -> list[tuple[str, float | None]]:
    """Costs where epochs are short, as multiples of what is allowed."""
    found: list[tuple[str, float | None]] = []
    for name, score in own.items():
        if score.best_s is not None and score.best_s < SHORT_EPOCH_S:
            most_s = max(SHORT_EPOCH_S, MOST_SHORT_EPOCHS * score.best_s)
            found.append(
                (name, score.cost_s / most_s if _came_to_something(score) else None)
            )
    return found


def _beyond_noise(
    scores: Sequence[Score], truths: Mapping[str, Truth]
) -> list[tuple[str, float | None]]:
    """By how much more than the noise floor the regret is larger than that of another
    version."""
    own, found = _of(scores, ADAPTIVE), []
    for other in scores:
        if (
            other.method.startswith(ADAPTIVE + OTHER)
            and other.workload in own
            and other.regret is not None
        ):
            mine, truth = own[other.workload].regret, truths.get(other.workload)
            floor = (truth.noise_floor if truth else None) or 0.0
            found.append(
                (
                    _with_floor(other, truths),
                    None if mine is None else mine - other.regret - floor,
                )
            )
    return found


def _growth(own: Mapping[str, Score]) -> list[tuple[str, float | None]]:
    if SHORTER not in own or LONGER not in own:
        return []
    shorter, longer = own[SHORTER], own[LONGER]
    return [
        (f"{longer.cost_s:.2f} s / {shorter.cost_s:.2f} s", _ratio(longer, shorter))
    ]


def _shares(
    own: Mapping[str, Score], exhaustive: Mapping[str, Score]
) -> list[tuple[str, float | None]]:
    return [
        (name, _ratio(own[name], exhaustive[name]))
        for name in own
        if name in exhaustive
    ]


def _ratio(one: Score, other: Score) -> float | None:
    return (
        one.cost_s / other.cost_s
        if _came_to_something(one) and _came_to_something(other)
        else None
    )


def _came_to_something(score: Score) -> bool:
    """Whether every repeat has a pick: the short time of a failure is not a low
    cost."""
    return None not in score.picks


def verdict(
    target: str,
    found: Sequence[tuple[str, float | None]],
    limit: float,
    shown: Callable[[float], str],
) -> str:
    """One sentence: met, missed by which of the values found and their names, or not
    measured if there are none."""
    missed = [(what, value) for what, value in found if value is None or value > limit]
    if missed:
        return f"{target}: missed by " + ", ".join(
            f"{what} ({_shown(value, shown)})" for what, value in missed
        )
    return f"{target}: " + ("met" if found else "not measured")


def _ambiguous(own: Mapping[str, Score]) -> str:
    searches = sum(len(score.picks) for score in own.values())
    if not searches:
        return "searches that ended ambiguous: not measured"
    ambiguous = {
        score.workload: score.ambiguous for score in own.values() if score.ambiguous
    }
    where = (
        f" ({', '.join(f'{name} {count}' for name, count in ambiguous.items())})"
        if ambiguous
        else ""
    )
    share = sum(ambiguous.values()) / searches
    return f"searches that ended ambiguous: {sum(ambiguous.values())} of {searches}, {100 * share:.0f} %{where}"


def advantages(scores: Sequence[Score], truths: Mapping[str, Truth]) -> list[str]:
    """A line for each method and workload with a smaller regret or a lower cost than
    plain."""
    own = _of(scores, PLAIN)
    others = [s for s in scores if s.method != PLAIN and s.workload in own]
    lines = [
        _less_regret(other, own[other.workload], truths.get(other.workload))
        for other in others
    ]
    lines += [
        _less_cost(other, own[other.workload])
        for other in others
        if other.method not in HEURISTICS
    ]
    return [line for line in lines if line]


def _less_regret(other: Score, own: Score, truth: Truth | None) -> str:
    if other.regret is None or (own.regret is not None and other.regret >= own.regret):
        return ""
    floor = truth.noise_floor if truth else None
    within = (
        floor is not None
        and own.regret is not None
        and own.regret - other.regret <= floor
    )
    remark = " (a difference below the noise floor)" if within else ""
    return f"regret on {own.workload}: {other.method} {percent(other.regret)}, plain {percent(own.regret)}{remark}"


def _less_cost(other: Score, own: Score) -> str:
    if other.cost_s >= own.cost_s:
        return ""
    regret = f"with a regret of {percent(other.regret)}"
    return (
        f"cost on {own.workload}: {other.method} {other.cost_s:.1f} s {regret}, plain {own.cost_s:.1f} s with "
        f"{percent(own.regret)}"
    )


def _shown(value: float | None, shown: Callable[[float], str]) -> str:
    return "no value" if value is None else shown(value)


def percent(share: float | None) -> str:
    """A share in percent."""
    return "no value" if share is None else f"{100 * share:.1f} %"
