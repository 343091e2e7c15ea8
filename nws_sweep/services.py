"""What runs beside a search, such as a server that the dataset reads from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from hydra.errors import HydraException
from hydra.utils import instantiate

from nws_sweep.errors import ConfigurationError, NwsSweepError, one_line
from nws_sweep.records import Configuration


@contextmanager
def running(configuration: Configuration) -> Iterator[None]:
    """Runs the services of a configuration during the block.

    Raises:
        ConfigurationError: If one cannot be made or entered.
    """
    with ExitStack() as stack:
        for name, node in configuration.services.items():
            try:
                stack.enter_context(instantiate(dict(node), _convert_="all"))
            except NwsSweepError:
                raise
            except (Exception, SystemExit) as error:  # whatever is wrong with it
                cause = error.__cause__ if isinstance(error, HydraException) and error.__cause__ else error
                raise ConfigurationError(one_line(f"services.{name}: {type(cause).__name__}: {cause}")) from error
        yield
