"""Wikipedia: pages with their revisions, read, edited and watched.

After OLTP-Bench (VLDB 2013), whose mix this is: AddWatchList 1, RemoveWatchList 1, UpdatePage 7, GetPageAnonymous 90,
GetPageAuthenticated 1, on 1000 pages and 2000 users, pages drawn by a Zipf law. Columns that no transaction looks at
are left out. What differs:

* UpdatePage reads the page that it edits, and notes its latest revision as the parent of the new one; in OLTP-Bench the
  editor has read it in an earlier transaction. So two edits at once of which one is lost leave two revisions with one
  parent.
* It is one transaction; OLTP-Bench commits in between if somebody watches the page.
* RemoveWatchList of a talk page takes its page along, so that the two are always watched together.
* The ids of revisions, texts and log entries are given, not generated, and one id is used for all that comes with an
  edit.
"""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Rows, Scale, must_hold
from isolde.workloads.applications import APPLICATIONS
from isolde.workloads.applications.drawing import fresh, moment, word, zipfian

DDL = """
CREATE TABLE useracct (
    user_id INTEGER PRIMARY KEY,
    user_name VARCHAR(40) NOT NULL UNIQUE,
    user_editcount INTEGER NOT NULL,
    user_touched BIGINT NOT NULL
);
CREATE TABLE user_groups (
    ug_user INTEGER NOT NULL,
    ug_group VARCHAR(16) NOT NULL,
    PRIMARY KEY (ug_user, ug_group)
);
CREATE TABLE ipblocks (
    ipb_id INTEGER PRIMARY KEY,
    ipb_address VARCHAR(40) NOT NULL,
    ipb_reason VARCHAR(40) NOT NULL
);
CREATE TABLE page (
    page_id INTEGER PRIMARY KEY,
    page_namespace INTEGER NOT NULL,
    page_title VARCHAR(100) NOT NULL,
    page_latest BIGINT NOT NULL,
    page_len INTEGER NOT NULL,
    page_touched BIGINT NOT NULL,
    UNIQUE (page_namespace, page_title)
);
CREATE TABLE page_restrictions (
    pr_page INTEGER NOT NULL,
    pr_type VARCHAR(16) NOT NULL,
    pr_level VARCHAR(16) NOT NULL,
    PRIMARY KEY (pr_page, pr_type)
);
CREATE TABLE page_text (
    old_id BIGINT PRIMARY KEY,
    old_page INTEGER NOT NULL,
    old_text VARCHAR(500) NOT NULL
);
CREATE TABLE revision (
    rev_id BIGINT PRIMARY KEY,
    rev_page INTEGER NOT NULL,
    rev_text_id BIGINT NOT NULL,
    rev_user INTEGER NOT NULL,
    rev_timestamp BIGINT NOT NULL,
    rev_len INTEGER NOT NULL,
    rev_parent_id BIGINT
);
CREATE TABLE recentchanges (
    rc_id BIGINT PRIMARY KEY,
    rc_page INTEGER NOT NULL,
    rc_user INTEGER NOT NULL,
    rc_this_oldid BIGINT NOT NULL,
    rc_last_oldid BIGINT NOT NULL,
    rc_timestamp BIGINT NOT NULL
);
CREATE TABLE logging (
    log_id BIGINT PRIMARY KEY,
    log_page INTEGER NOT NULL,
    log_user INTEGER NOT NULL,
    log_timestamp BIGINT NOT NULL
);
CREATE TABLE watchlist (
    wl_user INTEGER NOT NULL,
    wl_namespace INTEGER NOT NULL,
    wl_title VARCHAR(100) NOT NULL,
    wl_notificationtimestamp BIGINT,
    PRIMARY KEY (wl_user, wl_namespace, wl_title)
);
"""


