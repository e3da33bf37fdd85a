"""Names of pluggable parts: built-in or registered names, and "module:Class" for user-defined classes.

Agents, networks, trunks, D_z and decision rules are written as text, so that they can be saved, resumed, loaded and
sent to other processes:

    usfa                                   a built-in or registered name
    own_module:OwnAgent                    a class of your own
    own_module:OwnAgent{"beta": 0.5}       the same with arguments

Parsing a text never imports a module. The user's program must have imported it, or the user must have declared that the
file that names it is trusted (:func:`import_modules`).

The command line also looks for such modules in the working directory (:func:`search_working_directory`). The directory
may be a download, so it joins Python's path only once a module that the user named is found in it.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.machinery import PathFinder
from pathlib import Path
from types import FunctionType
from typing import Any, Generic, TypeAlias, TypeVar

from usfa.errors import InputError, told, unknown_name

__all__ = [
    "ClassOrName",
    "Registry",
    "as_tuples",
    "import_module",
    "import_modules",
    "imported",
    "is_own",
    "made",
    "path_of",
    "resolve",
    "search_working_directory",
    "text_of",
    "without_working_directory",
]

Part = TypeVar("Part")
ClassOrName: TypeAlias = "str | type[Any] | partial[Any]"
"""A name, a class, or `functools.partial(class, argument=…)`."""

_OWN = re.compile(r"(?P<module>[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)(?P<arguments>\{.*\})?", re.DOTALL)


class Registry(Generic[Part]):
    """Classes of one kind by name."""

    def __init__(self, kind: str, base: type[Any], ours: Mapping[str, Callable[..., Part]]) -> None:
        self.kind = kind
        self._base = base
        self._classes = dict(ours)

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def name_of(self, part: Callable[..., Part]) -> str | None:
        """The name of a built-in or registered class."""
        return next((name for name, known in self._classes.items() if known is part), None)

    def register(self, name: str, part: Callable[..., Part]) -> None:
        """Register a class under a name, in this process only."""
        if not (isinstance(name, str) and re.fullmatch(r"[\w-]+", name)):
            raise InputError(f"The name of the {self.kind} is {name!r}; expected letters, digits, - and _.")
        if name in self._classes and self._classes[name] is not part:
            raise InputError(f"The {self.kind} {name!r} is registered already; expected a new name.")
        self._classes[name] = part

    def find(self, part: ClassOrName) -> Callable[..., Part]:
        """Find the class that a text names, with its arguments."""
        text = text_of(part, self.kind)
        name, brace, arguments = text.partition("{")
        if name in self._classes:
            found = self._classes[name]
            return partial(found, **_arguments(brace + arguments, text, self.kind)) if brace else found
        if not is_own(text):
            raise unknown_name(self.kind, text, self._classes)
        own: Callable[..., Part] = resolve(text, self.kind, lambda cls: issubclass(cls, self._base), self._expected)
        return own

    @property
    def _expected(self) -> str:
        return f"a class derived from {self._base.__module__.rpartition('.')[0]}.{self._base.__name__}"

    def make(self, part: ClassOrName, *arguments: Any) -> Part:
        """Make an object of the class that a text names."""
        return made(text_of(part, self.kind), self.kind, self.find(part), *arguments)


def made(text: str, kind: str, make: Callable[..., Part], *arguments: Any) -> Part:
    """Call a class; if this fails and the class is user-defined or its text has arguments, raise InputError."""
    try:
        return make(*arguments)
    except InputError:
        raise
    except Exception as error:  # the class is the user's code and may raise anything
        if not is_own(text) and "{" not in text:
            raise
        raise InputError(f"The {kind} {text!r} cannot be made: {told(error)}.") from error


def is_own(text: str) -> bool:
    """Whether a text has the form "module:Class"."""
    return _OWN.fullmatch(text) is not None


def resolve(text: str, kind: str, fits: Callable[[type[Any]], bool], expected: str) -> Callable[..., Any]:
    """Find the class of "module:Class{arguments}"; raise InputError if there is none, or one of another kind.

    Args:
        text: a text from :func:`text_of`.
        kind: name of the kind in errors, such as "trunk".
        fits: whether a class is of this kind. Only such classes are ever called, because files may be untrusted.
        expected: description of valid classes in errors.
    """
    parts = _OWN.fullmatch(text)
    if parts is None:
        raise InputError(f"The {kind} is {text!r}; expected a name, or module:Class.")
    module, name = parts["module"], parts["name"]
    if module not in sys.modules:
        if not _exists(module.partition(".")[0]):  # looking for a submodule would import its package
            raise InputError(
                f"The module {module!r} of the {kind} {text!r} is not found; expected one on Python's path."
            )
        raise InputError(
            f"The {kind} {text!r} is in the module {module!r}, which is not imported; import it first, or set trust "
            "(--trust) if you trust it."
        )
    thing = vars(sys.modules[module]).get(name)  # not getattr, which can import other modules
    if thing is None:
        raise InputError(f"The module {module!r} has no class {name!r}; expected {expected}.")
    if not isinstance(thing, type) or not fits(thing):
        raise InputError(f"The {kind} {text!r} is {thing!r}; expected {expected}.")
    if not parts["arguments"]:
        return thing
    return partial(thing, **_arguments(parts["arguments"], text, kind))


def _arguments(given: str, text: str, kind: str) -> dict[str, Any]:
    try:
        arguments = json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InputError(f"The {kind} is {text!r}, whose arguments are not JSON: {error}.") from error
    return {key: as_tuples(value) for key, value in arguments.items()}


def as_tuples(value: Any) -> Any:
    """Convert lists to tuples, which dataclasses can compare and hash; JSON has no tuples."""
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def text_of(part: object, setting: str) -> str:
    """The text of a class, a partial, or an object; raise InputError if it cannot be resolved later.

    Args:
        part: a text, returned unchanged; a class; `functools.partial(class, argument=…)`; an instance of a dataclass;
            or an instance without attributes.
        setting: name of the setting in errors.
    """
    if isinstance(part, str):
        return part
    if isinstance(part, type):
        return path_of(part, setting)
    if isinstance(part, partial) and isinstance(part.func, type) and not part.args:
        return path_of(part.func, setting) + (_json(part.keywords, setting, part) if part.keywords else "")
    if dataclasses.is_dataclass(part):
        fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part) if field.init}
        return path_of(type(part), setting) + (_json(fields, setting, part) if fields else "")
    if getattr(part, "__dict__", None) == {} and not isinstance(part, FunctionType | partial):
        return path_of(type(part), setting)
    raise InputError(
        f"{setting} is {part!r}, which cannot be saved; expected a name, an instance of a dataclass, or a class."
    )


def _json(arguments: Mapping[str, Any], setting: str, part: object) -> str:
    for name, value in arguments.items():
        if not _is_plain(value):
            raise InputError(
                f"{setting} is {part!r}, whose argument {name} cannot be saved; expected numbers, texts, or tuples of "
                "them."
            )
    return json.dumps(arguments, sort_keys=True)


def _is_plain(value: object) -> bool:
    """Whether a value survives conversion to JSON and back, except that lists become tuples."""
    if isinstance(value, list | tuple):
        return type(value) in (list, tuple) and all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def path_of(thing: type[Any] | FunctionType, setting: str) -> str:
    """The text "module:name" of a class or function at the top level of a module; a script is named after its file."""
    kind = "class" if isinstance(thing, type) else "function"
    module = thing.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)  # of `python -m package.module`
        module = spec.name if spec is not None else Path(getattr(main, "__file__", None) or "").stem
        if not all(part.isidentifier() for part in module.split(".")):
            raise InputError(f"{setting} is {thing!r}; expected a {kind} in a file whose name can be imported.")
        sys.modules.setdefault(module, main)
    if getattr(sys.modules.get(module), thing.__qualname__, None) is not thing:
        raise InputError(
            f"{setting} is {thing!r}, which cannot be found again; expected a {kind} at the top of a module."
        )
    return f"{module}:{thing.__qualname__}"


def import_modules(texts: Iterable[object]) -> None:
    """Import the modules of all texts of the form "module:Class". Use it only with trusted texts."""
    for text in texts:
        parts = _OWN.fullmatch(text.removeprefix("task+").removeprefix("task|")) if isinstance(text, str) else None
        if parts is None or parts["module"] in sys.modules:
            continue
        _add_directory_of(parts["module"])
        if _exists(parts["module"]):
            import_module(parts["module"], repr(text))


_SAFE_PATH = "PYTHONSAFEPATH"
_searched: list[str] = []  # the directory for modules that the user names, besides Python's path


def search_working_directory() -> None:
    """Also look in the working directory for modules that the user names, without adding it to Python's path yet."""
    with suppress(FileNotFoundError):  # it was deleted
        _searched[:] = [os.getcwd()]


