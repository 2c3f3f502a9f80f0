//! GBNF as people write it, and as they write it wrong.

use super::*;

#[track_caller]
fn check(gbnf: &str, lark: &str) {
    assert!(is_gbnf(gbnf), "{gbnf}");
    assert_eq!(gbnf_to_lark(gbnf).expect("a good grammar"), lark);
}

#[track_caller]
fn check_wrong(gbnf: &str, want: &str) {
    assert_eq!(gbnf_to_lark(gbnf).expect_err("a bad grammar"), want);
}

#[test]
fn rules_without_recursion_are_words() {
    check(
        "# an answer\nroot ::= yes-or-no \".\"? # and its end\nyes-or-no ::= \"yes\" | \"no\"\n",
        "start: W_ROOT\nW_ROOT: W_YES_OR_NO \".\"?\nW_YES_OR_NO: \"yes\" | \"no\"\n",
    );
}

#[test]
fn rules_that_lead_to_themselves_are_rules() {
    check(
        "root ::= \"(\" root \")\" | digit+\ndigit ::= [0-9]",
        "start: r_root\nr_root: \"(\" r_root \")\" | W_DIGIT+\nW_DIGIT: /[0-9]/\n",
    );
}

#[test]
fn alternatives_go_on_over_lines() {
    let lark = "start: W_ROOT\nW_ROOT: \"a\" | \"b\" | (\"c\" | \"d\") | \"\"\n";
    check("root ::= \"a\" |\n  \"b\" # two\n  | ( \"c\" |\n \"d\"\n )\n|", lark);
    check("root ::=\n\n \"a\" | \"b\" | (\"c\" | \"d\") | ", lark);
}

#[test]
fn classes_and_texts_have_escapes() {
    check(
        r#"root ::= [^"\\\x7F\x00-\x1F] [a\-z] [\]/^-] [\u00e9-\U0001F600] "\"\\\n\x41é""#,
        concat!(
            r"start: W_ROOT",
            "\n",
            r"W_ROOT: /[^\u{22}-\u{22}\u{5c}-\u{5c}\u{7f}-\u{7f}\u{0}-\u{1f}]/ ",
            r"/[a-a\u{2d}-\u{2d}z-z]/ /[\u{5d}-\u{5d}\u{2f}-\u{2f}\u{5e}-\u{5e}\u{2d}-\u{2d}]/ ",
            r#"/[\u{e9}-\u{1f600}]/ "\"\\\nAé""#,
            "\n",
        ),
    );
}

#[test]
fn repetitions_are_counted() {
    check(
        "root ::= \"a\"* [b]+ .? (\"c\"){2} [d]{3,} [e]{4,5} [f]{,6} \"\"",
        "start: W_ROOT\nW_ROOT: \"a\"* /[b-b]/+ /(?s:.)/? (\"c\"){2,2} /[d-d]/{3,} /[e-e]/{4,5} \
         /[f-f]/{0,6} \"\"\n",
    );
}

#[test]
fn names_stay_apart() {
    check(
        "root ::= a-b a_b A-B\na-b ::= \"1\"\na_b ::= \"2\"\nA-B ::= \"3\"",
        "start: W_ROOT\nW_ROOT: W_A_B W_A_B_ W_A_B__\nW_A_B: \"1\"\nW_A_B_: \"2\"\n\
         W_A_B__: \"3\"\n",
    );
}

#[test]
fn errors_name_the_place() {
    check_wrong("root ::= \"a", "line 1, column 12: a quote is missing");
    check_wrong("root ::= x\n", "line 1, column 10: there is no rule \"x\"");
    check_wrong("a ::= \"x\"", "there is no rule \"root\", where every text begins");
    check_wrong(
        "root ::= \"a\"\nroot ::= \"b\"",
        "line 2, column 1: the rule \"root\" is defined twice",
    );
    check_wrong("root ::= (\"a\"\nb ::= \"c\"", "line 2, column 3: ':' does not belong here");
    check_wrong("root ::= [z-a]", "line 1, column 14: the range from 'z' to 'a' is empty");
    check_wrong("root ::= \"\\q\"", "line 1, column 13: there is no escape \"\\q\"");
    check_wrong(
        "root ::= \"a\"{3,2}",
        "line 1, column 18: a repetition's numbers must grow, and be at most 10000",
    );
    check_wrong("root ::= <think>", "line 1, column 10: tokens by name or id are not supported");
    check_wrong("root ::= \"a\" )", "line 1, column 14: ')' does not belong here");
    let deep = format!("root ::= {}", "(".repeat(200));
    check_wrong(&deep, "line 1, column 111: groups are nested more than 100 deep, the limit");
}

#[test]
fn lark_is_not_taken_for_it() {
    assert!(!is_gbnf("start: \"a ::= b\"\nA: /x/"));
    assert!(!is_gbnf("start: A\nA: /x ::= y/"));
    assert!(is_gbnf("\n  root  ::= \"a\""));
}
