//! The columns of a Parquet file without Arrow, which would be half of what there is to compile.
//!
//! A column is its values and, for each of them and each null, a *definition level*: how much of the path to it is there.
//! The columns of a list also have a *repetition level*: 0 begins a row, 1 goes on with its list (Melnik et al. 2010).

use bytes::Bytes;
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::types::Type;

const NULL: u32 = u32::MAX;

/// Why a column cannot be read.
#[derive(Debug)]
pub enum Wrong {
    /// There is none of this name.
    Missing(String),
    /// It has another type: the column, and what it should hold.
    Mistyped(String, &'static str),
    /// The file is damaged.
    Damaged(ParquetError),
}

impl From<ParquetError> for Wrong {
    fn from(error: ParquetError) -> Wrong {
        Wrong::Damaged(error)
    }
}

/// Values, some of them null.
pub struct Column<T> {
    at: Vec<u32>,
    values: Vec<T>,
}

impl<T: Copy + Default> Column<T> {
    /// How many values and nulls there are.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// Whether there is a value.
    pub fn is_valid(&self, row: usize) -> bool {
        self.at[row] != NULL
    }

    /// Whether there is none.
    pub fn is_null(&self, row: usize) -> bool {
        !self.is_valid(row)
    }

    /// The value, or a zero.
    pub fn value(&self, row: usize) -> T {
        self.values.get(self.at[row] as usize).copied().unwrap_or_default()
    }
}

/// Texts, some of them null, end to end.
pub struct Texts {
    ends: Column<(usize, usize)>,
    text: String,
}

impl Texts {
    /// How many texts and nulls there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is a text.
    pub fn is_valid(&self, row: usize) -> bool {
        self.ends.is_valid(row)
    }

    /// Whether there is none.
    pub fn is_null(&self, row: usize) -> bool {
        self.ends.is_null(row)
    }

    /// The text, or an empty one.
    pub fn value(&self, row: usize) -> &str {
        let (first, last) = self.ends.value(row);
        &self.text[first..last]
    }
}

/// The lists of a column of lists: where each begins and ends among the items.
pub struct Lists {
    /// One more than there are rows.
    pub offsets: Vec<usize>,
    null_rows: Vec<bool>,
    null_items: Vec<bool>,
}

impl Lists {
    /// How many items all lists have, nulls included.
    pub fn items(&self) -> usize {
        self.null_items.len()
    }

    /// Whether a row has no list, not even an empty one.
    pub fn is_null(&self, row: usize) -> bool {
        self.null_rows[row]
    }

    /// Whether an item is null as a whole.
    pub fn item_is_null(&self, item: usize) -> bool {
        self.null_items[item]
    }
}

/// The definition levels of a list's parts.
#[derive(Clone, Copy)]
struct Depths {
    list: i16,
    item: i16,
    item_there: i16,
}

/// One row group, column by column.
pub struct Group<'f> {
    reader: Box<dyn RowGroupReader + 'f>,
}

struct Leaf<T> {
    values: Vec<T>,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    definition_max: i16,
}

