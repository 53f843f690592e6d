"""Wikipedia (Difallah et al. 2013): pages are read by anybody, watched by users, and updated."""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.workloads.clients.tables import Keys, Table

USERS, PAGES = 2, 2
PAGE, USER, WATCHED = Table("page"), Table("user"), Table("watched")


def get_page_anonymous(tx: Keys, page: int) -> None:
    PAGE.select(tx, page)


def get_page_authenticated(tx: Keys, user: int, page: int) -> None:
    USER.select(tx, user)
    PAGE.select(tx, page)


def add_to_watch_list(tx: Keys, user: int, page: int) -> None:
    WATCHED.insert(tx, (user, page), True)
    USER.update(tx, user, f"watches {page}")


def remove_from_watch_list(tx: Keys, user: int, page: int) -> None:
    WATCHED.delete(tx, (user, page))
    USER.update(tx, user, f"does not watch {page}")


def update_page(tx: Keys, user: int, page: int, text: int) -> None:
    """A new revision of the page, which whoever watches it will see."""
    revision, _ = PAGE.select(tx, page)
    PAGE.update(tx, page, (revision + 1, text))
    USER.update(tx, user, f"edited {page}")


def initial() -> dict[Any, Any]:
    pages, users = dict.fromkeys(range(PAGES), (0, 0)), dict.fromkeys(range(USERS), "new")
    return PAGE.initial(pages) | USER.initial(users) | WATCHED.initial({})


def drawn(random: Random) -> tuple[Any, ...]:
    user, page = random.randrange(USERS), random.randrange(PAGES)
    return random.choice(
        [
            (get_page_anonymous, page),
            (get_page_authenticated, user, page),
            (add_to_watch_list, user, page),
            (remove_from_watch_list, user, page),
            (update_page, user, page, random.randrange(100)),
        ]
    )
