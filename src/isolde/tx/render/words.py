"""Names, and the words that must be quoted to be one. Quoting one too many does no harm."""

from __future__ import annotations

import re

from isolde.tx.dialects import Dialect

_WORDS = """
    add all alter analyse analyze and any anti array as asc asymmetric authorization autoincrement before begin between bigint
    binary blob both by call cascade case cast change char character check close cluster collate column commit condition conflict
    constraint continue convert create cross cube current current_catalog current_date current_role current_schema current_time
    current_timestamp current_user cursor database databases date datetime dec decimal declare default deferrable delayed delete
    desc describe deterministic distinct distinctrow div do double drop each else elseif empty end enclosed escape escaped except
    exclude exists exit explain false fetch filter final first float following for force foreign format freeze from full fulltext
    function generated get glob grant group grouping groups having high_priority if ignore ilike in index indexed infile initially
    inner inout insert instead int integer intersect interval into is isnull iterate join json key keys kill language last
    lateral lead leading leave left like limit linear lines load local localtime localtimestamp lock long longblob longtext loop
    low_priority map master match materialized mediumint mediumtext merge minus mod modifies natural no not nothing notnull null
    nulls numeric object of off offset on only open operator optimize option or order out outer outfile over overlaps overwrite
    parameters partition pivot placing plan pragma preceding precision prepare prewhere primary procedure properties purge qualify
    query raise range rank read reads real recursive references refresh regexp reindex release rename repeat replace require
    restrict return returning revoke right rlike rollback rollup row rows savepoint schema select semi separator session_user
    set settings share show signal similar smallint some sort spatial sql sqlexception starting straight_join struct symmetric
    system_user table tablesample temp temporary terminated text then time timestamp tinyint to top trailing transaction trigger
    trim true truncate unbounded undo union unique unknown unlock unnest unpivot unsigned update usage use user using uuid vacuum
    value values varbinary varchar variadic varying verbose view virtual volatile when where while window with within without
    write xor year zerofill map list nullable variant interval inet money bit bytea serial bigserial
    asof at collation concurrently lambda pivot_longer pivot_wider positional summarize unpack
"""
RESERVED = frozenset(_WORDS.split())

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def quoted(name: str, dialect: Dialect) -> str:
    """A name, quoted where it must be."""
    if _PLAIN.fullmatch(name) and name not in RESERVED:
        return name
    quote = "`" if dialect is Dialect.MYSQL else '"'
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"
