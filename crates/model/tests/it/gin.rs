//! Gin files: what Python would make of them, and where they are wrong.

use std::fs;

use proptest::prelude::*;
use terrace_model::gin::{GinConfig, GinError, GinValue};

fn value(text: &str) -> GinValue {
    let config = GinConfig::from_text("a.gin", &format!("A.x = {text}")).expect(text);
    let binding = config.binding("", "A", "x").expect("a binding");
    config.resolved(binding).expect(text)
}

fn text(text: &str) -> GinValue {
    GinValue::Text(text.to_owned())
}

#[test]
fn literals_are_those_of_python() {
    use GinValue::{Bool, Dict, Float, Int, List, None, Tuple};
    let check = |literal: &str, want: GinValue| assert_eq!(value(literal), want, "{literal}");
    check("3", Int(3));
    check("-3", Int(-3));
    check("10_000", Int(10_000));
    check("0x1f", Int(31));
    check("1e-3", Float(1e-3));
    check("-.5", Float(-0.5));
    check("2.", Float(2.0));
    check("True", Bool(true));
    check("None", None);
    check("'a' \"b\"", text("ab"));
    check(r#"'it\'s\n\x41\u00e9'"#, text("it's\nAé"));
    check(r"r'\d'", text(r"\d"));
    check("'''two\nlines'''", text("two\nlines"));
    check("()", Tuple(vec![]));
    check("(1)", Int(1));
    check("(1,)", Tuple(vec![Int(1)]));
    check("('AUC', 'NDCG')", Tuple(vec![text("AUC"), text("NDCG")]));
    check("[\n  512,  # wide\n  8,\n]", List(vec![Int(512), Int(8)]));
    check("{'a': [1], 2: None}", Dict(vec![(text("a"), List(vec![Int(1)])), (Int(2), None)]));
    check("\\\n  7", Int(7));
    let reference = |scope: &str, is_called| GinValue::Reference {
        scope: scope.to_owned(),
        name: "m.F".to_owned(),
        is_called,
    };
    check("@m.F", reference("", false));
    check("@a/b/m.F()", reference("a/b", true));
}

#[test]
fn later_bindings_and_nearer_scopes_win() {
    let config = GinConfig::from_text(
        "a.gin",
        "import some.module\nfrom other import module as it\nN = 4\n\
         A.x = 1\nA.x = 2\nscope/m.A.x = %N\nA:\n  y = [%N, %N]\n  z = 'z'\nB.x = 0",
    );
    let config = config.expect("a good file");
    let get = |scope: &str, param: &str| {
        let binding = config.binding(scope, "A", param).expect(param);
        config.resolved(binding).expect(param)
    };
    assert_eq!(get("", "x"), GinValue::Int(2));
    assert_eq!(get("scope", "x"), GinValue::Int(4));
    assert_eq!(get("scope/inner", "x"), GinValue::Int(4));
    assert_eq!(get("other", "x"), GinValue::Int(2));
    assert_eq!(get("", "y"), GinValue::List(vec![GinValue::Int(4), GinValue::Int(4)]));
    assert!(config.binding("", "A", "w").is_none());
}

#[test]
fn errors_name_file_line_and_what_was_wrong() {
    let check = |file: &str, want: &str| {
        let error = match GinConfig::from_text("a.gin", file) {
            Ok(config) => {
                let resolved = config.bindings().map(|(.., binding)| config.resolved(binding));
                let failed = resolved.filter_map(Result::err).next();
                failed.unwrap_or_else(|| panic!("{file:?} was read"))
            }
            Err(error) => error,
        };
        let message = error.to_string();
        assert!(message.contains(want), "{file:?}: {message}");
    };
    check("A.x = 1\nA.y 2", "a.gin:2: = is missing behind A.y");
    check("A.x = [1, 2", "a.gin:1: a bracket is not closed");
    check("A.x = 1 2", "a.gin:1: there is more on the line");
    check("\n\nA.x = ", "a.gin:3: a value is missing");
    check("A.x = hello", "a.gin:1: hello is not a value; texts stand in quotes");
    check("A.x = 'open", "a.gin:1: a string is not closed");
    check("A.x = 1.2.3", "\"1.2.3\" is not a number");
    check("A.x = 99999999999999999999", "is not a number");
    check("A.x = 017", "is not a number");
    check("A.x = b'x'", "a string with the prefix b");
    check("  A.x = 1", "A.x is indented");
    check("A.x = $", "'$' has no meaning here");
    check("A.x = )", "')' closes no bracket");
    check("A.x = (1]", "')' is missing");
    check("A..x = 1", "\"A..x\" is not a name");
    check("A.x = %M", "a.gin:1: %M is not defined");
    check("M = [%M]\nA.x = %M", "%M is defined by itself");
    check("include 'b.gin'", "a text cannot include \"b.gin\"");
    check("A:\nB.x = 1", "there are no parameters below A");
    check(&format!("A.x = {}", "[".repeat(40)), "bracket");
    check(&format!("A.x = {}{}", "[".repeat(40), "]".repeat(40)), "more than 32 brackets");
    let doubled: String = (1..16).map(|at| format!("M{at} = [%M{}, %M{0}]\n", at - 1)).collect();
    check(&format!("M0 = [0, 0]\n{doubled}A.x = [%M15, %M15]"), "stands for more than 65536");
}

#[test]
fn includes_are_found_as_in_the_original() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("inference/configs");
    fs::create_dir_all(&inner).expect("folders");
    let write = |name: &str, text: &str| fs::write(inner.join(name), text).expect(name);
    write("base.gin", "A.x = 1\nA.y = 1\n");
    write("own.gin", "A.y = 0\ninclude 'inference/configs/base.gin'\nA.x = 2\n");
    write("beside.gin", "include 'own.gin'");
    write("itself.gin", "include 'itself.gin'");
    write("none.gin", "\ninclude 'missing.gin'");
    let config = GinConfig::open(&inner.join("beside.gin")).expect("a good file");
    let value = |param: &str| config.binding("", "A", param).map(|binding| &binding.value);
    assert_eq!(value("x"), Some(&GinValue::Int(2)));
    assert_eq!(value("y"), Some(&GinValue::Int(1)));
    let refused = |name: &str, want: &str| {
        let message = GinConfig::open(&inner.join(name)).expect_err(name).to_string();
        assert!(message.contains(want), "{message}");
    };
    refused("itself.gin", "more than 32 files include each other");
    refused(
        "none.gin",
        "none.gin:2: there is no file \"missing.gin\"; looked for it as missing.gin",
    );
    let missing = GinConfig::open(&inner.join("absent.gin"));
    assert!(matches!(missing, Err(GinError::Read { .. })));
}

