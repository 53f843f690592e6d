"""Names, and the words that must be quoted to be one. Quoting one too many does no harm."""

from __future__ import annotations

import re

from isolde.tx.dialects import Dialect

_WORDS = """
    accessible add all alter analyse analyze and anti any array as asc asensitive asof asymmetric at authorization
    autoincrement before begin between bigint bigserial binary bit blob both by bytea call cascade case cast change char
    character check close cluster collate collation column commit concurrently condition conflict constraint continue
    convert create cross cube cume_dist current current_catalog current_date current_role current_schema current_time
    current_timestamp current_user cursor database databases date datetime day_hour day_microsecond day_minute day_second
    dec decimal declare default deferrable delayed delete delete_domain_id dense_rank desc describe deterministic distinct
    distinctrow div do do_domain_ids double drop dual each else elseif empty enclosed end escape escaped except exclude
    exists exit explain false fetch filter final first first_value float float4 float8 following for force foreign format
    freeze from full fulltext function generated get glob grant group grouping groups having high_priority hour_microsecond
    hour_minute hour_second if ignore ignore_domain_ids ilike in index indexed inet infile initially inner inout insensitive
    insert instead int int1 int2 int3 int4 int8 integer intersect interval into io_after_gtids io_before_gtids is isnull
    iterate join json json_table key keys kill lag lambda language last last_value lateral lead leading leave left like
    limit linear lines list load local localtime localtimestamp lock long longblob longtext loop low_priority map master
    master_bind master_demote_to_replica master_demote_to_slave master_ssl_verify_server_cert match materialized maxvalue
    mediumblob mediumint mediumtext merge middleint minus minute_microsecond minute_second mod modifies money natural no
    no_write_to_binlog not nothing notnull nth_value ntile null nullable nulls numeric object of off offset on only open
    operator optimize optimizer_costs option optionally or order out outer outfile over overlaps overwrite page_checksum
    parameters parse_vcol_expr partition percent_rank pivot pivot_longer pivot_wider placing plan portion positional pragma
    preceding precision prepare prewhere primary procedure properties purge qualify query raise range rank read read_write
    reads real recursive ref_system_id references refresh regexp reindex release rename repeat replace require resignal
    restrict return returning revoke right rlike rollback rollup row row_number rows savepoint schema schemas
    second_microsecond select semi sensitive separator serial session_user set settings share show signal similar smallint
    some sort spatial specific sql sql_big_result sql_calc_found_rows sql_small_result sqlexception sqlstate sqlwarning ssl
    starting stats_auto_recalc stats_persistent stats_sample_pages stored straight_join struct summarize symmetric system
    system_user table tablesample temp temporary terminated text then time timestamp tinyblob tinyint tinytext to top
    trailing transaction trigger trim true truncate unbounded undo union unique unknown unlock unnest unpack unpivot
    unsigned update usage use user using utc_date utc_time utc_timestamp uuid vacuum value values varbinary varchar
    varcharacter variadic variant varying verbose view virtual volatile when where while window with within without write
    xor year year_month zerofill
"""
RESERVED = frozenset(_WORDS.split())

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def quoted(name: str, dialect: Dialect) -> str:
    """A name, quoted where it must be."""
    if _PLAIN.fullmatch(name) and name not in RESERVED:
        return name
    quote = "`" if dialect is Dialect.MYSQL else '"'
    return f"{quote}{name.replace(quote, quote * 2)}{quote}"
