//! Templates compiled so that operators pay for their operands.
//!
//! The engine's own operators ask nobody. After compilation their instructions are replaced by
//! calls of functions with names that no template can write, which pay and then do the same.

use minijinja::machinery::{CodeGenerator, Instruction, Instructions, Token, parse, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, Tuple};
use minijinja::{Environment, Error, ErrorKind, State, Value, context};

use super::work_limit::{Size, pay, pay_for, settled};

/// The engine multiplies constants, of up to 100 MB each, already when it compiles.
const MAX_MULTIPLICATIONS: usize = 4;

type Comparison = fn(&Value, &Value) -> bool;

const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", |a, b| a == b),
    ("!=", |a, b| a != b),
    ("<", |a, b| a < b),
    ("<=", |a, b| a <= b),
    (">", |a, b| a > b),
    (">=", |a, b| a >= b),
];

/// Operators that the engine may do once they are paid: name, text, size of the operands.
const PAID: [(&str, &str, Size); 2] =
    [("[:]", "a[b:c:d]", Size::Outside), ("in", "a in b", Size::Whole)];

/// What a template's instructions call.
pub fn add_to(environment: &mut Environment<'_>) {
    for (name, compare) in COMPARISONS {
        environment.add_function(name, move |state: &mut State<'_, '_>, a: Value, b: Value| {
            let operands = [a, b];
            pay_for(state, &operands, Size::Whole)?;
            let [a, b] = &operands;
            Ok(compare(a, b))
        });
    }
    for (name, text, size) in PAID {
        environment.add_function(name, move |state: &mut State<'_, '_>, operands: Rest<Value>| {
            pay_for(state, &operands, size)?;
            operate(state, text, &operands)
        });
    }
    environment.add_function("+", add);
    environment.add_function("*", multiply);
    environment.add_function("~", concatenate);
    environment.add_function("[]", |state: &mut State<'_, '_>, items: Rest<Value>| {
        pay_for(state, &items, Size::Values).map(|()| Value::from(items.0))
    });
    environment.add_function("()", |state: &mut State<'_, '_>, items: Rest<Value>| {
        pay_for(state, &items, Size::Values).map(|()| Value::from(Tuple::from(items.0)))
    });
    environment.add_function("{}", |state: &mut State<'_, '_>, items: Rest<Value>| {
        pay_for(state, &items, Size::Values)?;
        let pairs = items.as_chunks().0.iter();
        Ok(Value::from_pairs(pairs.map(|[key, value]| (key.clone(), value.clone()))))
    });
}

/// The instructions of a template, and the bytes of its longest text between tags.
pub fn compile<'source>(
    name: &'source str,
    source: &'source str,
    syntax: SyntaxConfig,
) -> Result<(Instructions<'source>, usize), Error> {
    let tokens = tokenize(source, false, syntax.clone()).map_while(Result::ok);
    let multiplied = tokens.filter(|(token, _)| matches!(token, Token::Mul | Token::Pow)).count();
    if multiplied > MAX_MULTIPLICATIONS {
        let problem = format!("{multiplied} multiplications, at most {MAX_MULTIPLICATIONS} may be");
        return Err(Error::new(ErrorKind::SyntaxError, problem));
    }
    let tree = parse(source, name, syntax)?;
    let mut generator = CodeGenerator::new(name, source);
    generator.compile_stmt(&tree);
    let (mut instructions, blocks) = generator.finish();
    if !blocks.is_empty() {
        return refused("blocks");
    }
    let mut longest = 0;
    for index in 0.. {
        let Some(instruction) = instructions.get_mut(index) else { break };
        if let Instruction::EmitRaw(text) = instruction {
            longest = longest.max(text.len());
        }
        if let Some(call) = paid_call(instruction)? {
            *instruction = call;
        }
    }
    Ok((instructions, longest))
}

fn paid_call(instruction: &Instruction<'_>) -> Result<Option<Instruction<'static>>, Error> {
    let (name, operands) = match instruction {
        Instruction::Add => ("+", 2),
        Instruction::Mul => ("*", 2),
        Instruction::StringConcat => ("~", 2),
        Instruction::Slice => ("[:]", 4),
        Instruction::Eq => ("==", 2),
        Instruction::Ne => ("!=", 2),
        Instruction::Lt => ("<", 2),
        Instruction::Lte => ("<=", 2),
        Instruction::Gt => (">", 2),
        Instruction::Gte => (">=", 2),
        Instruction::In => ("in", 2),
        Instruction::BuildList(Some(items)) => ("[]", *items),
        Instruction::BuildTuple(Some(items)) => ("()", *items),
        Instruction::BuildMap(pairs) => ("{}", 2 * pairs),
        Instruction::BuildList(None) | Instruction::BuildTuple(None) => {
            return refused("lists of unpacked lists");
        }
        Instruction::CompareAndPreserve(_) => return refused("chains of comparisons"),
        _ => return Ok(None),
    };
    match u16::try_from(operands) {
        Ok(operands) => Ok(Some(Instruction::CallFunction(name, Some(operands)))),
        Err(_) => refused("lists this long"),
    }
}

fn refused<T>(what: &str) -> Result<T, Error> {
    Err(Error::new(ErrorKind::SyntaxError, format!("{what} are not supported")))
}

/// The engine's own operator, on up to four operands.
fn operate(state: &State<'_, '_>, text: &'static str, operands: &[Value]) -> Result<Value, Error> {
    let operand = |index: usize| operands.get(index).cloned().unwrap_or(Value::UNDEFINED);
    let operands = context! { a => operand(0), b => operand(1), c => operand(2), d => operand(3) };
    settled(state.env().compile_expression_owned(text)?.eval(operands)?)
}

fn add(state: &mut State<'_, '_>, a: Value, b: Value) -> Result<Value, Error> {
    let operands = [a, b];
    pay_for(state, &operands, Size::Outside)?;
    match operands.each_ref().map(Value::as_str) {
        [Some(a), Some(b)] => Ok(Value::from([a, b].concat())),
        _ => operate(state, "a + b", &operands),
    }
}

fn multiply(state: &mut State<'_, '_>, a: Value, b: Value) -> Result<Value, Error> {
    let items = |value: &Value| Some(value.len()? * size_of::<Value>());
    let length = |value: &Value| value.as_bytes().map(<[u8]>::len).or_else(|| items(value));
    let times = match (length(&a), length(&b)) {
        (Some(length), _) => length.saturating_mul(b.as_usize().unwrap_or(1)),
        (_, Some(length)) => length.saturating_mul(a.as_usize().unwrap_or(1)),
        _ => 1,
    };
    pay(state, times)?;
    operate(state, "a * b", &[a, b])
}

fn concatenate(state: &mut State<'_, '_>, a: Value, b: Value) -> Result<Value, Error> {
    let operands = [a, b];
    pay_for(state, &operands, Size::Whole)?;
    let [a, b] = operands;
    Ok(Value::from(format!("{a}{b}")))
}