@transaction
def add_watch_list(tx: Handle, user: int, namespace: int, title: str, now: int) -> None:
    """Watches a page; with a page of the main namespace (0) its talk page (1) too."""
    tx.execute(
        "INSERT INTO watchlist (wl_user, wl_namespace, wl_title, wl_notificationtimestamp)"
        " VALUES (:user, :namespace, :title, NULL) ON CONFLICT (wl_user, wl_namespace, wl_title) DO NOTHING",
        user=user,
        namespace=namespace,
        title=title,
    )
    if namespace == 0:
        tx.execute(
            "INSERT INTO watchlist (wl_user, wl_namespace, wl_title, wl_notificationtimestamp)"
            " VALUES (:user, 1, :title, NULL) ON CONFLICT (wl_user, wl_namespace, wl_title) DO NOTHING",
            user=user,
            title=title,
        )
    tx.execute("UPDATE useracct SET user_touched = :now WHERE user_id = :user", now=now, user=user)


@transaction
def remove_watch_list(tx: Handle, user: int, namespace: int, title: str, now: int) -> None:
    """Watches a page no longer. Without its talk page a page of the main namespace is not watched either."""
    tx.execute(
        "DELETE FROM watchlist WHERE wl_user = :user AND wl_namespace = :namespace AND wl_title = :title",
        user=user,
        namespace=namespace,
        title=title,
    )
    if namespace == 0:
        tx.execute(
            "DELETE FROM watchlist WHERE wl_user = :user AND wl_namespace = 1 AND wl_title = :title",
            user=user,
            title=title,
        )
    if namespace == 1:
        tx.execute(
            "DELETE FROM watchlist WHERE wl_user = :user AND wl_namespace = 0 AND wl_title = :title",
            user=user,
            title=title,
        )
    tx.execute("UPDATE useracct SET user_touched = :now WHERE user_id = :user", now=now, user=user)


@transaction
def get_page_anonymous(tx: Handle, address: str, namespace: int, title: str) -> Any:
    """The text of a page, for somebody who is known by his address."""
    page = tx.one(
        "SELECT page_id, page_latest FROM page WHERE page_namespace = :namespace AND page_title = :title",
        namespace=namespace,
        title=title,
    )
    if page is None:
        tx.abort("no such page")
    tx.all("SELECT pr_type, pr_level FROM page_restrictions WHERE pr_page = :page ORDER BY pr_type", page=page.page_id)
    tx.all("SELECT ipb_id, ipb_reason FROM ipblocks WHERE ipb_address = :address ORDER BY ipb_id", address=address)
    revision = tx.one(
        "SELECT r.rev_id, r.rev_text_id FROM page p JOIN revision r ON r.rev_page = p.page_id AND r.rev_id = p.page_latest"
        " WHERE p.page_id = :page",
        page=page.page_id,
    )
    if revision is None:
        tx.abort("the page has no such revision")
    return tx.value("SELECT old_text FROM page_text WHERE old_id = :text", text=revision.rev_text_id)


@transaction
def get_page_authenticated(tx: Handle, user: int, namespace: int, title: str) -> Any:
    """The text of a page, for a user."""
    known = tx.one("SELECT user_name, user_touched FROM useracct WHERE user_id = :user", user=user)
    if known is None:
        tx.abort("no such user")
    tx.all("SELECT ug_group FROM user_groups WHERE ug_user = :user ORDER BY ug_group", user=user)
    page = tx.one(
        "SELECT page_id, page_latest FROM page WHERE page_namespace = :namespace AND page_title = :title",
        namespace=namespace,
        title=title,
    )
    if page is None:
        tx.abort("no such page")
    tx.all("SELECT pr_type, pr_level FROM page_restrictions WHERE pr_page = :page ORDER BY pr_type", page=page.page_id)
    tx.all("SELECT ipb_id, ipb_reason FROM ipblocks WHERE ipb_address = :name ORDER BY ipb_id", name=known.user_name)
    revision = tx.one(
        "SELECT r.rev_id, r.rev_text_id FROM page p JOIN revision r ON r.rev_page = p.page_id AND r.rev_id = p.page_latest"
        " WHERE p.page_id = :page",
        page=page.page_id,
    )
    if revision is None:
        tx.abort("the page has no such revision")
    return tx.value("SELECT old_text FROM page_text WHERE old_id = :text", text=revision.rev_text_id)


