"""Twitter: tweets, followers, timelines.

The transactions and their mix are those of CobraBench, which TROUBADOUR (OOPSLA 2025) takes too: NewTweet 20, Follow
40, Timeline 10, ShowFollow 10, ShowTweets 20, on 1000 users with 10 tweets each, who all follow themselves. Users are
drawn by a Zipf law. What differs:

* ``users`` counts whom a user follows, and who follows him. Follow looks before it counts, so two of them at once can
  count twice.
* Tweets have a time; ShowTweets asks for the ten newest of a user, where CobraBench takes the ten ids below the last
  one.
* Whether somebody follows is 1 or 0: MariaDB and SQLite have no booleans.
"""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Rows, Scale, must_hold
from isolde.workloads.applications import APPLICATIONS
from isolde.workloads.applications.drawing import fresh, moment, word, zipfian

DDL = """
CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    name VARCHAR(10) NOT NULL,
    follows INTEGER NOT NULL,
    followed_by INTEGER NOT NULL
);
CREATE TABLE tweets (
    id BIGINT PRIMARY KEY,
    author INTEGER NOT NULL,
    data VARCHAR(140) NOT NULL,
    created BIGINT NOT NULL
);
CREATE TABLE last_tweet (
    user_id INTEGER PRIMARY KEY,
    tweet_id BIGINT NOT NULL
);
CREATE TABLE following (
    src INTEGER NOT NULL,
    dst INTEGER NOT NULL,
    since BIGINT NOT NULL,
    follow INTEGER NOT NULL,
    PRIMARY KEY (src, dst)
);
CREATE TABLE followers (
    dst INTEGER NOT NULL,
    src INTEGER NOT NULL,
    since BIGINT NOT NULL,
    follow INTEGER NOT NULL,
    PRIMARY KEY (dst, src)
);
"""


@transaction
def new_tweet(tx: Handle, tweet: int, user: int, data: str, now: int) -> None:
    """Publishes a tweet; it is the last one of its author."""
    tx.execute(
        "INSERT INTO tweets (id, author, data, created) VALUES (:tweet, :user, :data, :now)",
        tweet=tweet,
        user=user,
        data=data,
        now=now,
    )
    tx.execute("UPDATE last_tweet SET tweet_id = :tweet WHERE user_id = :user", tweet=tweet, user=user)


@transaction
def follow(tx: Handle, src: int, dst: int, now: int, wanted: int) -> None:
    """From now on ``src`` follows ``dst`` (``wanted`` is 1), or no longer (0)."""
    before = tx.value("SELECT follow FROM following WHERE src = :src AND dst = :dst", src=src, dst=dst)
    tx.execute(
        "INSERT INTO followers (dst, src, since, follow) VALUES (:dst, :src, :now, :wanted)"
        " ON CONFLICT (dst, src) DO UPDATE SET since = excluded.since, follow = excluded.follow",
        dst=dst,
        src=src,
        now=now,
        wanted=wanted,
    )
    tx.execute(
        "INSERT INTO following (src, dst, since, follow) VALUES (:src, :dst, :now, :wanted)"
        " ON CONFLICT (src, dst) DO UPDATE SET since = excluded.since, follow = excluded.follow",
        src=src,
        dst=dst,
        now=now,
        wanted=wanted,
    )
    change = wanted if before is None else wanted - before
    if change != 0:
        tx.execute("UPDATE users SET follows = follows + :change WHERE id = :src", change=change, src=src)
        tx.execute("UPDATE users SET followed_by = followed_by + :change WHERE id = :dst", change=change, dst=dst)


@transaction
def timeline(tx: Handle, user: int) -> None:
    """The newest tweet of at most 20 whom the user follows."""
    tx.all(
        "SELECT f.dst, t.id, t.data FROM following f JOIN last_tweet l ON l.user_id = f.dst JOIN tweets t ON t.id = l.tweet_id"
        " WHERE f.src = :user AND f.follow = 1 ORDER BY f.dst LIMIT 20",
        user=user,
    )


