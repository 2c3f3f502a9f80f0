//! Comments and literals are split from code.

use terrace_tidy::code_only;

#[track_caller]
fn check(text: &str, want: &str) {
    let code = code_only(text);
    assert_eq!(code.lines().count(), text.lines().count());
    assert_eq!(code.chars().count(), text.chars().count());
    let words: Vec<&str> = code.split_whitespace().collect();
    assert_eq!(words.join(" "), want);
}

#[test]
fn comments_are_blank() {
    check("a // unsafe { }\nb", "a b");
    check("a /* x /* { */ \n } */ b", "a b");
    check("a /** never closed {", "a");
}

#[test]
fn strings_are_blank() {
    check(r#"a("{ \" unsafe", b)"#, "a( , b)");
    check("a(r#\"{ \" // \"#, b)", "a(r , b)");
    check("a(br\"{\\\", b) // \"", "a(br , b)");
    check("a(\"one\ntwo {\") b", "a( ) b");
}

#[test]
fn characters_are_blank_and_lifetimes_stay() {
    check("f('{', '\\'', '\\u{7f}', '\"')", "f( , , , )");
    check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
}
