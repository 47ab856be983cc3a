"""What a person may call a store on the command line."""

import os

from coffer.errors import Invalid, ScopeUnresolved, StoreNotFound
from memory.models import Store
from memory.services import facts, stores


def named(given: str, *, writing: bool = False) -> Store:
    """A store by name, by label, or ``.`` for the project of the current folder."""
    if given == ".":
        place = stores.locate(os.getcwd())
        if place.project is None:
            raise ScopeUnresolved(
                f"{place.reason} cd into a repository, or give global or a name that `coffer memory list` shows."
            )
        if writing:
            return stores.for_writing(place, "project")
        found = stores.for_reading(place, "project")
        if not found:
            raise StoreNotFound("This project has no memory yet; `coffer memory add . TEXT` begins it.")
        return found[0]
    if stores.is_name(given):
        return stores.provision(given) if writing else stores.get(given)
    labelled = [store for store in stores.all_stores() if stores.display_name(store) == given]
    if len(labelled) > 1:
        raise Invalid(f"{len(labelled)} stores are shown as {given!r}; use a name from `coffer memory list`.")
    if not labelled:
        raise StoreNotFound(
            f"There is no store {given[:80]!r}. Give a name or label that `coffer memory list` shows, global, or . for "
            "the project of this folder."
        )
    return labelled[0]


def named_for(text: str, given: str) -> Store:
    """The store that a new fact goes to, made if this is its first. Raises Rejected before anything is made."""
    try:
        store = named(given)
    except StoreNotFound:
        store = Store()  # the settings of one that is not there yet
    facts.checked_text(store, text)
    return named(given, writing=True)
