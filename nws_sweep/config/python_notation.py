"""Messages name settings as the command line does; in Python their notation is another one."""

import re

_WORDS = {"true": "True", "false": "False", "null": "None"}
_SWITCHES = ("pin_memory", "persistent_workers", "in_order", "drop_last", "shuffle", "check_samples", "prefetch_factor")
_OF_TEXT = ("measure", "strategy", "reuse", "multiprocessing_context")  # settings whose values are words


def in_python(text: str) -> str:
    """Writes the settings in a text as arguments of ``nws_sweep.search``.

    >>> in_python("longer with measure=rigorous, or pin_memory=true")
    'longer with measure="rigorous", or pin_memory=True'
    >>> in_python("measure.kill_after_s=600 s, measure.cache_files=[...]; see measure.precision")
    'measure=MeasureRules(kill_after_s=600) s, measure=MeasureRules(cache_files=[...]); see MeasureRules.precision'
    """
    text = re.sub(r"\bmeasure\.(\w+=(?:\[[^]]*\]|[\w.-]*\w))", r"measure=MeasureRules(\1)", text)
    text = re.sub(r"\bmeasure\.(\w+)", r"MeasureRules.\1", text)
    text = re.sub(rf"\b({'|'.join(_OF_TEXT)}|MeasureRules\(cache)=([a-z]+)\b(?!\()", r'\1="\2"', text)
    switch = rf"(?<![\w/.-])({'|'.join(_SWITCHES)})=(true|false|null)\b"
    text = re.sub(switch, lambda match: f"{match[1]}={_WORDS[match[2]]}", text)
    return text.replace("must be null", "must be None")
