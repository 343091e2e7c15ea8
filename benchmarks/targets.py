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
    of_plain = _of(scores, PLAIN)
    everywhere = [score.regrets for score in of_plain.values()]
    regrets, high_regrets = (
        [("all together", pooled(everywhere, share))] if of_plain else []
        for share in (0.5, 0.95)
    )
    regrets += [(_with_floor(s, truths), s.regret) for s in of_plain.values()]
    high_regrets += [(_with_floor(s, truths), s.high_regret) for s in of_plain.values()]
    return [
        verdict(f"regret, median over the repeats, at most {percent(MOST_REGRET)} together and on each workload",
                regrets, MOST_REGRET, percent),
        verdict(f"regret, 95th percentile, at most {percent(MOST_HIGH_REGRET)} together and on each workload",
                high_regrets, MOST_HIGH_REGRET, percent),
        verdict("regret of adaptive no larger than that of another version by more than the noise floor, on each "
                "workload", _beyond_noise(scores, truths), 0, percent),
        verdict(f"regret, the largest, at most {percent(WORST_REGRET)}",
                [(_with_floor(s, truths), quantile(s.regrets, 1.0)) for s in of_plain.values()], WORST_REGRET, percent),
        verdict(f"cost on {EPOCHS_OF} at most {MOST_EPOCHS:g} epochs", _epochs(of_plain), MOST_EPOCHS, "{:.2f}".format),
        verdict(f"cost, median over the workloads, at most {MOST_MEDIAN_S:g} s",
                _median_cost(of_plain), MOST_MEDIAN_S, "{:.1f} s".format),
        verdict(f"cost, the largest, at most {WORST_S:g} s",
                [(name, max(s.costs_s)) for name, s in of_plain.items()], WORST_S, "{:.1f} s".format),
        verdict(f"at most {MOST_PROCESSES} processes at a time",
                [(name, float(s.most_processes)) for name, s in of_plain.items()], MOST_PROCESSES, "{:.0f}".format),
        verdict(f"cost where an epoch takes less than {SHORT_EPOCH_S:g} s, at most the larger of {SHORT_EPOCH_S:g} s "
                f"and {MOST_SHORT_EPOCHS:g} epochs", _short(of_plain), 1, "{:.2f} times as much".format),
        verdict(f"cost with 1.28 million samples / with 50 thousand at most {MOST_GROWTH:g}",
                _growth(of_plain), MOST_GROWTH, "{:.2f}".format),
        verdict(f"cost at most {MOST_OF_EXHAUSTIVE:g} of that of exhaustive on each workload",
                _shares(of_plain, _of(scores, EXHAUSTIVE)), MOST_OF_EXHAUSTIVE, "{:.2f}".format),
        verdict("no crash", [(s.workload, float(len(s.crashes))) for s in of_plain.values()], 0, "{:.0f}".format),
        verdict("no process left behind", [(s.workload, float(len(s.left_behind))) for s in of_plain.values()],
                0, "{:.0f}".format),
        _ambiguous(of_plain),
    ]  # fmt: skip


def _of(scores: Sequence[Score], method: str) -> dict[str, Score]:
    return {score.workload: score for score in scores if score.method == method}


def _with_floor(score: Score, truths: Mapping[str, Truth]) -> str:
    truth = truths.get(score.workload)
    if truth is None or truth.noise_floor is None:
        return score.workload
    return f"{score.workload} with a noise floor of {percent(truth.noise_floor)}"


def _epochs(of_plain: Mapping[str, Score]) -> list[tuple[str, float | None]]:
    if EPOCHS_OF not in of_plain:
        return []
    score = of_plain[EPOCHS_OF]
    return [(EPOCHS_OF, score.cost_epochs if _came_to_something(score) else None)]


def _median_cost(of_plain: Mapping[str, Score]) -> list[tuple[str, float | None]]:
    failed: list[tuple[str, float | None]] = [
        (n, None) for n, s in of_plain.items() if not _came_to_something(s)
    ]
    return failed or (
        [("all", statistics.median(s.cost_s for s in of_plain.values()))]
        if of_plain
        else []
    )


def _short(of_plain: Mapping[str, Score]) -> list[tuple[str, float | None]]:
    """Costs where epochs are short, as multiples of what is allowed."""
    values: list[tuple[str, float | None]] = []
    for name, score in of_plain.items():
        if score.best_s is not None and score.best_s < SHORT_EPOCH_S:
            most_s = max(SHORT_EPOCH_S, MOST_SHORT_EPOCHS * score.best_s)
            values.append(
                (name, score.cost_s / most_s if _came_to_something(score) else None)
            )
    return values


