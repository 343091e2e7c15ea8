"""Attributes of results that do not exist: an error names what may have been meant."""

from typing import TYPE_CHECKING, Any, NoReturn

from nws_sweep.config.suggestions import suggestion


class SuggestsAttributes:
    """A result whose AttributeError names the attribute that was probably meant, or
    all attributes.

    ``result["num_workers"]``, as of a mapping or a table, is a TypeError that does
    so, too.
    """

    if not TYPE_CHECKING:  # else type checkers would accept any name

        def __getattr__(self, name: str) -> NoReturn:
            # copy, pickle and notebooks ask for names with underscores
            if name.startswith("_") or hasattr(type(self), name):
                # the second time, the error of a property is raised
                return object.__getattribute__(self, name)
            missing = f"{type(self).__name__} has no attribute {name}"
            # with the name, Python adds no suggestion of its own
            raise AttributeError(f"{missing}; {_meant(self, name)}", name=name)

        def __getitem__(self, key: Any) -> NoReturn:
            kind = type(self).__name__
            raise TypeError(
                f"{kind} has attributes, no items; {_meant(self, str(key))}"
            )


def _meant(result: object, name: str) -> str:
    names = [public for public in dir(result) if not public.startswith("_")]
    meant = suggestion(name, names)
    if not meant:
        return f"it has {', '.join(names)}"
    call = "()" if callable(getattr(type(result), meant, None)) else ""
    return f"did you mean {meant}{call}?"