@contextmanager
def without_working_directory() -> Iterator[None]:
    """Start Python processes without the working directory, which `multiprocessing` would put on their path.

    A process that multiprocessing starts gets the path of this one, but imports its first modules before that.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        del os.environ[_SAFE_PATH]
        if before is not None:
            os.environ[_SAFE_PATH] = before


def _add_directory_of(module: str) -> None:
    """Add the searched directory to Python's path if it has the module, and Python's path does not."""
    package = module.partition(".")[0]
    if package in sys.modules or importlib.util.find_spec(package) is not None:
        return
    if PathFinder.find_spec(package, _searched) is not None:
        sys.path.extend(_searched)


def _exists(module: str) -> bool:
    package, dot, _ = module.partition(".")
    try:
        found = PathFinder.find_spec(package, _searched) if not dot else None
        return found is not None or importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):
        return False
    except Exception:  # its package fails to import; the import below reports the reason
        return True


def imported(where: str, what: str) -> Any:
    """Import the object that "module:name" refers to; this runs the module.

    Args:
        where: such as "own_features:phi".
        what: kind of object for error messages, such as "φ".
    """
    module, _, name = where.partition(":")
    found = import_module(module, f"the {what} {where!r}")
    if not hasattr(found, name):
        raise InputError(f"The module {module!r} has no {name!r}, which the {what} {where!r} names.")
    return getattr(found, name)


def import_module(name: str, wanted_by: str) -> Any:
    """Import a module that the user named; raise InputError if it is missing or its import fails."""
    try:
        _add_directory_of(name)
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        hint = "; pip install 'usfa[mo]' brings it" if error.name == "mo_gymnasium" else ""
        raise InputError(f"The module {name!r} of {wanted_by} cannot be imported: {error}{hint}.") from error
    except Exception as error:  # the module is the user's code and may raise anything
        raise InputError(f"The module {name!r} of {wanted_by} cannot be imported: {told(error)}.") from error
