"""How the server is: health, policies, queue, view, ledger, sources, threads, certificates, journal."""

import re
from collections.abc import Mapping
from math import inf
from typing import Any

from bayplan.web.frame import facts, frame, heading, mark
from bayplan.web.markup import Child, Html, tag
from bayplan.web.sight import Facts

_TITLES = {
    "health": "Health",
    "policies": "Policies",
    "queue": "Queue",
    "view": "View of the cluster",
    "ledger": "Ledger",
    "sources": "Sources",
    "threads": "Policy threads",
    "certificates": "Certificates",
    "journal": "Journal",
}
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_PROBLEMS = ("problem", "problems", "reloadProblem", "whyNotBind", "unhealthy")


def state_page(known: Facts, *, version: str) -> Html:
    """The whole page."""
    cards = [_card(title, _calm(known[subject])) for subject, title in _TITLES.items() if known.get(subject)]
    cards += [
        _card(subject, known[subject]) for subject in known if subject not in _TITLES and known[subject]
    ]
    return frame(
        "State",
        heading("State"),
        tag("div", cards, id="state", class_="cards", data_live="5000"),
        here="/state",
        version=version,
    )


def _card(title: str, about: Mapping[str, Any]) -> Html:
    bad = any(_bad(name, value) for name, value in about.items())
    pairs: dict[str, Child] = {_words(name): _value(name, value) for name, value in about.items()}
    badge = mark("look") if bad else mark("fine")
    return tag("section", tag("h2", title, " ", badge), facts(pairs), class_="card bad" if bad else "card")


def _calm(about: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same; of a server that stands by, why it does not bind is no problem."""
    if not about.get("standsBy"):
        return about
    return {"because" if name == "whyNotBind" else name: value for name, value in about.items()}


def _bad(name: str, value: Any) -> bool:
    if name not in _PROBLEMS and isinstance(value, Mapping):
        return any(_bad(inner, each) for inner, each in value.items())
    return name in _PROBLEMS and bool(value)


def _value(name: str, value: Any) -> Child:
    if isinstance(value, Mapping):
        bad = name in _PROBLEMS
        return facts(
            {_words(inner): _value("problem" if bad else inner, each) for inner, each in value.items()}
        )
    if value and name in _PROBLEMS:
        return tag("span", value if isinstance(value, str) else ", ".join(value), class_="problem")
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "not known"}[value]
    return _number(name, value) if isinstance(value, int | float) else str(value)


def _number(name: str, value: float) -> str:
    if value == inf:
        return "no value yet"
    if name == "bytes":
        return f"{value / 2**20:.1f} MiB"
    return f"{value:.1f}" if isinstance(value, float) else f"{value:,}"


def _words(name: str) -> str:
    """``ageSeconds`` as ``age seconds``; names of sources stay as they are."""
    return _WORD.sub(" ", name).lower() if name.isalnum() else name
