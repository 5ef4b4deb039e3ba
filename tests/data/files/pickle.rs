//! A writer of the pickles of the Planetoid files, opcode for opcode as Python 2 wrote them.

/// A pickle being written.
pub struct Writer {
    pub bytes: Vec<u8>,
    memo: u32,
}

impl Writer {
    pub fn new() -> Self {
        Self {
            bytes: vec![0x80, 2],
            memo: 0,
        }
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub fn global(&mut self, module: &str, name: &str) -> &mut Self {
        self.raw(format!("c{module}\n{name}\n").as_bytes())
    }

    /// The next memo slot := top of the stack.
    pub fn put(&mut self) -> &mut Self {
        self.memo += 1;
        match u8::try_from(self.memo) {
            Ok(slot) => self.raw(&[b'q', slot]),
            Err(_) => {
                let slot = self.memo.to_le_bytes();
                self.raw(b"r").raw(&slot)
            }
        }
    }

    pub fn get(&mut self, slot: u8) -> &mut Self {
        self.raw(&[b'h', slot])
    }

    pub fn int(&mut self, i: i32) -> &mut Self {
        if let Ok(i) = u8::try_from(i) {
            self.raw(&[b'K', i])
        } else if let Ok(i) = u16::try_from(i) {
            self.raw(b"M").raw(&i.to_le_bytes())
        } else {
            self.raw(b"J").raw(&i.to_le_bytes())
        }
    }

    pub fn string(&mut self, text: &[u8]) -> &mut Self {
        match u8::try_from(text.len()) {
            Ok(len) => self.raw(&[b'U', len]),
            Err(_) => self.raw(b"T").raw(&(text.len() as i32).to_le_bytes()),
        }
        .raw(text)
    }

    /// The element type and its state; `known` is the memo slot of numpy's dtype, if it has one.
    fn dtype(&mut self, code: &str, known: Option<u8>) -> &mut Self {
        match known {
            Some(slot) => self.get(slot),
            None => self.global("numpy", "dtype").put(),
        };
        self.string(code.as_bytes())
            .int(0)
            .int(1)
            .raw(b"\x87R")
            .put();
        self.raw(b"(").int(3).string(b"<").raw(b"NNN");
        self.int(-1).int(-1).int(0).raw(b"tb")
    }

    /// An array up to its element type, which must follow.
    fn array_head(&mut self, shape: &[usize], known: Option<(u8, u8)>) -> &mut Self {
        match known {
            Some((function, class)) => self.get(function).get(class),
            None => {
                self.global("numpy.core.multiarray", "_reconstruct").put();
                self.global("numpy", "ndarray").put()
            }
        };
        self.int(0).raw(b"\x85").string(b"b").raw(b"\x87R").put();
        self.raw(b"(").int(1);
        for &size in shape {
            self.int(size as i32);
        }
        self.raw(&[0x84 + shape.len() as u8])
    }

    fn array_data(&mut self, data: &[u8]) -> &mut Self {
        self.raw(b"\x89").string(data).raw(b"tb")
    }
}

pub fn i4(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|i| i.to_le_bytes()).collect()
}

pub fn f4(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// A csr_matrix from its raw parts, right or wrong.
pub fn raw_csr(shape: [usize; 2], indptr: &[i32], indices: &[i32], data: &[f32]) -> Vec<u8> {
    let mut w = Writer::new();
    w.global("scipy.sparse.csr", "csr_matrix").put();
    w.raw(b")\x81").put().raw(b"}").put().raw(b"(");
    w.string(b"format").put().string(b"csr");
    w.string(b"_shape")
        .put()
        .int(shape[0] as i32)
        .int(shape[1] as i32)
        .raw(b"\x86");
    w.string(b"indptr").put();
    w.array_head(&[indptr.len()], None)
        .dtype("i4", None)
        .array_data(&i4(indptr));
    w.string(b"_cs_matrix__has_sorted_indices")
        .put()
        .raw(b"\x88");
    w.string(b"indices").put();
    // Params: 7 _reconstruct, 8 ndarray, 10 dtype, 11 the element type i4.
    w.array_head(&[indices.len()], Some((7, 8)))
        .get(11)
        .array_data(&i4(indices));
    w.string(b"maxprint").put().int(50);
    w.string(b"data").put();
    w.array_head(&[data.len()], Some((7, 8)))
        .dtype("f4", Some(10))
        .array_data(&f4(data));
    w.raw(b"ub.");
    w.bytes
}

/// A csr_matrix with `cols` columns from its rows.
pub fn csr(cols: usize, rows: &[Vec<(usize, f32)>]) -> Vec<u8> {
    let mut indptr = vec![0];
    let (mut indices, mut data) = (Vec::new(), Vec::new());
    for row in rows {
        indices.extend(row.iter().map(|&(j, _)| j as i32));
        data.extend(row.iter().map(|&(_, x)| x));
        indptr.push(indices.len() as i32);
    }
    raw_csr([rows.len(), cols], &indptr, &indices, &data)
}

/// An i4 array.
pub fn array(shape: &[usize], numbers: &[i32]) -> Vec<u8> {
    let mut w = Writer::new();
    w.array_head(shape, None)
        .dtype("i4", None)
        .array_data(&i4(numbers))
        .raw(b".");
    w.bytes
}

/// One-hot labels.
pub fn one_hot(classes: usize, labels: &[usize]) -> Vec<u8> {
    let mut numbers = vec![0; classes * labels.len()];
    for (i, &label) in labels.iter().enumerate() {
        numbers[i * classes + label] = 1;
    }
    array(&[labels.len(), classes], &numbers)
}

/// The start of a graph: an empty defaultdict(list).
pub fn default_dict() -> Writer {
    let mut w = Writer::new();
    w.global("collections", "defaultdict").put();
    w.global("__builtin__", "list").put().raw(b"\x85R").put();
    w
}

/// A defaultdict(list) of neighbours.
pub fn graph(lists: &[Vec<usize>]) -> Vec<u8> {
    let mut w = default_dict();
    for (batch, lists) in lists.chunks(1000).enumerate() {
        w.raw(b"(");
        for (k, list) in lists.iter().enumerate() {
            w.int((1000 * batch + k) as i32).raw(b"]").put();
            match list[..] {
                [] => {}
                [only] => {
                    w.int(only as i32).raw(b"a");
                }
                _ => {
                    w.raw(b"(");
                    for &j in list {
                        w.int(j as i32);
                    }
                    w.raw(b"e");
                }
            }
        }
        w.raw(b"u");
    }
    w.raw(b".");
    w.bytes
}
