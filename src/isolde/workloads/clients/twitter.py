"""Twitter (Difallah et al. 2013): users follow each other, publish tweets, and read those of whom they follow."""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.workloads.clients.tables import Keys, Table

USERS = 3
FOLLOWS, TWEET = Table("follows"), Table("tweet")


def follow(tx: Keys, user: int, other: int) -> None:
    FOLLOWS.insert(tx, (user, other), True)


def publish_tweet(tx: Keys, user: int, number: int) -> None:
    TWEET.insert(tx, (user, number), f"tweet {number}")


def get_followers(tx: Keys, user: int) -> None:
    FOLLOWS.select_where(tx, lambda pair: pair[1] == user)


def get_tweets(tx: Keys, user: int) -> None:
    TWEET.select_where(tx, lambda tweet: tweet[0] == user)


def get_newsfeed(tx: Keys, user: int) -> None:
    """The tweets of everybody whom the user follows."""
    followed = {other for follower, other in tx.read(FOLLOWS.ids) if follower == user}
    TWEET.select_where(tx, lambda tweet: tweet[0] in followed)


def initial() -> dict[Any, Any]:
    return FOLLOWS.initial({(user, (user + 1) % USERS): True for user in range(USERS)}) | TWEET.initial({})


def drawn(random: Random) -> tuple[Any, ...]:
    user, other = random.sample(range(USERS), k=2)
    return random.choice(
        [
            (follow, user, other),
            (publish_tweet, user, random.randrange(100)),
            (get_followers, user),
            (get_tweets, user),
            (get_newsfeed, user),
        ]
    )
