//! The stack machine: 28 opcodes. Module `stack` holds the file, the stack and the memo on which they act.

use super::{Item, MAX_BYTES, MAX_OPCODES, Pickle, Value};
use crate::error::{Error, Result};
use std::path::Path;

/// The state of a run.
pub(super) struct Machine<'a> {
    /// The objects made so far.
    pub(super) made: Pickle<'a>,
    pub(super) stack: Vec<Item>,
    /// Heights of the stack where a MARK was set.
    pub(super) marks: Vec<usize>,
    /// Slot k + 1 is `memo[k]`: the writers number slots from 1 in order.
    pub(super) memo: Vec<Item>,
    /// The next byte to read, and the byte of the opcode being run.
    pub(super) next: usize,
    pub(super) at: usize,
}

/// Runs a pickle from its first byte to its last.
pub(super) fn run<'a>(file: &'a Path, bytes: &'a [u8]) -> Result<Pickle<'a>> {
    if bytes.len() > MAX_BYTES {
        return Err(Error::format(
            file,
            MAX_BYTES as u64,
            format!("the end of the file: at most {MAX_BYTES} bytes are read"),
            format!("{} bytes", bytes.len()),
        ));
    }
    let root = Item {
        value: Value::None,
        at: 0,
    };
    let mut machine = Machine {
        made: Pickle {
            file,
            bytes,
            root,
            containers: Vec::new(),
            arrays: Vec::new(),
            matrices: Vec::new(),
        },
        stack: Vec::new(),
        marks: Vec::new(),
        memo: Vec::new(),
        next: 0,
        at: 0,
    };
    machine.expect(&[0x80, 2], "a pickle of protocol 2 (bytes 80 02)")?;
    for _ in 0..MAX_OPCODES {
        if machine.step()? {
            return Ok(machine.made);
        }
    }
    machine.at = machine.next;
    Err(machine.error(
        format!("STOP: at most {MAX_OPCODES} opcodes are run"),
        "more",
    ))
}

impl<'a> Machine<'a> {
    /// Runs one opcode; true at the end of the pickle.
    fn step(&mut self) -> Result<bool> {
        self.at = self.next;
        match self.u8()? {
            // c GLOBAL
            0x63 => {
                let global = self.global()?;
                self.push(Value::Global(global));
            }
            // q BINPUT, r LONG_BINPUT
            0x71 => {
                let slot = self.u8()?;
                self.put(slot.into())?;
            }
            0x72 => {
                let slot = u32::from_le_bytes(self.take()?);
                self.put(slot)?;
            }
            // h BINGET
            0x68 => {
                let slot = usize::from(self.u8()?);
                let item = slot.checked_sub(1).and_then(|k| self.memo.get(k)).copied();
                match item {
                    Some(item) => self.push(item.value),
                    None => {
                        let filled = format!("a memo slot from 1 to {}", self.memo.len());
                        return Err(self.error(filled, format!("slot {slot}")));
                    }
                }
            }
            // ) EMPTY_TUPLE, } EMPTY_DICT, ] EMPTY_LIST
            0x29 => self.push_container(Value::Tuple, Vec::new()),
            0x7d => self.push_container(Value::Dict, Vec::new()),
            0x5d => self.push_container(Value::List, Vec::new()),
            // ( MARK
            0x28 => self.marks.push(self.stack.len()),
            // U SHORT_BINSTRING, T BINSTRING
            0x55 => {
                let len = self.u8()?;
                self.string(len.into())?;
            }
            0x54 => {
                let len = i32::from_le_bytes(self.take()?);
                self.string(len.into())?;
            }
            // K BININT1, M BININT2, J BININT
            0x4b => {
                let i = self.u8()?;
                self.push(Value::Int(i.into()));
            }
            0x4d => {
                let i = u16::from_le_bytes(self.take()?);
                self.push(Value::Int(i.into()));
            }
            0x4a => {
                let i = i32::from_le_bytes(self.take()?);
                self.push(Value::Int(i));
            }
            // TUPLE1, TUPLE2, TUPLE3
            code @ 0x85..=0x87 => {
                let items = self.pop_many(usize::from(code - 0x84))?;
                self.push_container(Value::Tuple, items);
            }
            // t TUPLE
            0x74 => {
                let items = self.pop_to_mark()?;
                self.push_container(Value::Tuple, items);
            }
            // N NONE, NEWTRUE, NEWFALSE
            0x4e => self.push(Value::None),
            0x88 => self.push(Value::Bool(true)),
            0x89 => self.push(Value::Bool(false)),
            // NEWOBJ, R REDUCE, b BUILD
            0x81 => {
                let (class, arguments) = self.pop_two()?;
                let value = self.new_object(class, arguments)?;
                self.push(value);
            }
            0x52 => {
                let (callable, arguments) = self.pop_two()?;
                let value = self.reduce(callable, arguments)?;
                self.push(value);
            }
            0x62 => {
                let (object, state) = self.pop_two()?;
                self.build(object, state)?;
                self.stack.push(object);
            }
            // u SETITEMS, e APPENDS, a APPEND
            0x75 => {
                let items = self.pop_to_mark()?;
                if items.len() % 2 == 1 {
                    return Err(self.error("keys and values in pairs", items.len().to_string()));
                }
                let Value::Dict(id) = self.top()?.value else {
                    return Err(self.error("SETITEMS above a dict", "another value"));
                };
                self.made.containers[id as usize].extend(items);
            }
            0x65 => {
                let items = self.pop_to_mark()?;
                self.append(items)?;
            }
            0x61 => {
                let items = self.pop_many(1)?;
                self.append(items)?;
            }
            // . STOP
            0x2e => return self.stop().map(|()| true),
            other => {
                return Err(self.error(
                    "one of the opcodes of the published files",
                    format!("byte {other:#04x}"),
                ));
            }
        }
        Ok(false)
    }

    fn append(&mut self, items: Vec<Item>) -> Result<()> {
        let Value::List(id) = self.top()?.value else {
            return Err(self.error("APPEND above a list", "another value"));
        };
        self.made.containers[id as usize].extend(items);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        let left = self.made.bytes.len() - self.next;
        if left > 0 {
            return Err(self.error("STOP at the last byte", format!("{left} bytes after it")));
        }
        match (&self.stack[..], self.marks.is_empty()) {
            ([root], true) => self.made.root = *root,
            _ => {
                let found = format!("{} values", self.stack.len());
                return Err(self.error("one value and no mark left at STOP", found));
            }
        }
        Ok(())
    }

    /// An error about the opcode being run.
    pub(super) fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::format(self.made.file, self.at as u64, expected, found)
    }
}