fn any_value() -> impl Strategy<Value = GinValue> {
    let name = "[a-z_][a-z0-9_]{0,4}";
    let leaf = prop_oneof![
        Just(GinValue::None),
        any::<bool>().prop_map(GinValue::Bool),
        (-i64::MAX..=i64::MAX).prop_map(GinValue::Int),
        proptest::num::f64::NORMAL.prop_map(GinValue::Float),
        any::<String>().prop_map(GinValue::Text),
        (name, any::<bool>()).prop_map(|(name, is_called)| GinValue::Reference {
            scope: "s/t".to_owned(),
            name,
            is_called,
        }),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let many = prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            many.clone().prop_map(GinValue::List),
            many.prop_map(GinValue::Tuple),
            prop::collection::vec((inner.clone(), inner), 0..3).prop_map(GinValue::Dict),
        ]
    })
}

proptest! {
    /// A value is what is read of it as a file has it.
    #[test]
    fn written_values_are_read_back(written in any_value()) {
        prop_assert_eq!(value(&written.to_string()), written);
    }

    /// Whatever a file is, reading it ends, with an error if it must.
    #[test]
    fn any_text_ends(text in "[A-Za-z0-9_./@%=(){}\\[\\],:'\"\\\\# \n-]{0,80}") {
        if let Ok(config) = GinConfig::from_text("a.gin", &text) {
            config.bindings().for_each(|(.., binding)| drop(config.resolved(binding)));
        }
    }
}
