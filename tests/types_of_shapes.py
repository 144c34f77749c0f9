"""Run-time checks of the types of shapes: those of jaxtyping, with less work for each call.

`jaxtyping.jaxtyped` binds each call to its signature and checks the arguments twice, in functions
beside the checked one. This took most of the time of the tests. Here beartype wraps the function
itself: arguments are checked before the call and the result after it, in one context of axes. Of
the calls of a function in one test, the first ones are checked, as a training repeats them
thousands of times."""

import inspect
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from functools import partial, wraps
from types import FunctionType, SimpleNamespace
from typing import Any, TypeVar, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from torch import nn

ERRORS = BeartypeConf(violation_type=jaxtyping.TypeCheckError)
AXES = jaxtyping.jaxtyped("context")
"""Context in which an axis has one size. It has no state of its own."""

CALLS = 10
"""Number of checked calls of a function in a test."""


class Turn:
    """The test that runs, by its number."""

    number = 0


def find_submodules() -> None:
    """Let protocols find the submodules and parameters of a module. Since Python 3.12, `isinstance`
    reads attributes without `__getattr__`, by which a module has them."""
    static = inspect.getattr_static

    def find(instance: Any, name: str) -> Any:
        is_module = isinstance(instance, nn.Module)
        return getattr(instance, name) if is_module else static(instance, name)

    if hasattr(typing, "_lazy_load_getattr_static"):
        typing._lazy_load_getattr_static = lambda: find


def jaxtyped(function: Any = None, *, typechecker: Callable[..., Any], original: Any) -> Any:
    """Return the function with checks of its arguments and its result. Takes the place of
    `jaxtyping.jaxtyped`, which is `original` and still checks generators."""
    if function is None:
        return partial(jaxtyped, typechecker=typechecker, original=original)
    if inspect.isclass(function):
        if is_dataclass(function) and not hasattr(function.__init__, "is_checked"):
            function.__init__ = _checked(function.__init__)
        return function
    if not isinstance(function, FunctionType) or _needs_more(function):
        return original(function, typechecker=typechecker)
    return _checked(function)


def _needs_more(function: FunctionType) -> bool:
    """Whether the body runs after the call, in another context of axes, or the size of an axis is
    an argument, as in `Int[Tensor, "{count} source"]`."""
    return (
        inspect.isgeneratorfunction(function)
        or inspect.iscoroutinefunction(function)
        or inspect.isasyncgenfunction(function)
        or any("{" in str(hint) for hint in function.__annotations__.values())
    )


def _checked(function: FunctionType) -> Callable[..., Any]:
    """Return the function with checks, which are compiled at the first call: most of the functions
    that are imported are never called."""
    settings = jaxtyping.config
    check: Callable[..., Any] | None = None
    has_axes = False
    turn, left = -1, 0

    @wraps(function)
    def checked(*arguments: Any, **named: Any) -> Any:
        nonlocal check, has_axes, turn, left
        if turn != Turn.number:
            turn, left = Turn.number, CALLS
        if not left or settings.jaxtyping_disable:
            return function(*arguments, **named)
        left -= 1
        if check is None:
            check, has_axes = _compiled(function)
        if not has_axes:
            return check(*arguments, **named)
        with AXES:
            return check(*arguments, **named)

    checked.is_checked = True
    return checked


def _compiled(function: FunctionType) -> tuple[Callable[..., Any], bool]:
    """Return the function with checks of its types, and whether one of them names axes."""
    copy = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    copy.__annotations__ = {
        name: _evaluated(hint, function) for name, hint in function.__annotations__.items()
    }
    return beartype(copy, conf=ERRORS), any(map(_has_axes, copy.__annotations__.values()))


def _evaluated(hint: Any, function: FunctionType) -> Any:
    """Return the type that a string stands for. As in jaxtyping, a name that is not defined, such
    as one that is imported for type checkers alone, is not checked."""
    holder = SimpleNamespace(__annotations__={"value": hint})
    try:
        return get_type_hints(holder, function.__globals__, include_extras=True)["value"]
    except NameError:
        return Any


def _has_axes(hint: Any) -> bool:
    """Whether the type names axes; without them, a call needs no context."""
    if isinstance(hint, TypeVar):
        return _has_axes(hint.__bound__) or any(map(_has_axes, hint.__constraints__))
    if inspect.isclass(hint) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(map(_has_axes, get_args(hint)))