impl<'f> Group<'f> {
    /// The group at a place of the file.
    pub fn of(file: &'f SerializedFileReader<Bytes>, place: usize) -> Result<Group<'f>> {
        Ok(Group { reader: file.get_row_group(place)? })
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        usize::try_from(self.reader.metadata().num_rows()).unwrap_or(0)
    }

    /// The 8-bit integers of a column; `list` names the list that it is a field of.
    pub fn int8(&self, list: Option<&str>, name: &str) -> std::result::Result<Column<i8>, Wrong> {
        let narrow = |converted| converted == ConvertedType::INT_8;
        let leaf = self.leaf::<Int32Type>(list, name, Physical::INT32, narrow, "8-bit integers")?;
        let column = self.spread(list, leaf)?;
        // The type promises that they fit.
        let values = column.values.iter().map(|&value| value as i8).collect();
        Ok(Column { at: column.at, values })
    }

    /// The 64-bit integers of a column.
    pub fn int64(&self, list: Option<&str>, name: &str) -> std::result::Result<Column<i64>, Wrong> {
        let plain = |converted| matches!(converted, ConvertedType::NONE | ConvertedType::INT_64);
        let leaf = self.leaf::<Int64Type>(list, name, Physical::INT64, plain, "64-bit integers")?;
        self.spread(list, leaf)
    }

    /// The texts of a column.
    pub fn texts(&self, list: Option<&str>, name: &str) -> std::result::Result<Texts, Wrong> {
        let utf8 = |converted| matches!(converted, ConvertedType::UTF8 | ConvertedType::JSON);
        let leaf = self.leaf::<ByteArrayType>(list, name, Physical::BYTE_ARRAY, utf8, "strings")?;
        let mut text = String::with_capacity(leaf.values.iter().map(ByteArray::len).sum());
        let mut ends = Vec::with_capacity(leaf.values.len());
        for value in &leaf.values {
            let first = text.len();
            text.push_str(value.as_utf8()?);
            ends.push((first, text.len()));
        }
        let Leaf { definitions, repetitions, definition_max, .. } = leaf;
        let leaf = Leaf { values: ends, definitions, repetitions, definition_max };
        Ok(Texts { ends: self.spread(list, leaf)?, text })
    }

    /// The shape of the lists, as a field of theirs tells it.
    pub fn lists(&self, list: &str, field: &str) -> std::result::Result<Lists, Wrong> {
        let depths = self.depths(list)?;
        let leaf = self.leaf::<Int32Type>(Some(list), field, Physical::INT32, |_| true, "integers")?;
        let mut lists = Lists { offsets: vec![0], null_rows: Vec::new(), null_items: Vec::new() };
        for (at, &level) in leaf.definitions.iter().enumerate() {
            if leaf.repetitions[at] == 0 {
                if at > 0 {
                    lists.offsets.push(lists.null_items.len());
                }
                lists.null_rows.push(level < depths.list);
            }
            if level >= depths.item {
                lists.null_items.push(level < depths.item_there);
            }
        }
        if !lists.null_rows.is_empty() {
            lists.offsets.push(lists.null_items.len());
        }
        if lists.null_rows.len() == self.rows() { Ok(lists) } else { Err(uneven()) }
    }

    fn schema(&self) -> &Type {
        self.reader.metadata().schema_descr().root_schema()
    }

    fn depths(&self, list: &str) -> std::result::Result<Depths, Wrong> {
        let optional =
            |node: &Type| i16::from(node.get_basic_info().has_repetition() && is(node, Repetition::OPTIONAL));
        let wrong = || Wrong::Mistyped(list.to_owned(), "lists of structs");
        let found = self.schema().get_fields().iter().find(|field| field.name() == list);
        let node = found.ok_or_else(|| Wrong::Missing(list.to_owned()))?;
        let fields = |node: &Type| if node.is_group() { node.get_fields().to_vec() } else { Vec::new() };
        let [repeated] = &fields(node)[..] else { return Err(wrong()) };
        if !is(repeated, Repetition::REPEATED) {
            return Err(wrong());
        }
        let depth = optional(node);
        // The items are structs of their own, or, in old files, what is repeated itself.
        let there = match &fields(repeated)[..] {
            [item] if item.is_group() => optional(item),
            [] => return Err(wrong()),
            _ => 0,
        };
        Ok(Depths { list: depth, item: depth + 1, item_there: depth + 1 + there })
    }

    fn leaf<T: DataType>(
        &self,
        list: Option<&str>,
        name: &str,
        physical: Physical,
        fits: impl Fn(ConvertedType) -> bool,
        expected: &'static str,
    ) -> std::result::Result<Leaf<T::T>, Wrong> {
        let columns = self.reader.metadata().schema_descr().columns();
        let place = columns.iter().position(|column| match (list, column.path().parts()) {
            (None, [only]) => only == name,
            (Some(list), [first, _, last] | [first, _, _, last]) => first == list && last == name,
            _ => false,
        });
        let inside = self.schema().get_fields().iter().any(|field| field.name() == list.unwrap_or(name));
        let place = match place {
            Some(place) => place,
            None if inside && list.is_none() => return Err(Wrong::Mistyped(name.to_owned(), expected)),
            None => return Err(Wrong::Missing(name.to_owned())),
        };
        let column = &columns[place];
        if column.physical_type() != physical || !fits(column.converted_type()) {
            return Err(Wrong::Mistyped(name.to_owned(), expected));
        }
        let mut leaf = Leaf {
            values: Vec::new(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
            definition_max: column.max_def_level(),
        };
        let mut reader = get_typed_column_reader::<T>(self.reader.get_column_reader(place)?);
        let mut left = self.rows();
        while left > 0 {
            let Leaf { values, definitions, repetitions, .. } = &mut leaf;
            let (rows, _, _) = reader.read_records(left, Some(definitions), Some(repetitions), values)?;
            if rows == 0 {
                break;
            }
            left -= rows;
        }
        Ok(leaf)
    }

    /// A value, or a null, for every row, or for every item of the rows' lists.
    fn spread<T>(&self, list: Option<&str>, leaf: Leaf<T>) -> std::result::Result<Column<T>, Wrong> {
        let Leaf { values, definitions, definition_max, .. } = leaf;
        let depth = list.map(|list| self.depths(list)).transpose()?.map_or(0, |depths| depths.item);
        let mut at: Vec<u32> = Vec::with_capacity(definitions.len().max(values.len()));
        let mut next = 0;
        if definition_max == 0 {
            next = values.len() as u32;
            at.extend(0..next);
        }
        for &level in definitions.iter().filter(|&&level| definition_max > 0 && level >= depth) {
            let valid = level == definition_max;
            at.push(if valid { next } else { NULL });
            next += u32::from(valid);
        }
        let even = list.is_some() || at.len() == self.rows();
        if even && next as usize == values.len() { Ok(Column { at, values }) } else { Err(uneven()) }
    }
}

fn is(node: &Type, repetition: Repetition) -> bool {
    node.get_basic_info().has_repetition() && node.get_basic_info().repetition() == repetition
}

/// What a damaged file may hold: columns that do not go together.
pub fn uneven() -> Wrong {
    Wrong::Damaged(ParquetError::General("columns of different lengths".to_owned()))
}

/// A column to be written: its values, and a level for each of them and each null.
pub struct Builder<T> {
    values: Vec<T>,
    levels: Vec<i16>,
    /// The level of what is there.
    there: i16,
}

impl<T> Builder<T> {
    /// An empty column, in which what is there has this definition level.
    pub fn new(there: i16) -> Builder<T> {
        Builder { values: Vec::new(), levels: Vec::new(), there }
    }

    /// One more value, or a null.
    pub fn push(&mut self, value: Option<T>) {
        self.levels.push(if value.is_some() { self.there } else { self.there - 1 });
        self.values.extend(value);
    }

    /// No item: the list of this row is empty.
    pub fn push_empty(&mut self) {
        self.levels.push(0);
    }

    /// Writes the column as the next one of a row group; `repetitions` are those of the list that it is a field of.
    pub fn write<D: DataType<T = T>>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, impl std::io::Write + Send>,
        repetitions: Option<&[i16]>,
    ) -> Result<()> {
        let mut column =
            group.next_column()?.ok_or_else(|| ParquetError::General("more columns than fields".into()))?;
        let levels = (self.there > 0).then_some(&self.levels[..]);
        column.typed::<D>().write_batch(&self.values, levels, repetitions)?;
        column.close()
    }
}