@transaction
def update_page(tx: Handle, edit: int, user: int, namespace: int, title: str, text: str, length: int, now: int) -> None:
    """A new revision of a page, by a user or by nobody in particular (0); who watches the page is told."""
    page = tx.one(
        "SELECT page_id, page_latest FROM page WHERE page_namespace = :namespace AND page_title = :title",
        namespace=namespace,
        title=title,
    )
    if page is None:
        tx.abort("no such page")
    tx.execute(
        "INSERT INTO page_text (old_id, old_page, old_text) VALUES (:edit, :page, :text)",
        edit=edit,
        page=page.page_id,
        text=text,
    )
    tx.execute(
        "INSERT INTO revision (rev_id, rev_page, rev_text_id, rev_user, rev_timestamp, rev_len, rev_parent_id)"
        " VALUES (:edit, :page, :edit, :user, :now, :length, :parent)",
        edit=edit,
        page=page.page_id,
        user=user,
        now=now,
        length=length,
        parent=page.page_latest,
    )
    tx.execute(
        "UPDATE page SET page_latest = :edit, page_touched = :now, page_len = :length WHERE page_id = :page",
        edit=edit,
        now=now,
        length=length,
        page=page.page_id,
    )
    tx.execute(
        "INSERT INTO recentchanges (rc_id, rc_page, rc_user, rc_this_oldid, rc_last_oldid, rc_timestamp)"
        " VALUES (:edit, :page, :user, :edit, :parent, :now)",
        edit=edit,
        page=page.page_id,
        user=user,
        parent=page.page_latest,
        now=now,
    )
    watchers = tx.all(
        "SELECT wl_user FROM watchlist WHERE wl_title = :title AND wl_namespace = :namespace AND wl_user <> :user"
        " AND wl_notificationtimestamp IS NULL ORDER BY wl_user",
        title=title,
        namespace=namespace,
        user=user,
    )
    for watcher in watchers:
        tx.execute(
            "UPDATE watchlist SET wl_notificationtimestamp = :now"
            " WHERE wl_title = :title AND wl_namespace = :namespace AND wl_user = :watcher",
            now=now,
            title=title,
            namespace=namespace,
            watcher=watcher.wl_user,
        )
    tx.execute(
        "INSERT INTO logging (log_id, log_page, log_user, log_timestamp) VALUES (:edit, :page, :user, :now)",
        edit=edit,
        page=page.page_id,
        user=user,
        now=now,
    )
    tx.execute("UPDATE useracct SET user_editcount = user_editcount + 1 WHERE user_id = :user", user=user)
    tx.execute("UPDATE useracct SET user_touched = :now WHERE user_id = :user", now=now, user=user)


def _where(random: Random, scale: Scale) -> dict[str, Any]:
    """A page: each title is there in the main namespace and as a talk page."""
    return {"namespace": random.randrange(2), "title": f"page {zipfian(random, scale['pages'], 1.0)}"}


def _user(random: Random, scale: Scale) -> int:
    return zipfian(random, scale["users"], 0.5)


def _address(random: Random) -> str:
    return f"10.0.0.{random.randrange(256)}"


def _watch(random: Random, scale: Scale) -> dict[str, Any]:
    return {"user": _user(random, scale), **_where(random, scale), "now": moment(random)}


def _anonymous(random: Random, scale: Scale) -> dict[str, Any]:
    return {"address": _address(random), **_where(random, scale)}


def _authenticated(random: Random, scale: Scale) -> dict[str, Any]:
    return {"user": _user(random, scale), **_where(random, scale)}


def _update(random: Random, scale: Scale) -> dict[str, Any]:
    text = word(random, 20, 500)
    # An edit in ten is by somebody without an account.
    user = 0 if random.random() < 0.1 else _user(random, scale)
    where = _where(random, scale)
    return {"edit": fresh(random), "user": user, **where, "text": text, "length": len(text), "now": moment(random)}


