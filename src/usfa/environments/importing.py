"""Things of the user's own by "module:name"."""

from __future__ import annotations

import importlib
from typing import Any

from usfa.errors import InputError, told

__all__ = ["import_module", "imported"]


def imported(where: str, what: str) -> Any:
    """What "module:name" stands for; importing it runs the module.

    Args:
        where: such as "own_features:phi".
        what: what to call it in an error, such as "φ".
    """
    module, _, name = where.partition(":")
    found = import_module(module, f"the {what} {where!r}")
    if not hasattr(found, name):
        raise InputError(f"The module {module!r} has no {name!r}, which the {what} {where!r} names.")
    return getattr(found, name)


def import_module(name: str, wanted_by: str) -> Any:
    """A module by name; one sentence if it is missing or broken."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        hint = "; pip install 'usfa[mo]' brings it" if error.name == "mo_gymnasium" else ""
        raise InputError(f"The module {name!r} of {wanted_by} cannot be imported: {error}{hint}.") from error
    except Exception as error:  # it is other people's code
        raise InputError(f"The module {name!r} of {wanted_by} cannot be imported: {told(error)}.") from error
