"""One line for an error of Hydra's or OmegaConf's: what was wrong, the value, what is allowed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hydra.errors import MissingConfigException, OverrideParseException

from nws_sweep import extras
from nws_sweep.config import no_such_key, ranges
from nws_sweep.errors import ConfigurationError, one_line


def explain(error: Exception, overrides: Sequence[str] = ()) -> ConfigurationError:
    """The error that the user reads instead.

    Args:
        error: What composing the configuration raised.
        overrides: What the user typed, to name it as it was typed.
    """
    return ConfigurationError(_about_override(error) or _about_key(error, overrides) or _as_it_is(error))


def _about_override(error: Exception) -> str | None:
    if isinstance(error, OverrideParseException):
        return f"{error.override}: not an override; expected key=value"
    if isinstance(error, MissingConfigException) and error.options:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        return f"{group}={option}: allowed are {', '.join(sorted(error.options))}"
    if match := re.search(r"Could not load 'hydra/launcher/(\w+)'", str(error)):
        return extras.advice(match.group(1))
    if match := re.match(r"Ambiguous value for argument '(.*)'", str(error)):
        return f"{match.group(1)}: several values are a grid, which needs -m before them"
    return None


def _about_key(error: Exception, overrides: Sequence[str]) -> str | None:
    if (key := _key_of(error)) is None:
        return None
    given = next((text for text in reversed(overrides) if text.lstrip("+").partition("=")[0] == key), None)
    text = f"{error}\n{error.__cause__ or ''}"
    if "not in '" in text or "is not in struct" in text:
        return f"{given or key}: {no_such_key(key)}"
    if "Missing mandatory value" in text:
        return f"{key} is missing: give it as {key}=VALUE"
    permitted = ranges().get(key)
    return f"{given}: allowed is {permitted.text}" if given and permitted else None


def _key_of(error: Exception) -> str | None:
    for candidate in (error.__cause__, error):
        if full_key := getattr(candidate, "full_key", None):
            return str(full_key)
        if match := re.search(r"(?:Could not override|full_key:)\s*'?([\w./]+)'?", str(candidate)):
            return match.group(1)
    return None


def _as_it_is(error: Exception) -> str:
    text = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
    return one_line(re.sub(r"\s*(full_key:|object_type=|reference_type=|See https?:).*", "", text)) or repr(error)