@transaction
def show_follow(tx: Handle, user: int) -> None:
    """Whom the user follows."""
    tx.all("SELECT dst FROM following WHERE src = :user AND follow = 1 ORDER BY dst", user=user)


@transaction
def show_tweets(tx: Handle, user: int) -> None:
    """The last tweet of a user, and the ten newest."""
    tx.all("SELECT tweet_id FROM last_tweet WHERE user_id = :user", user=user)
    tx.all(
        "SELECT id, data, created FROM tweets WHERE author = :user ORDER BY created DESC, id LIMIT 10",
        user=user,
    )


def _active(random: Random, scale: Scale) -> int:
    return zipfian(random, scale["users"], 0.5)


def _user(random: Random, scale: Scale) -> dict[str, Any]:
    return {"user": _active(random, scale)}


def _new_tweet(random: Random, scale: Scale) -> dict[str, Any]:
    return {
        "tweet": fresh(random),
        "user": _active(random, scale),
        "data": word(random, 10, 140),
        "now": moment(random),
    }


def _follow(random: Random, scale: Scale) -> dict[str, Any]:
    return {
        "src": _active(random, scale),
        "dst": zipfian(random, scale["users"], 1.0),
        "now": moment(random),
        "wanted": random.randrange(2),
    }


def _populate(random: Random, scale: Scale) -> Rows:
    for user in range(1, scale["users"] + 1):
        yield "users", (user, f"user{user}", 1, 1)
        since = moment(random)
        yield "following", (user, user, since, 1)
        yield "followers", (user, user, since, 1)
        tweets = [user * scale["tweets"] + number for number in range(scale["tweets"])]
        for tweet in tweets:
            yield "tweets", (tweet, user, word(random, 10, 140), moment(random))
        if tweets:
            yield "last_tweet", (user, tweets[-1])


INVARIANTS = (
    must_hold(
        "following-has-its-follower",
        "SELECT f.src, f.dst FROM following f LEFT JOIN followers b"
        " ON b.dst = f.dst AND b.src = f.src AND b.follow = f.follow AND b.since = f.since WHERE b.src IS NULL",
        "what one table says about who follows whom, the other says too",
    ),
    must_hold(
        "follower-has-its-following",
        "SELECT b.dst, b.src FROM followers b LEFT JOIN following f"
        " ON f.dst = b.dst AND f.src = b.src AND f.follow = b.follow AND f.since = b.since WHERE f.src IS NULL",
        "and the other way round",
    ),
    must_hold(
        "follows-are-counted",
        "SELECT u.id, u.follows, f.n FROM users u"
        " LEFT JOIN (SELECT src, SUM(follow) AS n FROM following GROUP BY src) f ON f.src = u.id"
        " WHERE u.follows <> COALESCE(f.n, 0)",
        "a user follows as many as his counter says",
    ),
    must_hold(
        "followers-are-counted",
        "SELECT u.id, u.followed_by, f.n FROM users u"
        " LEFT JOIN (SELECT dst, SUM(follow) AS n FROM followers GROUP BY dst) f ON f.dst = u.id"
        " WHERE u.followed_by <> COALESCE(f.n, 0)",
        "a user has as many followers as his counter says",
    ),
    must_hold(
        "last-tweet-exists",
        "SELECT l.user_id, l.tweet_id FROM last_tweet l LEFT JOIN tweets t ON t.id = l.tweet_id AND t.author = l.user_id"
        " WHERE t.id IS NULL",
        "the last tweet of a user is one of his tweets",
    ),
)

_ENTRY = APPLICATIONS["twitter"]

APPLICATION = Application(
    _ENTRY.name,
    _ENTRY.meaning,
    _ENTRY.source,
    DDL,
    (
        Part(new_tweet, 20, _new_tweet),
        Part(follow, 40, _follow),
        Part(timeline, 10, _user),
        Part(show_follow, 10, _user),
        Part(show_tweets, 20, _user),
    ),
    _populate,
    {"users": 1000, "tweets": 10},
    INVARIANTS,
)
