//! The stack machine that reads a pickle.
//!
//! Values lie in one list and refer to each other by number, as Python's objects would; the tree is
//! made of them at the end. What a call would make in Python is looked up in a short list; what is
//! not in it is refused by name.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::global::{Global, PROCESS_GROUP_STATE, SHARDED_TENSOR};
use super::opcode;
use super::pickle_error::PickleError;
use super::pickle_reader::PickleReader;
use super::torch_dtype::TorchDtype;
use super::torch_tensor::TorchTensor;
use super::torch_value::TorchValue;
use super::value_tree::{Node, NodeId, ValueTree};

pub struct Unpickler<'a> {
    reader: PickleReader<'a>,
    storages: &'a BTreeMap<String, Range<usize>>,
    nodes: Vec<Node>,
    stack: Vec<NodeId>,
    /// How high the stack was at each mark.
    marks: Vec<usize>,
    memo: HashMap<u32, NodeId>,
    copies_left: Cell<usize>,
}

/// Values of a pickle.
const VALUES_MOST: usize = 1 << 20;
/// Values that are copied from one container to another.
const COPIES_MOST: usize = 1 << 24;
/// Bytes of a whole number.
const INT_BYTES_MOST: usize = size_of::<i128>();

impl<'a> Unpickler<'a> {
    /// `storages` are byte ranges of the file, by key.
    pub fn new(pickle: &'a [u8], storages: &'a BTreeMap<String, Range<usize>>) -> Self {
        Unpickler {
            reader: PickleReader::new(pickle),
            storages,
            nodes: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            copies_left: Cell::new(COPIES_MOST),
        }
    }

    pub fn run(mut self) -> Result<TorchValue, PickleError> {
        loop {
            let at = self.reader.at();
            match self.reader.byte()? {
                opcode::STOP => break,
                opcode::PROTO => drop(self.reader.byte()?),
                opcode::FRAME => drop(self.reader.array::<8>()?),
                code => self.step(code, at)?,
            }
        }
        let root = self.pop()?;
        ValueTree::new(&self.nodes).value(root)
    }

    fn step(&mut self, code: u8, at: usize) -> Result<(), PickleError> {
        match code {
            opcode::MARK => self.marks.push(self.stack.len()),
            opcode::POP => drop(self.pop()?),
            opcode::POP_MARK => drop(self.pop_mark()?),
            opcode::DUP => {
                let top = self.top()?;
                self.stack.push(top);
            }
            opcode::BINPUT => {
                let place = u32::from(self.reader.byte()?);
                self.put(place)?;
            }
            opcode::LONG_BINPUT => {
                let place = u32::from_le_bytes(self.reader.array()?);
                self.put(place)?;
            }
            opcode::MEMOIZE => self.put(self.memo.len() as u32)?,
            opcode::BINGET => {
                let place = u32::from(self.reader.byte()?);
                self.get(place)?;
            }
            opcode::LONG_BINGET => {
                let place = u32::from_le_bytes(self.reader.array()?);
                self.get(place)?;
            }
            opcode::APPEND | opcode::APPENDS | opcode::ADDITEMS => self.append(code)?,
            opcode::SETITEM | opcode::SETITEMS => self.set_items(code)?,
            opcode::BUILD => self.build()?,
            _ => {
                let node = match self.scalar(code)? {
                    Some(node) => node,
                    None => match self.container(code)? {
                        Some(node) => node,
                        None => self.object(code, at)?,
                    },
                };
                self.push(node)?;
            }
        }
        Ok(())
    }

    /// Numbers, texts and bytes.
    fn scalar(&mut self, code: u8) -> Result<Option<Node>, PickleError> {
        let reader = &mut self.reader;
        Ok(Some(match code {
            opcode::NONE => Node::None,
            opcode::NEWTRUE => Node::Bool(true),
            opcode::NEWFALSE => Node::Bool(false),
            opcode::BININT => Node::Int(i32::from_le_bytes(reader.array()?).into()),
            opcode::BININT1 => Node::Int(reader.byte()?.into()),
            opcode::BININT2 => Node::Int(u16::from_le_bytes(reader.array()?).into()),
            opcode::LONG1 => {
                let length = reader.length::<1>()?;
                Node::Int(whole_number(reader.take(length)?)?)
            }
            opcode::BINFLOAT => Node::Float(f64::from_be_bytes(reader.array()?)),
            opcode::SHORT_BINUNICODE | opcode::BINUNICODE | opcode::BINUNICODE8 => {
                let length = match code {
                    opcode::SHORT_BINUNICODE => reader.length::<1>()?,
                    opcode::BINUNICODE => reader.length::<4>()?,
                    _ => reader.length::<8>()?,
                };
                Node::Text(reader.text(length)?.into())
            }
            opcode::SHORT_BINBYTES | opcode::BINBYTES | opcode::BINBYTES8 | opcode::BYTEARRAY8 => {
                let length = match code {
                    opcode::SHORT_BINBYTES => reader.length::<1>()?,
                    opcode::BINBYTES => reader.length::<4>()?,
                    _ => reader.length::<8>()?,
                };
                Node::Bytes(reader.take(length)?.into())
            }
            _ => return Ok(None),
        }))
    }

