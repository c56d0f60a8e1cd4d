"""What an attack is: a function (scene), registered with its name. It raises Succeeded where it got what it must not get."""

import dataclasses
import typing


class Succeeded(Exception):
    """The attack did; the text says what."""


@dataclasses.dataclass
class Attack:
    name: str
    about: str
    run: typing.Callable
    refused: tuple  # names of the ensembles where something of it is refused by a process, and so must be counted by name
    scenes: tuple  # names of the ensembles that it is carried out against
    disturbs: bool  # it stops processes by itself, as an operator could: good clients' times are not held against it


ATTACKS = []
EVERYWHERE = ("generic", "native", "name-hashing", "one-process")


def attack(name, about, *, refused=True, scenes=("generic",), disturbs=False):
    """Registers the function below it. `refused`: everywhere, nowhere, or the names of ensembles."""
    def register(function):
        counted = refused if isinstance(refused, tuple) else scenes if refused else ()
        ATTACKS.append(Attack(name, about, function, counted, scenes, disturbs))
        return function
    return register


def must(good, text):
    if not good:
        raise Succeeded(text)