def _populate(random: Random, scale: Scale) -> Rows:
    edits = dict.fromkeys(range(1, scale["users"] + 1), 0)
    for number in range(2 * scale["pages"]):
        page, title, author = number + 1, f"page {number // 2 + 1}", random.randint(1, scale["users"])
        edits[author] += 1
        text, now = word(random, 20, 500), moment(random)
        yield "page_text", (page, page, text)
        yield "revision", (page, page, page, author, now, len(text), None)
        yield "page", (page, number % 2, title, page, len(text), now)
        if random.random() < 0.05:
            yield "page_restrictions", (page, "edit", "sysop")
        if number % 2:
            for user in sorted(random.sample(range(1, scale["users"] + 1), min(2, scale["users"]))):
                yield "watchlist", (user, 0, title, None)
                yield "watchlist", (user, 1, title, None)
    for user, count in edits.items():
        yield "useracct", (user, f"user {user}", count, moment(random))
        if random.random() < 0.1:
            yield "user_groups", (user, "sysop")
    for block in range(1, 11):
        yield "ipblocks", (block, _address(random), word(random, 5, 40))


INVARIANTS = (
    must_hold(
        "latest-revision-exists",
        "SELECT p.page_id, p.page_latest FROM page p LEFT JOIN revision r ON r.rev_id = p.page_latest AND r.rev_page = p.page_id"
        " WHERE r.rev_id IS NULL",
        "the latest revision of a page is one of its revisions",
    ),
    must_hold(
        "length-is-of-latest-revision",
        "SELECT p.page_id, p.page_len, r.rev_len FROM page p JOIN revision r ON r.rev_id = p.page_latest"
        " WHERE p.page_len <> r.rev_len",
        "a page is as long as its latest revision",
    ),
    must_hold(
        "revision-has-a-text",
        "SELECT r.rev_id, r.rev_text_id FROM revision r"
        " LEFT JOIN page_text t ON t.old_id = r.rev_text_id AND t.old_page = r.rev_page WHERE t.old_id IS NULL",
        "every revision has the text of its page",
    ),
    must_hold(
        "no-edit-is-lost",
        "SELECT rev_parent_id, COUNT(*) AS children FROM revision WHERE rev_parent_id IS NOT NULL"
        " GROUP BY rev_parent_id HAVING COUNT(*) > 1",
        "no two revisions replace the same one: every edit has seen the one before it",
    ),
    must_hold(
        "latest-revision-is-last",
        "SELECT p.page_id, r.rev_id FROM page p JOIN revision r ON r.rev_parent_id = p.page_latest",
        "no revision replaces the latest one",
    ),
    must_hold(
        "edits-are-counted",
        "SELECT u.user_id, u.user_editcount, r.n FROM useracct u"
        " LEFT JOIN (SELECT rev_user, COUNT(*) AS n FROM revision GROUP BY rev_user) r ON r.rev_user = u.user_id"
        " WHERE u.user_editcount <> COALESCE(r.n, 0)",
        "a user has made as many edits as his counter says",
    ),
    must_hold(
        "edits-are-logged",
        "SELECT r.rev_id FROM revision r LEFT JOIN logging l ON l.log_id = r.rev_id"
        " LEFT JOIN recentchanges c ON c.rc_this_oldid = r.rev_id"
        " WHERE r.rev_parent_id IS NOT NULL AND (l.log_id IS NULL OR c.rc_id IS NULL)",
        "every edit is in the log and among the recent changes",
    ),
    must_hold(
        "watched-with-talk-page",
        "SELECT w.wl_user, w.wl_title FROM watchlist w"
        " LEFT JOIN watchlist t ON t.wl_user = w.wl_user AND t.wl_title = w.wl_title AND t.wl_namespace = 1"
        " WHERE w.wl_namespace = 0 AND t.wl_user IS NULL",
        "who watches a page watches its talk page too",
    ),
)

_ENTRY = APPLICATIONS["wikipedia"]

APPLICATION = Application(
    _ENTRY.name,
    _ENTRY.meaning,
    _ENTRY.source,
    DDL,
    (
        Part(add_watch_list, 1, _watch),
        Part(remove_watch_list, 1, _watch),
        Part(update_page, 7, _update),
        Part(get_page_anonymous, 90, _anonymous),
        Part(get_page_authenticated, 1, _authenticated),
    ),
    _populate,
    {"pages": 1000, "users": 2000},
    INVARIANTS,
)