    fn container(&mut self, code: u8) -> Result<Option<Node>, PickleError> {
        Ok(Some(match code {
            opcode::EMPTY_TUPLE => Node::Tuple(Vec::new()),
            opcode::EMPTY_LIST | opcode::EMPTY_SET => Node::List(Vec::new()),
            opcode::EMPTY_DICT => Node::Dict(Vec::new()),
            opcode::TUPLE1 => Node::Tuple(self.pop_many(1)?),
            opcode::TUPLE2 => Node::Tuple(self.pop_many(2)?),
            opcode::TUPLE3 => Node::Tuple(self.pop_many(3)?),
            opcode::TUPLE => Node::Tuple(self.pop_mark()?),
            opcode::LIST | opcode::FROZENSET => Node::List(self.pop_mark()?),
            opcode::DICT => {
                let items = self.pop_mark()?;
                Node::Dict(self.pairs(&items)?)
            }
            _ => return Ok(None),
        }))
    }

    /// What Python would import, and what it would call.
    fn object(&mut self, code: u8, at: usize) -> Result<Node, PickleError> {
        match code {
            opcode::GLOBAL => {
                let (module, name) = (self.reader.line()?, self.reader.line()?);
                self.global(module, name)
            }
            opcode::STACK_GLOBAL => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (module, name) = (self.text(module)?, self.text(name)?);
                self.global(&module, &name)
            }
            opcode::REDUCE | opcode::NEWOBJ => {
                let (arguments, callee) = (self.pop()?, self.pop()?);
                let Node::Global(global) = *self.node(callee) else {
                    return Err(self.broken("a call of what is not a name"));
                };
                let arguments = self.sequence(arguments)?;
                self.call(global, &arguments)
            }
            opcode::BINPERSID => {
                let id = self.pop()?;
                self.storage(id)
            }
            opcode => Err(PickleError::Operation { opcode, at }),
        }
    }

    fn global(&self, module: &str, name: &str) -> Result<Node, PickleError> {
        let global = Global::named(module, name);
        let global =
            global.ok_or_else(|| PickleError::NotData { name: format!("{module}.{name}") });
        global.map(Node::Global)
    }

    fn call(&self, global: Global, arguments: &[NodeId]) -> Result<Node, PickleError> {
        match (global, arguments) {
            (Global::OrderedDict, []) => Ok(Node::Dict(Vec::new())),
            (Global::OrderedDict, [pairs]) => {
                let pairs =
                    self.sequence(*pairs)?.into_iter().map(|pair| match self.sequence(pair)?[..] {
                        [key, value] => Ok((key, value)),
                        _ => Err(self.broken("a dict of what are not pairs")),
                    });
                Ok(Node::Dict(pairs.collect::<Result<_, _>>()?))
            }
            (Global::Set, []) => Ok(Node::List(Vec::new())),
            (Global::Set, [items]) => Ok(Node::List(self.sequence(*items)?)),
            (Global::Bytes, []) => Ok(Node::Bytes(Arc::new([]))),
            (Global::Encode, [text, _]) => self.encoded(*text),
            (Global::RebuildTensor, [storage, offset, size, strides, ..]) => {
                self.tensor(None, [*storage, *offset, *size, *strides])
            }
            (Global::RebuildTensorOfType, [storage, offset, size, strides, _, _, dtype, ..]) => {
                let &Node::Global(Global::Dtype(dtype)) = self.node(*dtype) else {
                    return Err(self.broken("a tensor of what is not a type"));
                };
                self.tensor(Some(dtype), [*storage, *offset, *size, *strides])
            }
            (Global::RebuildParameter, [tensor, ..]) => match self.node(*tensor) {
                node @ (Node::Tensor(_) | Node::Opaque(_)) => Ok(node.clone()),
                _ => Err(self.broken("a parameter of what is not a tensor")),
            },
            (Global::RebuildFromType, [function, class, arguments, ..]) => {
                let (function, class) = (self.node(*function), self.node(*class));
                match (function, class) {
                    (
                        Node::Global(Global::RebuildSubclass),
                        Node::Global(Global::Opaque(class)),
                    ) => Ok(Node::Opaque(class)),
                    (
                        Node::Global(
                            function @ (Global::RebuildTensor
                            | Global::RebuildTensorOfType
                            | Global::RebuildParameter),
                        ),
                        Node::Global(Global::TensorClass),
                    ) => self.call(*function, &self.sequence(*arguments)?),
                    _ => Err(self.broken("a tensor by what does not make one")),
                }
            }
            (Global::Size, [sizes]) => Ok(Node::Tuple(self.sequence(*sizes)?)),
            (Global::Named, [kind, ..]) => Ok(Node::Text(self.text(*kind)?)),
            (Global::Opaque(class), _) => Ok(Node::Opaque(class)),
            (Global::GetAttribute, [of, attribute]) => self.attribute(*of, *attribute),
            _ => Err(self.broken(format!("{} arguments for {global:?}", arguments.len()))),
        }
    }

    /// The one attribute that is known.
    fn attribute(&self, of: NodeId, attribute: NodeId) -> Result<Node, PickleError> {
        let of = self.node(of);
        match (of, &*self.text(attribute)?) {
            (Node::Global(Global::Opaque(SHARDED_TENSOR)), "ProcessGroupState") => {
                Ok(Node::Global(Global::Opaque(PROCESS_GROUP_STATE)))
            }
            (_, attribute) => {
                Err(PickleError::NotData { name: format!("builtins.getattr(..., {attribute:?})") })
            }
        }
    }

    /// The name of a storage: `("storage", class, key, device, elements)`.
    fn storage(&self, id: NodeId) -> Result<Node, PickleError> {
        let parts = self.sequence(id)?;
        let [kind, class, key, _, elements] = parts[..] else {
            return Err(self.broken(format!("a reference of {} parts to a storage", parts.len())));
        };
        let (kind, key) = (self.text(kind)?, self.text(key)?);
        let (&Node::Global(Global::Storage(dtype)), "storage") = (self.node(class), &*kind) else {
            return Err(self.broken("a reference to what is not a storage"));
        };
        let wrong = |problem| PickleError::Storage { key: key.to_string(), problem };
        let range = self.storages.get(&*key);
        let range = range.ok_or_else(|| wrong("it is not in the file".into()))?.clone();
        let element_bytes = dtype.map_or(1, TorchDtype::bytes);
        let bytes = self.count(elements)?.checked_mul(element_bytes);
        match bytes.filter(|bytes| *bytes <= range.len()) {
            Some(bytes) => Ok(Node::Storage { dtype, range: range.start..range.start + bytes }),
            None => Err(wrong(format!(
                "it has {} bytes in the file, fewer than its elements need",
                range.len()
            ))),
        }
    }

    /// The storage, the first element, sizes and strides of a tensor.
    fn tensor(
        &self,
        of_type: Option<TorchDtype>,
        [storage, offset, sizes, strides]: [NodeId; 4],
    ) -> Result<Node, PickleError> {
        let Node::Storage { dtype, range } = self.node(storage) else {
            return Err(self.broken("a tensor without a storage"));
        };
        let Some(dtype) = of_type.or(*dtype) else {
            return Err(self.broken("a tensor without a type"));
        };
        let counts = |list: NodeId| -> Result<Vec<usize>, PickleError> {
            self.sequence(list)?.into_iter().map(|count| self.count(count)).collect()
        };
        let (sizes, strides) = (counts(sizes)?, counts(strides)?);
        let tensor = TorchTensor::new(dtype, range.clone(), self.count(offset)?, sizes, strides);
        tensor.map(|tensor| Node::Tensor(Arc::new(tensor))).map_err(|error| self.broken(error))
    }

    /// A text of which each character is a byte.
    fn encoded(&self, text: NodeId) -> Result<Node, PickleError> {
        let text = self.text(text)?;
        let bytes: Option<Vec<u8>> = text.chars().map(|char| u8::try_from(char).ok()).collect();
        let bytes = bytes.ok_or_else(|| self.broken("bytes above 255"))?;
        Ok(Node::Bytes(bytes.into()))
    }

    /// Objects keep nothing of their state: dicts have notes on modules' versions there.
    fn build(&mut self) -> Result<(), PickleError> {
        self.pop()?;
        match self.node(self.top()?) {
            Node::Dict(_) | Node::Opaque(_) => Ok(()),
            _ => Err(self.broken("a state for what has none")),
        }
    }

    fn append(&mut self, code: u8) -> Result<(), PickleError> {
        let items = match code {
            opcode::APPEND => self.pop_many(1)?,
            _ => self.pop_mark()?,
        };
        let NodeId(list) = self.top()?;
        match &mut self.nodes[list as usize] {
            Node::List(list) => list.extend(items),
            _ => return Err(self.broken("an item for what is not a list")),
        }
        Ok(())
    }

    fn set_items(&mut self, code: u8) -> Result<(), PickleError> {
        let items = match code {
            opcode::SETITEM => self.pop_many(2)?,
            _ => self.pop_mark()?,
        };
        let pairs = self.pairs(&items)?;
        let NodeId(dict) = self.top()?;
        match &mut self.nodes[dict as usize] {
            Node::Dict(dict) => dict.extend(pairs),
            _ => return Err(self.broken("an entry for what is not a dict")),
        }
        Ok(())
    }

    fn pairs(&self, items: &[NodeId]) -> Result<Vec<(NodeId, NodeId)>, PickleError> {
        let (pairs, rest) = items.as_chunks::<2>();
        match rest {
            [] => Ok(pairs.iter().map(|[key, value]| (*key, *value)).collect()),
            _ => Err(self.broken("a key without a value")),
        }
    }

    fn put(&mut self, place: u32) -> Result<(), PickleError> {
        let top = self.top()?;
        self.memo.insert(place, top);
        Ok(())
    }

    fn get(&mut self, place: u32) -> Result<(), PickleError> {
        let found = self.memo.get(&place).copied();
        let found = found.ok_or_else(|| self.broken(format!("no value has the number {place}")))?;
        self.stack.push(found);
        Ok(())
    }

    fn push(&mut self, node: Node) -> Result<(), PickleError> {
        if self.nodes.len() == VALUES_MOST {
            return Err(PickleError::TooMany { what: "values", limit: VALUES_MOST });
        }
        self.stack.push(NodeId(self.nodes.len() as u32));
        self.nodes.push(node);
        Ok(())
    }

    fn top(&self) -> Result<NodeId, PickleError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let top = self.stack[floor..].last().copied();
        top.ok_or_else(|| self.broken("a value is missing"))
    }

    fn pop(&mut self) -> Result<NodeId, PickleError> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_many(&mut self, count: usize) -> Result<Vec<NodeId>, PickleError> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len().checked_sub(count).filter(|start| *start >= floor) {
            Some(start) => Ok(self.stack.split_off(start)),
            None => Err(self.broken("values are missing")),
        }
    }

    fn pop_mark(&mut self) -> Result<Vec<NodeId>, PickleError> {
        match self.marks.pop() {
            Some(mark) => Ok(self.stack.split_off(mark)),
            None => Err(self.broken("a mark is missing")),
        }
    }

    fn node(&self, NodeId(number): NodeId) -> &Node {
        &self.nodes[number as usize]
    }

    fn text(&self, id: NodeId) -> Result<Arc<str>, PickleError> {
        match self.node(id) {
            Node::Text(text) => Ok(Arc::clone(text)),
            _ => Err(self.broken("a text is missing")),
        }
    }

    fn count(&self, id: NodeId) -> Result<usize, PickleError> {
        let count = match self.node(id) {
            Node::Int(count) => usize::try_from(*count).ok(),
            _ => None,
        };
        count.ok_or_else(|| self.broken("a count that is not one"))
    }

    /// A copy of its items. A few bytes could ask for the same many again and again, so there is a
    /// limit for all together.
    fn sequence(&self, id: NodeId) -> Result<Vec<NodeId>, PickleError> {
        let (Node::Tuple(items) | Node::List(items)) = self.node(id) else {
            return Err(self.broken("a tuple or list is missing"));
        };
        let left = self.copies_left.get().checked_sub(items.len());
        let limit = COPIES_MOST;
        self.copies_left.set(left.ok_or(PickleError::TooMany { what: "copied values", limit })?);
        Ok(items.clone())
    }

    fn broken(&self, problem: impl Into<String>) -> PickleError {
        PickleError::Broken { problem: problem.into(), at: self.reader.at() }
    }
}

/// Little-endian, with the sign in the last bit.
fn whole_number(bytes: &[u8]) -> Result<i128, PickleError> {
    let is_negative = bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = [if is_negative { 0xff } else { 0 }; INT_BYTES_MOST];
    let Some(front) = wide.get_mut(..bytes.len()) else {
        return Err(PickleError::TooMany { what: "bytes in a number", limit: INT_BYTES_MOST });
    };
    front.copy_from_slice(bytes);
    Ok(i128::from_le_bytes(wide))
}