def _beyond_noise(
    scores: Sequence[Score], truths: Mapping[str, Truth]
) -> list[tuple[str, float | None]]:
    """By how much more than the noise floor the regret is larger than that of another
    version."""
    of_plain, values = _of(scores, ADAPTIVE), []
    for compared in scores:
        if (
            compared.method.startswith(ADAPTIVE + OTHER)
            and compared.workload in of_plain
            and compared.regret is not None
        ):
            mine, truth = (
                of_plain[compared.workload].regret,
                truths.get(compared.workload),
            )
            floor = (truth.noise_floor if truth else None) or 0.0
            values.append(
                (
                    _with_floor(compared, truths),
                    None if mine is None else mine - compared.regret - floor,
                )
            )
    return values


def _growth(of_plain: Mapping[str, Score]) -> list[tuple[str, float | None]]:
    if SHORTER not in of_plain or LONGER not in of_plain:
        return []
    shorter, longer = of_plain[SHORTER], of_plain[LONGER]
    return [
        (f"{longer.cost_s:.2f} s / {shorter.cost_s:.2f} s", _ratio(longer, shorter))
    ]


def _shares(
    of_plain: Mapping[str, Score], exhaustive: Mapping[str, Score]
) -> list[tuple[str, float | None]]:
    return [
        (name, _ratio(of_plain[name], exhaustive[name]))
        for name in of_plain
        if name in exhaustive
    ]


def _ratio(score: Score, compared: Score) -> float | None:
    return (
        score.cost_s / compared.cost_s
        if _came_to_something(score) and _came_to_something(compared)
        else None
    )


def _came_to_something(score: Score) -> bool:
    """Whether every repeat has a pick: the short time of a failure is not a low
    cost."""
    return None not in score.picks


def verdict(
    target: str,
    values: Sequence[tuple[str, float | None]],
    limit: float,
    shown: Callable[[float], str],
) -> str:
    """One sentence: met, missed by which of the values found and their names, or not
    measured if there are none."""
    missed = [(what, value) for what, value in values if value is None or value > limit]
    if missed:
        return f"{target}: missed by " + ", ".join(
            f"{what} ({_shown(value, shown)})" for what, value in missed
        )
    return f"{target}: " + ("met" if values else "not measured")


def _ambiguous(of_plain: Mapping[str, Score]) -> str:
    searches = sum(len(score.picks) for score in of_plain.values())
    if not searches:
        return "searches that ended ambiguous: not measured"
    ambiguous = {
        score.workload: score.ambiguous
        for score in of_plain.values()
        if score.ambiguous
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
    of_plain = _of(scores, PLAIN)
    compared_scores = [
        s for s in scores if s.method != PLAIN and s.workload in of_plain
    ]
    lines = [
        _less_regret(
            compared, of_plain[compared.workload], truths.get(compared.workload)
        )
        for compared in compared_scores
    ]
    lines += [
        _less_cost(compared, of_plain[compared.workload])
        for compared in compared_scores
        if compared.method not in HEURISTICS
    ]
    return [line for line in lines if line]


def _less_regret(score: Score, plain: Score, truth: Truth | None) -> str:
    if score.regret is None or (
        plain.regret is not None and score.regret >= plain.regret
    ):
        return ""
    floor = truth.noise_floor if truth else None
    within = (
        floor is not None
        and plain.regret is not None
        and plain.regret - score.regret <= floor
    )
    remark = " (a difference below the noise floor)" if within else ""
    return f"regret on {plain.workload}: {score.method} {percent(score.regret)}, plain {percent(plain.regret)}{remark}"


def _less_cost(score: Score, plain: Score) -> str:
    if score.cost_s >= plain.cost_s:
        return ""
    regret = f"with a regret of {percent(score.regret)}"
    return (
        f"cost on {plain.workload}: {score.method} {score.cost_s:.1f} s {regret}, plain {plain.cost_s:.1f} s with "
        f"{percent(plain.regret)}"
    )


def _shown(value: float | None, shown: Callable[[float], str]) -> str:
    return "no value" if value is None else shown(value)


def percent(share: float | None) -> str:
    """A share in percent."""
    return "no value" if share is None else f"{100 * share:.1f} %"
