"""RUBiS: an auction site.

The transactions and their mix are those of CobraBench, which TROUBADOUR (OOPSLA 2025) takes too: RegisterUser 10,
RegisterItem 15, StoreBuyNow 15, StoreComment 20, RandomBrowse 40, on 1000 users with four items each and two comments
on each item. What differs:

* StoreBid of RUBiS is there too, or there would be no auction; in their mix it does not come, so its weight is 0.
* StoreBuyNow sells only what is there, and an item knows how much was offered at first.
* StoreComment adds to the rating of a user, as in RUBiS itself; CobraBench overwrites it.
* Amounts are whole cents.
"""

from __future__ import annotations

from random import Random
from typing import Any

from isolde.tx.python import Handle, transaction
from isolde.workloads.application import Application, Part, Rows, Scale, must_hold
from isolde.workloads.applications import APPLICATIONS
from isolde.workloads.applications.drawing import fresh, moment, word

DDL = """
CREATE TABLE regions (
    id INTEGER PRIMARY KEY,
    name VARCHAR(20) NOT NULL UNIQUE
);
CREATE TABLE users (
    id BIGINT PRIMARY KEY,
    first_name VARCHAR(20) NOT NULL,
    last_name VARCHAR(20) NOT NULL,
    nick_name VARCHAR(30) NOT NULL UNIQUE,
    email VARCHAR(60) NOT NULL,
    balance BIGINT NOT NULL,
    created BIGINT NOT NULL,
    region INTEGER NOT NULL
);
CREATE TABLE ratings (
    user_id BIGINT PRIMARY KEY,
    rating INTEGER NOT NULL
);
CREATE TABLE items (
    id BIGINT PRIMARY KEY,
    name VARCHAR(20) NOT NULL,
    description VARCHAR(100) NOT NULL,
    initial_price BIGINT NOT NULL,
    reserve_price BIGINT NOT NULL,
    buy_now BIGINT NOT NULL,
    offered INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    nb_of_bids INTEGER NOT NULL,
    max_bid BIGINT NOT NULL,
    seller BIGINT NOT NULL,
    category INTEGER NOT NULL
);
CREATE TABLE bids (
    id BIGINT PRIMARY KEY,
    bidder BIGINT NOT NULL,
    item BIGINT NOT NULL,
    bid BIGINT NOT NULL,
    placed BIGINT NOT NULL
);
CREATE TABLE comments (
    id BIGINT PRIMARY KEY,
    from_user BIGINT NOT NULL,
    to_user BIGINT NOT NULL,
    item BIGINT NOT NULL,
    rating INTEGER NOT NULL,
    written BIGINT NOT NULL,
    comment_text VARCHAR(100) NOT NULL
);
CREATE TABLE buy_now (
    id BIGINT PRIMARY KEY,
    buyer BIGINT NOT NULL,
    item BIGINT NOT NULL,
    qty INTEGER NOT NULL
);
"""


@transaction
def register_user(
    tx: Handle, user: int, first_name: str, last_name: str, nick_name: str, email: str, region: str, now: int
) -> bool:
    """Whether the region is known and the nick name free."""
    home = tx.value("SELECT id FROM regions WHERE name = :region", region=region)
    if home is None:
        return False
    taken = tx.value("SELECT id FROM users WHERE nick_name = :nick_name", nick_name=nick_name)
    if taken is not None:
        return False
    tx.execute(
        "INSERT INTO users (id, first_name, last_name, nick_name, email, balance, created, region)"
        " VALUES (:user, :first_name, :last_name, :nick_name, :email, 0, :now, :home)",
        user=user,
        first_name=first_name,
        last_name=last_name,
        nick_name=nick_name,
        email=email,
        now=now,
        home=home,
    )
    tx.execute("INSERT INTO ratings (user_id, rating) VALUES (:user, 0)", user=user)
    return True


@transaction
def register_item(
    tx: Handle, item: int, name: str, description: str, price: int, quantity: int, seller: int, category: int
) -> bool:
    """Whether the seller is known. The reserve price and the price for a direct sale follow from the first one."""
    known = tx.value("SELECT id FROM users WHERE id = :seller", seller=seller)
    if known is None or quantity < 0:
        return False
    tx.execute(
        "INSERT INTO items (id, name, description, initial_price, reserve_price, buy_now, offered, quantity, nb_of_bids,"
        " max_bid, seller, category) VALUES (:item, :name, :description, :price, :reserve, :direct, :quantity, :quantity, 0,"
        " 0, :seller, :category)",
        item=item,
        name=name,
        description=description,
        price=price,
        reserve=price + price,
        direct=price + price + price,
        quantity=quantity,
        seller=seller,
        category=category,
    )
    return True


