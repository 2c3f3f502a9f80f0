//! What a file's inputs are: vectors of tables, or dense features.

use terrace_kernels::Combiner;
use terrace_model::ctr::{CtrInputs, CtrTable};

/// An input as the file declares it.
#[derive(Clone, Debug)]
pub struct DeclaredInput {
    pub name: String,
    pub is_f32: bool,
    /// `None`: an extent that the file leaves open.
    pub extents: Option<Vec<Option<usize>>>,
}

/// What goes into an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputRole {
    /// f32 `[samples, features]`
    Dense,
    /// f32 `[samples, slots, dim]` of a table, by its number
    Table(usize),
}

/// Numbers of a sample in one input or output: memory is taken for them before anybody looks
/// whether tables have such rows.
pub const WIDTH_MOST: usize = 1 << 24;

/// Inputs of three axes are vectors of tables, in the tables' order; one of two axes has the dense
/// features.
pub fn roles_of(
    declared: &[DeclaredInput],
    combiner: Combiner,
) -> Result<(CtrInputs, Vec<InputRole>), String> {
    let mut inputs = CtrInputs { dense_dim: 0, tables: Vec::new() };
    let mut roles = Vec::with_capacity(declared.len());
    let mut dense: Option<&str> = None;
    for input in declared {
        let name = &input.name;
        if !input.is_f32 {
            return Err(format!("input {name:?} is not of 32-bit floats, which alone are given"));
        }
        match input.extents.as_deref() {
            Some([_, Some(features)]) => {
                check_width(name, &[*features])?;
                if let Some(other) = dense.replace(name) {
                    return Err(format!(
                        "inputs {other:?} and {name:?} both have two axes: one may have the dense \
                         features, and vectors of a table have three (samples, slots, numbers)"
                    ));
                }
                inputs.dense_dim = *features;
                roles.push(InputRole::Dense);
            }
            Some([_, Some(slots), Some(dim)]) => {
                check_width(name, &[*slots, *dim])?;
                roles.push(InputRole::Table(inputs.tables.len()));
                inputs.tables.push(CtrTable {
                    name: name.clone(),
                    slots: *slots,
                    dim: *dim,
                    combiner,
                    keys_per_slot_most: 1,
                    keys_per_sample_most: *slots,
                });
            }
            _ => return Err(misshapen(input)),
        }
    }
    match roles.is_empty() {
        true => Err("it has no inputs".to_owned()),
        false => Ok((inputs, roles)),
    }
}

fn check_width(name: &str, extents: &[usize]) -> Result<(), String> {
    let width = extents.iter().try_fold(1, |width: usize, extent| width.checked_mul(*extent));
    match width {
        Some(1..=WIDTH_MOST) => Ok(()),
        _ => Err(format!(
            "input {name:?} has {extents:?} numbers for a sample; allowed are 1 to {WIDTH_MOST}"
        )),
    }
}

fn misshapen(input: &DeclaredInput) -> String {
    let extent = |extent: &Option<usize>| extent.map_or("?".to_owned(), |it| it.to_string());
    let shape = match &input.extents {
        Some(extents) => extents.iter().map(extent).collect::<Vec<_>>().join(", "),
        None => "unknown".to_owned(),
    };
    format!(
        "input {:?} has the shape [{shape}]; dense features are [samples, features], vectors of a \
         table [samples, slots, numbers], all but the samples fixed",
        input.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str, extents: &[Option<usize>]) -> DeclaredInput {
        DeclaredInput { name: name.to_owned(), is_f32: true, extents: Some(extents.to_vec()) }
    }

    #[test]
    fn axes_say_what_an_input_is() {
        let declared = [
            input("deep", &[None, Some(3), Some(8)]),
            input("dense", &[None, Some(13)]),
            input("wide", &[Some(1), Some(2), Some(1)]),
        ];
        let (inputs, roles) = roles_of(&declared, Combiner::Mean).expect("all are known");
        assert_eq!(roles, [InputRole::Table(0), InputRole::Dense, InputRole::Table(1)]);
        assert_eq!(inputs.dense_dim, 13);
        let of = |table: &CtrTable| (table.name.clone(), table.slots, table.dim, table.combiner);
        let tables: Vec<_> = inputs.tables.iter().map(of).collect();
        let wanted = [("deep", 3, 8), ("wide", 2, 1)];
        let wanted = wanted.map(|(name, slots, dim)| (name.into(), slots, dim, Combiner::Mean));
        assert_eq!(tables, wanted);
    }

    #[test]
    fn what_cannot_be_given_is_named() {
        let ids = DeclaredInput { is_f32: false, ..input("ids", &[None, Some(3)]) };
        let unknown = DeclaredInput { extents: None, ..input("odd", &[]) };
        let pair = [input("a", &[None, Some(3)]), input("b", &[None, Some(4)])];
        for (declared, parts) in [
            (&[ids][..], ["\"ids\"", "32-bit"]),
            (&pair, ["\"a\" and \"b\"", "two axes"]),
            (&[input("x", &[None, None])], ["\"x\"", "[?, ?]"]),
            (&[input("x", &[Some(1), Some(2), Some(3), Some(4)])], ["\"x\"", "[1, 2, 3, 4]"]),
            (&[unknown], ["\"odd\"", "[unknown]"]),
            (&[input("x", &[None, Some(0), Some(3)])], ["\"x\"", "[0, 3] numbers"]),
            (&[input("x", &[None, Some(1 << 40), Some(1 << 40)])], ["\"x\"", "1 to 16777216"]),
            (&[], ["no inputs", ""]),
        ] {
            let error = roles_of(declared, Combiner::Sum).expect_err("it is refused");
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
