//! Where opcodes read and write: the bytes of the file, the stack with its marks, the memo.

use super::machine::Machine;
use super::{Global, Item, Value};
use crate::data::files::shown;
use crate::error::{Error, Result};

impl<'a> Machine<'a> {
    /// The next `len` bytes.
    fn bytes(&mut self, len: usize) -> Result<&'a [u8]> {
        let left = &self.made.bytes[self.next..];
        let Some(bytes) = left.get(..len) else {
            let end = self.made.bytes.len() as u64;
            let expected = format!("{len} bytes from byte {} on", self.next);
            return Err(Error::format(
                self.made.file,
                end,
                expected,
                "the end of the file",
            ));
        };
        self.next += len;
        Ok(bytes)
    }

    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        let [byte] = self.take()?;
        Ok(byte)
    }

    pub(super) fn expect(&mut self, wanted: &[u8], meaning: &str) -> Result<()> {
        let found = self.bytes(wanted.len())?;
        if found != wanted {
            return Err(self.error(meaning, shown(found)));
        }
        Ok(())
    }

    /// A name: module and attribute, each ended by a newline.
    pub(super) fn global(&mut self) -> Result<Global> {
        const KNOWN: [(&str, Global); 6] = [
            ("scipy.sparse.csr\ncsr_matrix\n", Global::CsrMatrix),
            ("numpy.core.multiarray\n_reconstruct\n", Global::Reconstruct),
            ("numpy\nndarray\n", Global::Ndarray),
            ("numpy\ndtype\n", Global::Dtype),
            ("collections\ndefaultdict\n", Global::DefaultDict),
            ("__builtin__\nlist\n", Global::List),
        ];
        let left = &self.made.bytes[self.next..];
        for (name, global) in KNOWN {
            if left.starts_with(name.as_bytes()) {
                self.next += name.len();
                return Ok(global);
            }
        }
        let shown = shown(&left[..left.len().min(40)]);
        Err(self.error("one of the six names of the published files", shown))
    }

    pub(super) fn string(&mut self, len: i64) -> Result<()> {
        let Ok(size) = usize::try_from(len) else {
            return Err(self.error("a string of non-negative length", format!("length {len}")));
        };
        let start = self.next as u32;
        self.bytes(size)?;
        let len = size as u32;
        self.push(Value::Bytes { start, len });
        Ok(())
    }

    pub(super) fn put(&mut self, slot: u32) -> Result<()> {
        let top = self.top()?;
        if slot as usize != self.memo.len() + 1 {
            let next = format!("memo slot {}, the next in order", self.memo.len() + 1);
            return Err(self.error(next, format!("slot {slot}")));
        }
        self.memo.push(top);
        Ok(())
    }

    pub(super) fn push(&mut self, value: Value) {
        let at = self.at as u32;
        self.stack.push(Item { value, at });
    }

    pub(super) fn push_container(&mut self, kind: fn(u32) -> Value, items: Vec<Item>) {
        self.push(kind(self.made.containers.len() as u32));
        self.made.containers.push(items);
    }

    /// The lowest height of the stack the current opcode may reach.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    pub(super) fn top(&self) -> Result<Item> {
        let above = self.stack.get(self.floor()..).unwrap_or_default();
        let top = above.last().copied();
        top.ok_or_else(|| self.error("a value on the stack", "none above the last mark"))
    }

    pub(super) fn pop_many(&mut self, count: usize) -> Result<Vec<Item>> {
        let available = self.stack.len() - self.floor();
        if available < count {
            let expected = format!("{count} values on the stack");
            return Err(self.error(expected, format!("{available} above the last mark")));
        }
        Ok(self.stack.split_off(self.stack.len() - count))
    }

    pub(super) fn pop_two(&mut self) -> Result<(Item, Item)> {
        let items = self.pop_many(2)?;
        Ok((items[0], items[1]))
    }

    pub(super) fn pop_to_mark(&mut self) -> Result<Vec<Item>> {
        match self.marks.pop() {
            Some(height) => Ok(self.stack.split_off(height)),
            None => Err(self.error("a mark on the stack", "none")),
        }
    }
}