@transaction
def store_bid(tx: Handle, bid: int, bidder: int, item: int, amount: int, now: int) -> bool:
    """Whether the bid is the highest so far. The item keeps the highest bid and their number."""
    found = tx.one("SELECT max_bid, nb_of_bids, initial_price FROM items WHERE id = :item", item=item)
    if found is None:
        return False
    if amount <= found.max_bid or amount < found.initial_price:
        return False
    tx.execute(
        "INSERT INTO bids (id, bidder, item, bid, placed) VALUES (:id, :bidder, :item, :amount, :now)",
        id=bid,
        bidder=bidder,
        item=item,
        amount=amount,
        now=now,
    )
    tx.execute(
        "UPDATE items SET max_bid = :amount, nb_of_bids = :bids WHERE id = :item",
        amount=amount,
        bids=found.nb_of_bids + 1,
        item=item,
    )
    return True


@transaction
def store_buy_now(tx: Handle, purchase: int, buyer: int, item: int, qty: int) -> bool:
    """Whether there was enough. Reads the quantity and writes it back, as RUBiS does."""
    found = tx.one("SELECT quantity FROM items WHERE id = :item", item=item)
    if found is None:
        return False
    if qty <= 0 or found.quantity < qty:
        return False
    tx.execute("UPDATE items SET quantity = :left WHERE id = :item", left=found.quantity - qty, item=item)
    tx.execute(
        "INSERT INTO buy_now (id, buyer, item, qty) VALUES (:purchase, :buyer, :item, :qty)",
        purchase=purchase,
        buyer=buyer,
        item=item,
        qty=qty,
    )
    return True


@transaction
def store_comment(
    tx: Handle, comment: int, from_user: int, to_user: int, item: int, rating: int, text: str, now: int
) -> bool:
    """Whether the user who is commented on is known. The comment's rating is added to his."""
    found = tx.one("SELECT rating FROM ratings WHERE user_id = :to_user", to_user=to_user)
    if found is None:
        return False
    tx.execute(
        "INSERT INTO comments (id, from_user, to_user, item, rating, written, comment_text)"
        " VALUES (:comment, :from_user, :to_user, :item, :rating, :now, :text)",
        comment=comment,
        from_user=from_user,
        to_user=to_user,
        item=item,
        rating=rating,
        now=now,
        text=text,
    )
    tx.execute(
        "UPDATE ratings SET rating = :rating WHERE user_id = :to_user",
        rating=found.rating + rating,
        to_user=to_user,
    )
    return True


@transaction
def random_browse(
    tx: Handle, item1: int, item2: int, item3: int, item4: int, item5: int, user1: int, user2: int, user3: int
) -> None:
    """Five items and three ratings."""
    tx.all(
        "SELECT id, name, max_bid, quantity FROM items WHERE id IN (:item1, :item2, :item3, :item4, :item5) ORDER BY id",
        item1=item1,
        item2=item2,
        item3=item3,
        item4=item4,
        item5=item5,
    )
    tx.all(
        "SELECT user_id, rating FROM ratings WHERE user_id IN (:user1, :user2, :user3) ORDER BY user_id",
        user1=user1,
        user2=user2,
        user3=user3,
    )


def _user(random: Random, scale: Scale) -> int:
    return random.randint(1, scale["users"])


def _item(random: Random, scale: Scale) -> int:
    return random.randint(1, scale["users"] * scale["items"])


def _register_user(random: Random, scale: Scale) -> dict[str, Any]:
    nick = f"nick{random.randint(1, 100 * scale['users'])}"
    return {
        "user": fresh(random),
        "first_name": word(random, 3, 20),
        "last_name": word(random, 3, 20),
        "nick_name": nick,
        "email": f"{nick}@example.org",
        "region": f"region{random.randint(1, scale['regions'])}",
        "now": moment(random),
    }


def _register_item(random: Random, scale: Scale) -> dict[str, Any]:
    return {
        "item": fresh(random),
        "name": word(random, 3, 20),
        "description": word(random, 10, 100),
        "price": random.randint(1_00, 100_00),
        "quantity": random.randint(1, 10),
        "seller": _user(random, scale),
        "category": random.randint(1, 20),
    }


def _store_bid(random: Random, scale: Scale) -> dict[str, Any]:
    return {
        "bid": fresh(random),
        "bidder": _user(random, scale),
        "item": _item(random, scale),
        "amount": random.randint(1_00, 1000_00),
        "now": moment(random),
    }


def _store_buy_now(random: Random, scale: Scale) -> dict[str, Any]:
    return {
        "purchase": fresh(random),
        "buyer": _user(random, scale),
        "item": _item(random, scale),
        "qty": random.randint(1, 3),
    }


def _store_comment(random: Random, scale: Scale) -> dict[str, Any]:
    return {
        "comment": fresh(random),
        "from_user": _user(random, scale),
        "to_user": _user(random, scale),
        "item": _item(random, scale),
        "rating": random.randint(-5, 5),
        "text": word(random, 10, 100),
        "now": moment(random),
    }


def _random_browse(random: Random, scale: Scale) -> dict[str, Any]:
    items = {f"item{number}": _item(random, scale) for number in range(1, 6)}
    return {**items, **{f"user{number}": _user(random, scale) for number in range(1, 4)}}


