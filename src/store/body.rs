//! Reads the body of a checkpoint: the standard configuration of bincode 2, as `store::save` writes it.
//!
//! bincode's own decoder allocates memory for the declared length of a string before it reads the bytes, so a
//! few bytes could ask for gigabytes. This decoder first compares each length with the number of bytes that
//! are left. It also knows the byte at which it stopped.
//!
//! | value | bytes |
//! |---|---|
//! | `bool`, `u8`, `i8`, whether an option holds something | 1 |
//! | other unsigned integers, lengths, numbers of variants | 1 up to 250; else 251, 252, 253 or 254 and 2, 4, 8 or 16 bytes |
//! | other signed integers | those of 2 n for n ≥ 0 and of −2 n − 1 for n < 0 |
//! | `f32`, `f64` | 4, 8 |
//! | `char` | its UTF-8 |
//! | string, list, map | length, then the elements |
//! | tuple, struct | the elements |
//! | enum | the number of the variant, then its elements |

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer,
    MapAccess, SeqAccess, VariantAccess, Visitor,
};
use std::fmt::{self, Display};

/// The value in a body, and the byte after it; or the byte that is wrong, and why.
pub(super) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<(T, usize), (usize, String)> {
    let mut body = Body { body, at: 0 };
    match T::deserialize(&mut body) {
        Ok(value) => Ok((value, body.at)),
        Err(Wrong(why)) => Err((body.at, why)),
    }
}

/// Why a body is refused.
#[derive(Debug)]
struct Wrong(String);

impl Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

impl Error for Wrong {
    fn custom<T: Display>(why: T) -> Self {
        Self(why.to_string())
    }
}

/// A body, read up to byte `at`.
struct Body<'de> {
    body: &'de [u8],
    at: usize,
}

impl<'de> Body<'de> {
    fn left(&self) -> usize {
        self.body.len() - self.at
    }

    /// The next `count` bytes.
    fn bytes(&mut self, count: usize) -> Result<&'de [u8], Wrong> {
        let left = &self.body[self.at..];
        let Some(bytes) = left.get(..count) else {
            let why = format!("{} bytes are left, {count} are needed", left.len());
            return Err(Wrong(why));
        };
        self.at += count;
        Ok(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Wrong> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }

    fn byte(&mut self) -> Result<u8, Wrong> {
        let [byte] = self.take()?;
        Ok(byte)
    }

    /// An integer of one to seventeen bytes.
    fn wide(&mut self) -> Result<u128, Wrong> {
        Ok(match self.byte()? {
            251 => u16::from_le_bytes(self.take()?).into(),
            252 => u32::from_le_bytes(self.take()?).into(),
            253 => u64::from_le_bytes(self.take()?).into(),
            254 => u128::from_le_bytes(self.take()?),
            255 => return Err(Wrong("byte 255 where an integer begins".into())),
            small => small.into(),
        })
    }

    fn unsigned<T: TryFrom<u128>>(&mut self) -> Result<T, Wrong> {
        let found = self.wide()?;
        T::try_from(found).map_err(|_| too_large::<T>(found))
    }

    fn signed<T: TryFrom<i128>>(&mut self) -> Result<T, Wrong> {
        let found = self.wide()?;
        // Even numbers stand for 0, 1, 2, …, odd ones for −1, −2, −3, …
        let half = (found >> 1) as i128;
        let number = if found % 2 == 0 { half } else { !half };
        T::try_from(number).map_err(|_| too_large::<T>(number))
    }

    /// The length of a string, list or map, whose elements have at least one byte each.
    fn length(&mut self) -> Result<usize, Wrong> {
        let start = self.at;
        let (length, left) = (self.wide()?, self.left());
        match usize::try_from(length) {
            Ok(length) if length <= left => Ok(length),
            _ => {
                self.at = start;
                let why = format!("a length of {length}, and {left} bytes are left");
                Err(Wrong(why))
            }
        }
    }

    fn text(&mut self) -> Result<&'de str, Wrong> {
        let length = self.length()?;
        let start = self.at;
        std::str::from_utf8(self.bytes(length)?).map_err(|e| {
            self.at = start;
            Wrong(format!("a string that is not UTF-8: {e}"))
        })
    }

    fn flag(&mut self) -> Result<bool, Wrong> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Wrong(format!("{other} where 0 or 1 must be"))),
        }
    }

    fn character(&mut self) -> Result<char, Wrong> {
        let mut bytes = [0; 4];
        for count in 1..=4 {
            bytes[count - 1] = self.byte()?;
            if let Ok(text) = std::str::from_utf8(&bytes[..count]) {
                return Ok(text.chars().next().expect("one character"));
            }
        }
        Err(Wrong("a character that is not UTF-8".into()))
    }
}

fn too_large<T>(found: impl Display) -> Wrong {
    let kind = std::any::type_name::<T>();
    Wrong(format!("{found}, which is out of range for {kind}"))
}

/// The elements of a list, a map, a tuple or a struct, and the number of elements that are left.
struct Elements<'a, 'de> {
    body: &'a mut Body<'de>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Wrong> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.body).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for Elements<'_, 'de> {
    type Error = Wrong;

    fn next_key_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Wrong> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Wrong> {
        seed.deserialize(&mut *self.body)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> EnumAccess<'de> for &mut Body<'de> {
    type Error = Wrong;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Wrong> {
        let number: U32Deserializer<Wrong> = self.unsigned::<u32>()?.into_deserializer();
        Ok((seed.deserialize(number)?, self))
    }
}

impl<'de> VariantAccess<'de> for &mut Body<'de> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Wrong> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_tuple(fields.len(), visitor)
    }
}

impl<'de> Deserializer<'de> for &mut Body<'de> {
    type Error = Wrong;

    fn is_human_readable(&self) -> bool {
        false
    }

    /// The bytes do not contain their type.
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Wrong> {
        Err(Wrong("a value whose type is not known beforehand".into()))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_any(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_any(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_bool(self.flag()?)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_u8(self.byte()?)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_u16(self.unsigned()?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_u32(self.unsigned()?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_u64(self.unsigned()?)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_u128(self.wide()?)
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_i8(i8::from_le_bytes(self.take()?))
    }

    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_i16(self.signed()?)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_i32(self.signed()?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_i64(self.signed()?)
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_i128(self.signed()?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_f32(f32::from_le_bytes(self.take()?))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_f64(f64::from_le_bytes(self.take()?))
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_char(self.character()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let length = self.length()?;
        visitor.visit_borrowed_bytes(self.bytes(length)?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.flag()? {
            false => visitor.visit_none(),
            true => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let left = self.length()?;
        visitor.visit_seq(Elements { body: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_seq(Elements { body: self, left })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let left = self.length()?;
        visitor.visit_map(Elements { body: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_enum(self)
    }
}

#[cfg(test)]
mod tests;
