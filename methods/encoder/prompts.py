"""Which of the prompts that a model is saved with are put before instances and labels."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from xmcbench import UsageError

Side = Literal["instance", "label"]

#: What prompts of one side are called; if several are there, the first one counts.
ROLES: Mapping[Side, tuple[str, ...]] = {"instance": ("query",), "label": ("document", "passage", "corpus")}
#: What is between the words of a longer name: "search_query", "retrieval.query", "Retrieval-query".
_BETWEEN_WORDS = re.compile(r"[\W_]+")


def chosen_prompts(
    model: str,
    prompts: Mapping[str, str | None],
    default_prompt_name: str | None,
    wanted: tuple[str | None, str | None],
) -> tuple[str, str]:
    """The prompts of instances and of labels: those that are wanted, else the model's own; empty where it has none.

    model: its name in errors. prompts: those that it is saved with, by name. wanted: of instances and of labels, None
    for the model's own. That is the prompt with a name of the side ("query"), else with a name that ends with one
    ("search_query"), else the default, unless it is named after a side. sentence-transformers 6 itself overlooks
    "passage", "corpus" and longer names, and the default, because it adds an empty "document" and "query" to what a
    model states.

    Raises UsageError where it is not clear which prompts are meant. Without them, or with others, the model would be a
    worse one under the same name.
    """
    stated = {name: text for name, text in prompts.items() if text}
    default = stated.get(default_prompt_name or "")
    if stated and not default and None in wanted and not any(_side(name) for name in stated):
        raise UsageError(
            f"{model} has prompts whose names fit neither instances nor labels: {', '.join(sorted(stated))}",
            "set instance_prompt and label_prompt; an empty text is no prompt",
        )
    if default and _side(str(default_prompt_name)):
        default = None
    instance, label = wanted
    return (
        _own(model, stated, "instance") or default or "" if instance is None else instance,
        _own(model, stated, "label") or default or "" if label is None else label,
    )


def _own(model: str, stated: Mapping[str, str], side: Side) -> str | None:
    """The prompt that is named after a side, if any. Raises UsageError where several different ones are."""
    exact = next((stated[name] for name in ROLES[side] if name in stated), None)
    if exact is not None:
        return exact
    named = sorted(name for name in stated if _side(name) == side)
    if len({stated[name] for name in named}) > 1:
        raise UsageError(
            f"{model} has several prompts whose names fit {side}s: {', '.join(named)}", f"set {side}_prompt to one"
        )
    return stated[named[0]] if named else None


def _side(name: str) -> Side | None:
    """The side that a prompt is named after: by the last word of its name."""
    last = _BETWEEN_WORDS.split(name.lower())[-1]
    return next((side for side, roles in ROLES.items() if last in roles), None)
