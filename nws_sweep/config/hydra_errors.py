"""Errors of Hydra and OmegaConf as one line, with what is allowed and what may have
been meant."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from hydra.errors import MissingConfigException, OverrideParseException

from nws_sweep.config.options import typed
from nws_sweep.config.schema import RANGES
from nws_sweep.config.suggestions import did_you_mean, suggestion
from nws_sweep.errors import ConfigurationError, one_line

_NAMES = (*RANGES, "dataset", "measure", "training_step", "paths", "experiment")
# options of Hydra
_LETTERS = ("-h", "-c", "-p", "-r", "-m", "-i")
_FLAGS = (
    "--help",
    "--hydra-help",
    "--version",
    "--cfg",
    "--resolve",
    "--package",
    "--run",
    "--multirun",
    "--shell-completion",
    "--config-path",
    "--config-name",
    "--config-dir",
    "--experimental-rerun",
    "--info",
)


def explain(error: Exception, overrides: Sequence[str] = ()) -> ConfigurationError:
    """Explains an error of Hydra or OmegaConf in a line, with the overrides as the user
    typed them."""
    reason = _about_override(error, overrides) or _about_key(error, overrides)
    if not reason:
        text = f"{error}: {error.__cause__}" if error.__cause__ else str(error)
        reason = one_line(
            re.sub(
                r"\s*(full_key:|object_type=|reference_type=|See https?:).*", "", text
            )
        )
    return ConfigurationError(reason or repr(error))


def require_flags(arguments: Sequence[str], commands: Collection[str]) -> None:
    """ConfigurationError if an argument is an option that Hydra lacks, such as
    ``--batch-size``, with what was probably meant: a setting, or an option of one of
    the ``commands``, which stands behind it."""
    for argument in arguments:
        flag = argument.partition("=")[0]
        # Hydra accepts the first letters of an option, and a value behind a letter
        is_known = any(option.startswith(flag) for option in _FLAGS)
        if not flag.startswith("-") or flag.startswith(_LETTERS) or is_known:
            continue
        hint = "--help lists the keys"
        if meant := suggestion(flag, _NAMES):
            hint = f"did you mean {meant}=VALUE?"
        for place, command in enumerate(arguments):
            if command in commands:
                options = (*arguments[:place], *arguments[place + 1 :])
                hint = f"did you mean {typed(command, *options)}?"
        raise ConfigurationError(f"{flag}: there is no such option; {hint}")


def missing_launcher(extra: str) -> str:
    """Says what to install for a launcher whose package is missing."""
    return f"hydra/launcher: a package is missing; pip install '.[{extra}]' in the checkout of nws_sweep installs it"


def _about_override(error: Exception, overrides: Sequence[str]) -> str | None:
    if isinstance(error, OverrideParseException):
        return f"{error.override}: not an override; expected key=value"
    if isinstance(error, MissingConfigException) and error.options:
        return _about_option(str(error.missing_cfg_file), error.options, overrides)
    if re.search(r"Could not load 'hydra/launcher/submitit_(slurm|local)'", str(error)):
        return missing_launcher("slurm")
    if match := re.match(r"Ambiguous value for argument '(.*)'", str(error)):
        key, _, values = match[1].partition("=")
        if key == "num_workers":
            return f"{match[1]}: the numbers of a search are a list, num_workers=[{values}]"
        return f"{match[1]}: several values are a grid, which needs -m"
    return None


def _about_option(path: str, options: Sequence[str], overrides: Sequence[str]) -> str:
    """Says what may be chosen in place of ``path``, the group and its option."""
    group, _, option = path.rpartition("/")
    wrong = f"{group}={option}"
    for override in overrides:
        if override.lstrip("+").replace("=", "/", 1) == path:
            wrong = override
    folder = path.removeprefix("dataset/")
    if folder != path and Path(folder).is_dir():
        return f"{wrong}: a folder is dataset=image_folder dataset.root={folder}"
    return f"{wrong}: must be one of {', '.join(sorted(options))}"


def _about_key(error: Exception, overrides: Sequence[str]) -> str | None:
    text = f"{error.__cause__ or ''}\n{error}"
    match = re.search(r"(?:Could not override|full_key:)\s*'?([\w./]+)'?", text)
    if match is None:
        return None
    key = match[1]
    of_keys = {
        override.lstrip("+").partition("=")[0]: override for override in overrides
    }
    for name in of_keys:
        if name.startswith(f"{key}."):  # of a group that does not exist
            key = name
            break
    override = of_keys.get(key)
    if "not in '" in text or "is not in struct" in text:
        return f"{override or key}: {_no_such_key(key)}"
    if "Missing mandatory value" in text:
        return f"{key} is missing: set {key}=VALUE"
    if override and key in RANGES:
        return f"{override}: must be {RANGES[key].text}"
    return None


def _no_such_key(key: str) -> str:
    """Says that a key is unknown, and which key may have been meant."""
    if key.startswith(("dataset.", "training_step.")):
        return f"the chosen {key.partition('.')[0]} has no such argument; ++{key}=VALUE passes it anyway"
    meant = did_you_mean(key, _NAMES, "--help lists the keys")
    return f"there is no key {key}; {meant}"
