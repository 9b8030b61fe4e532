"""Parses the command line of a container: the program, its flags, and their places in the manifest."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bayplan.kube.yaml import Path

Word = tuple[Path, str]
_LAUNCHERS = frozenset({"dumb-init", "env", "exec", "go-runner", "hyperkube", "nohup", "tini"})
_SHELLS = frozenset({"ash", "bash", "dash", "sh"})
_OPERATORS = frozenset("();<>|&")


@dataclass(frozen=True)
class Flag:
    """``--config=/a/b``, or ``--config /a/b`` in two words."""

    name: str
    value: str
    path: Path


def arguments_of(container: Mapping[str, Any], at: Path, *, program: str, image: str) -> list[Word] | None:
    """The arguments of the program; ``None`` if the container runs another one.

    ``image`` is the name of the container's image: without a command it is the program that is run.
    """
    command, args = (_words(container, at, key) for key in ("command", "args"))
    for words in _commands([*command, *args]):
        for number, (_, word) in enumerate(words):
            if _base(word) == program:
                return words[number + 1 :]
            # Elsewhere the word may be an argument: `kubectl logs kube-scheduler`.
            if number == 0 and _base(word) not in _LAUNCHERS and "=" not in word:
                break
    return args if not command and image == program else None


def flags_of(words: Sequence[Word]) -> Iterator[Flag]:
    """The flags among the words, with ``-`` for ``_`` as kube-scheduler reads them."""
    for number, (path, word) in enumerate(words):
        if word == "--":
            return
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and number + 1 < len(words) and not words[number + 1][1].startswith("-"):
                value = words[number + 1][1]
            yield Flag(name.replace("_", "-"), value, path)


def _words(container: Mapping[str, Any], at: Path, key: str) -> list[Word]:
    listed = container.get(key)
    words = listed if isinstance(listed, list) else []
    return [((*at, key, number), word) for number, word in enumerate(words) if isinstance(word, str)]


def _commands(words: list[Word]) -> Iterator[list[Word]]:
    """The command itself, or each command in the script of a shell."""
    if not words or _base(words[0][1]) not in _SHELLS:
        yield words
        return
    options = [number for number, (_, word) in enumerate(words) if word.startswith("-") and word[-1] == "c"]
    for path, script in words[options[0] + 1 : options[0] + 2] if options else ():
        for line in script.replace("\\\n", " ").splitlines():
            yield from _of_script(path, line)


def _of_script(path: Path, line: str) -> Iterator[list[Word]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    command: list[Word] = []
    try:
        for word in lexer:
            if word and set(word) <= _OPERATORS:
                yield command
                command = []
            else:
                command.append((path, word))
    except ValueError:
        # An open quotation, which goes on in another line: skipped.
        return
    yield command


def _base(word: str) -> str:
    return word.rpartition("/")[2]
