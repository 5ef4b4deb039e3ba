//! The meaning of calls and states for the six names. Nothing is executed: each call is recognised and
//! replaced by its known result.

use super::machine::Machine;
use super::{Array, Dtype, Global, Item, Value};
use crate::error::Result;

impl Machine<'_> {
    /// `csr_matrix.__new__(csr_matrix)`, the only object made this way.
    pub(super) fn new_object(&mut self, class: Item, arguments: Item) -> Result<Value> {
        if class.value != Value::Global(Global::CsrMatrix) {
            return Err(self.made.refuse(class, "csr_matrix, to be made anew"));
        }
        self.tuple::<0>(arguments, "no arguments")?;
        self.made.matrices.push(None);
        Ok(Value::Matrix(self.made.matrices.len() as u32 - 1))
    }

    /// A call: `_reconstruct(ndarray, (0,), 'b')`, `dtype('i4', 0, 1)`, `dtype('f4', 0, 1)` or
    /// `defaultdict(list)`.
    pub(super) fn reduce(&mut self, callable: Item, arguments: Item) -> Result<Value> {
        match callable.value {
            Value::Global(Global::Reconstruct) => {
                let rule = "the arguments (ndarray, (0,), 'b')";
                let [class, shape, code] = self.tuple(arguments, rule)?;
                let [zero] = self.tuple(shape, rule)?;
                if class.value != Value::Global(Global::Ndarray)
                    || zero.value != Value::Int(0)
                    || self.made.text(code) != Some(b"b")
                {
                    return Err(self.made.refuse(arguments, rule));
                }
                self.made.arrays.push(None);
                Ok(Value::Array(self.made.arrays.len() as u32 - 1))
            }
            Value::Global(Global::Dtype) => {
                let rule = "the arguments ('i4', 0, 1) or ('f4', 0, 1)";
                let [code, align, copy] = self.tuple(arguments, rule)?;
                let dtype = match self.made.text(code) {
                    Some(b"i4") => Dtype::I4,
                    Some(b"f4") => Dtype::F4,
                    _ => return Err(self.made.refuse(code, "the element type 'i4' or 'f4'")),
                };
                if align.value != Value::Int(0) || copy.value != Value::Int(1) {
                    return Err(self.made.refuse(arguments, rule));
                }
                Ok(Value::Dtype(dtype))
            }
            Value::Global(Global::DefaultDict) => {
                let [default] = self.tuple(arguments, "the argument (list,)")?;
                if default.value != Value::Global(Global::List) {
                    return Err(self.made.refuse(default, "list"));
                }
                self.made.containers.push(Vec::new());
                Ok(Value::Dict(self.made.containers.len() as u32 - 1))
            }
            _ => Err(self
                .made
                .refuse(callable, "a call of _reconstruct, dtype or defaultdict")),
        }
    }

    /// Sets the state of an array, an element type or a matrix.
    pub(super) fn build(&mut self, object: Item, state: Item) -> Result<()> {
        match object.value {
            Value::Array(id) => {
                if self.made.arrays[id as usize].is_some() {
                    return Err(self.error("an array without state", "one that has it"));
                }
                let array = self.array(state)?;
                self.made.arrays[id as usize] = Some(array);
                Ok(())
            }
            Value::Dtype(_) => self.dtype_state(state),
            Value::Matrix(id) => {
                let Value::Dict(dict) = state.value else {
                    return Err(self.made.refuse(state, "a dict as the matrix's state"));
                };
                if self.made.matrices[id as usize].is_some() {
                    return Err(self.error("a matrix without state", "one that has it"));
                }
                self.made.matrices[id as usize] = Some(dict);
                Ok(())
            }
            _ => Err(self
                .made
                .refuse(object, "an array, a dtype or a csr_matrix to give a state")),
        }
    }

    /// The state of an array: `(1, shape, dtype, False, bytes)`.
    fn array(&self, state: Item) -> Result<Array> {
        let rule = "the array state (1, shape, dtype, False, bytes)";
        let [version, shape, dtype, fortran, data] = self.tuple(state, rule)?;
        if version.value != Value::Int(1) || fortran.value != Value::Bool(false) {
            return Err(self.made.refuse(state, rule));
        }
        let Value::Dtype(dtype) = dtype.value else {
            return Err(self.made.refuse(dtype, "an element type"));
        };
        let Value::Tuple(id) = shape.value else {
            return Err(self.made.refuse(shape, "the shape as a tuple"));
        };
        let sizes = &self.made.containers[id as usize];
        if !(1..=2).contains(&sizes.len()) {
            return Err(self.made.refuse(shape, "a shape of one or two sizes"));
        }
        let mut product = 4_usize;
        let mut shape = Vec::with_capacity(sizes.len());
        for &size in sizes {
            let Value::Int(n @ 0..) = size.value else {
                return Err(self.made.refuse(size, "a size that is not negative"));
            };
            shape.push(n as usize);
            product = product.saturating_mul(n as usize);
        }
        let Value::Bytes { start, len } = data.value else {
            return Err(self.made.refuse(data, "the elements as a string"));
        };
        if product != len as usize {
            let found = format!("{len} bytes");
            let expected = format!("{product} bytes for the shape {shape:?}");
            let at = u64::from(data.at);
            return Err(crate::error::Error::format(
                self.made.file,
                at,
                expected,
                found,
            ));
        }
        let start = start as usize;
        Ok(Array {
            dtype,
            shape,
            data: start..start + len as usize,
        })
    }

    /// The state of an element type: little-endian, no fields, as numpy wrote it.
    fn dtype_state(&self, state: Item) -> Result<()> {
        let rule = "the dtype state (3, '<', None, None, None, -1, -1, 0)";
        let found: [Item; 8] = self.tuple(state, rule)?;
        let [version, order, rest @ ..] = found;
        let wanted = [
            Value::None,
            Value::None,
            Value::None,
            Value::Int(-1),
            Value::Int(-1),
            Value::Int(0),
        ];
        let plain = version.value == Value::Int(3)
            && self.made.text(order) == Some(b"<")
            && rest.iter().map(|item| item.value).eq(wanted);
        if plain {
            Ok(())
        } else {
            Err(self.made.refuse(state, rule))
        }
    }

    /// The items of a tuple of exactly N.
    fn tuple<const N: usize>(&self, item: Item, rule: &str) -> Result<[Item; N]> {
        if let Value::Tuple(id) = item.value
            && let Ok(items) = self.made.containers[id as usize].as_slice().try_into()
        {
            return Ok(items);
        }
        Err(self.made.refuse(item, rule))
    }
}