def _populate(random: Random, scale: Scale) -> Rows:
    users, per_user = scale["users"], scale["items"]
    for region in range(1, scale["regions"] + 1):
        yield "regions", (region, f"region{region}")
    ratings = dict.fromkeys(range(1, users + 1), 0)
    for user in ratings:
        home = random.randint(1, scale["regions"])
        name = (word(random, 3, 20), word(random, 3, 20), f"user{user}", f"user{user}@example.org")
        yield "users", (user, *name, 0, moment(random), home)
    comment = 0
    for item in range(1, users * per_user + 1):
        seller, price, quantity = (item - 1) // per_user + 1, random.randint(1_00, 100_00), random.randint(1, 10)
        prices = (price, 2 * price, 3 * price)
        yield (
            "items",
            (
                *(item, word(random, 3, 20), word(random, 10, 100), *prices, quantity, quantity, 0, 0),
                *(seller, random.randint(1, 20)),
            ),
        )
        for _ in range(scale["comments"]):
            comment += 1
            rating = random.randint(-5, 5)
            ratings[seller] += rating
            yield (
                "comments",
                (
                    *(comment, random.randint(1, users), seller, item, rating, moment(random)),
                    word(random, 10, 100),
                ),
            )
    for user, rating in ratings.items():
        yield "ratings", (user, rating)


INVARIANTS = (
    must_hold(
        "max-bid-is-highest-bid",
        "SELECT i.id, i.max_bid, b.highest FROM items i"
        " LEFT JOIN (SELECT item, MAX(bid) AS highest FROM bids GROUP BY item) b ON b.item = i.id"
        " WHERE i.max_bid <> COALESCE(b.highest, 0)",
        "an item knows its highest bid",
    ),
    must_hold(
        "bids-are-counted",
        "SELECT i.id, i.nb_of_bids, b.n FROM items i"
        " LEFT JOIN (SELECT item, COUNT(*) AS n FROM bids GROUP BY item) b ON b.item = i.id"
        " WHERE i.nb_of_bids <> COALESCE(b.n, 0)",
        "an item knows how many bids there are",
    ),
    must_hold(
        "quantity-is-what-is-not-sold",
        "SELECT i.id, i.offered, i.quantity, p.sold FROM items i"
        " LEFT JOIN (SELECT item, SUM(qty) AS sold FROM buy_now GROUP BY item) p ON p.item = i.id"
        " WHERE i.quantity <> i.offered - COALESCE(p.sold, 0)",
        "what was offered is still there or was sold",
    ),
    must_hold(
        "quantity-not-negative",
        "SELECT id, quantity FROM items WHERE quantity < 0",
        "no more is sold than is there",
    ),
    must_hold(
        "rating-is-sum-of-comments",
        "SELECT r.user_id, r.rating, c.total FROM ratings r"
        " LEFT JOIN (SELECT to_user, SUM(rating) AS total FROM comments GROUP BY to_user) c ON c.to_user = r.user_id"
        " WHERE r.rating <> COALESCE(c.total, 0)",
        "the rating of a user is what the comments on him add up to",
    ),
    must_hold(
        "every-user-is-rated",
        "SELECT u.id FROM users u LEFT JOIN ratings r ON r.user_id = u.id WHERE r.user_id IS NULL",
        "a user and his rating are registered together",
    ),
    must_hold(
        "every-item-has-a-seller",
        "SELECT i.id, i.seller FROM items i LEFT JOIN users u ON u.id = i.seller WHERE u.id IS NULL",
        "items are sold by users that exist",
    ),
    must_hold(
        "every-bid-has-an-item",
        "SELECT b.id, b.item FROM bids b LEFT JOIN items i ON i.id = b.item WHERE i.id IS NULL",
        "bids are for items that exist",
    ),
    must_hold(
        "every-sale-has-an-item",
        "SELECT p.id, p.item FROM buy_now p LEFT JOIN items i ON i.id = p.item WHERE i.id IS NULL",
        "what is sold is an item that exists",
    ),
    must_hold(
        "every-comment-has-a-rating",
        "SELECT c.id, c.to_user FROM comments c LEFT JOIN ratings r ON r.user_id = c.to_user WHERE r.user_id IS NULL",
        "comments are on users that are rated",
    ),
)

_ENTRY = APPLICATIONS["rubis"]

APPLICATION = Application(
    _ENTRY.name,
    _ENTRY.meaning,
    _ENTRY.source,
    DDL,
    (
        Part(register_user, 10, _register_user),
        Part(register_item, 15, _register_item),
        Part(store_buy_now, 15, _store_buy_now),
        Part(store_comment, 20, _store_comment),
        Part(random_browse, 40, _random_browse),
        Part(store_bid, 0, _store_bid),
    ),
    _populate,
    {"users": 1000, "items": 4, "comments": 2, "regions": 62},
    INVARIANTS,
)
