//! Chat templates in the styles models come with, and hostile ones.

use serde_json::{Map, Value, json};
use terrace_model::{ChatTemplate, Error, Message, RenderOptions, SpecialTokenTexts};

/// ChatML as people pass it on a command line, where `\n` is two characters.
const CHATML: &str = "{% for message in messages %}{{'<|im_start|>'+message['role']+'\\n'+\
    message['content']+'<|im_end|>'+'\\n'}}{% endfor %}";

#[test]
fn chatml_renders_with_either_newline() {
    let want = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n";
    let messages = json!([
        { "role": "user", "content": "hi" },
        { "role": "assistant", "content": "yes" },
    ]);
    assert!(CHATML.contains(r"\n") && !ChatTemplate::unescape(CHATML).contains(r"\n"));
    assert_eq!(render(CHATML, &messages).expect("two characters"), want);
    assert_eq!(render(&ChatTemplate::unescape(CHATML), &messages).expect("a newline"), want);
}

#[test]
fn unescape_reads_what_a_shell_leaves() {
    assert_eq!(ChatTemplate::unescape(r#"a\nb\tc\\n\"\'"#), "a\nb\tc\\n\"'");
    assert_eq!(ChatTemplate::unescape(r"\d ü \"), r"\d ü \", "others stay");
}

#[test]
fn llama_3_style() {
    let template = "{{ bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = 'Be brief.' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\n\n' + system + '<|eot_id|>' }}
{%- for message in messages %}
    {%- if message.role not in ['user', 'assistant'] %}
        {{- raise_exception('Unknown role: ' + message.role) }}
    {%- endif %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' }}
    {{- message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
";
    let text = render(
        template,
        &json!([
            { "role": "system", "content": " Help. " },
            { "role": "user", "content": "hi\n" },
        ]),
    );
    assert_eq!(
        text.expect("renders"),
        "<s><|start_header_id|>system<|end_header_id|>\n\nHelp.<|eot_id|>\
         <|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\n"
    );
    match render(template, &json!([{ "role": "robot", "content": "x" }])) {
        Err(Error::TemplateRefused { message }) => assert_eq!(message, "Unknown role: robot"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn mistral_style() {
    let template = "{{ bos_token }}{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
{{ raise_exception('Conversation roles must alternate user/assistant/...') }}
{% endif %}
{% if message['role'] == 'user' %}
{{ '[INST] ' + message['content'] + ' [/INST]' }}{% else %}
{{ message['content'] + eos_token }}{% endif %}
{% endfor %}";
    let turns = |roles: &[&str]| {
        roles.iter().map(|role| json!({ "role": role, "content": role })).collect::<Value>()
    };
    assert_eq!(
        render(template, &turns(&["user", "assistant", "user"])).expect("renders"),
        "<s>[INST] user [/INST]assistant</s>[INST] user [/INST]"
    );
    let error = render(template, &turns(&["user", "user"])).expect_err("two users");
    assert!(error.to_string().contains("roles must alternate"), "{error}");
}

#[test]
fn text_parts_are_joined() {
    let parts = |parts: Value| {
        render("{{ messages[0].content }}", &json!([{ "role": "user", "content": parts }]))
    };
    let text = |text: &str| json!({ "type": "text", "text": text });
    assert_eq!(parts(json!([text("a"), text("b")])).expect("renders"), "ab");
    assert_eq!(parts(json!([])).expect("renders"), "");
    let error = parts(json!([{ "type": "image_url", "image_url": {} }])).expect_err("an image");
    assert!(error.to_string().contains("\"image_url\""), "{error}");
    parts(json!(["a"])).expect_err("a part without a type");
}

#[test]
fn json_is_written_as_python_writes_it() {
    let calls = json!([{ "role": "assistant", "tool_calls": [
        { "name": "f<'&'>", "arguments": { "z": 1, "a": [true, null, 0.5], "é": {} } },
    ]}]);
    let line = r#"{"z": 1, "a": [true, null, 0.5], "é": {}}"#;
    let arguments = "{{ messages[0].tool_calls[0].arguments | tojson }}";
    assert_eq!(render(arguments, &calls).expect("renders"), line);
    let name = "{{ messages[0].tool_calls[0].name | tojson(ensure_ascii=False) }}";
    assert_eq!(render(name, &calls).expect("renders"), r#""f<'&'>""#);
    let tight = "{{ messages[0].tool_calls[0].arguments.a | tojson(separators=(',', ':')) }}";
    assert_eq!(render(tight, &calls).expect("renders"), "[true,null,0.5]");
    let tall = "{{ {'a': [1, 2], 'b': []} | tojson(indent=2) }}";
    assert_eq!(
        render(tall, &calls).expect("renders"),
        "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": []\n}"
    );
}

#[test]
fn templates_see_what_hugging_face_gives_them() {
    let check = |template: &str, want: &str| {
        let messages = json!([{ "role": "user", "content": "  Hi, you  ", "name": "Ann" }]);
        assert_eq!(render(template, &messages).expect(template), want, "{template}");
    };
    check("{{ messages[0].name }}|{{ messages[0].missing }}", "Ann|");
    check("{{ 'name' in messages[0] }}", "True");
    check("{{ tools is none }}|{{ documents is none }}|{{ other is defined }}", "True|True|False");
    check("{{ enable_thinking }}", "False");
    check("{{ messages[0].content.strip().split(',')[0].upper() }}", "HI");
    check("{{ messages[0].get('x', 'none') }}", "none");
    check("{% for k, v in messages[0].items() %}{{ k }},{% endfor %}", "role,content,name,");
    check("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "012");
    check("{% set ns = namespace(n=1) %}{% set ns.n = 2 %}{{ ns.n }}", "2");
    check("{{ strftime_now('%%') }}", "%");
    check("{{ messages[0].missing == 'a' }}|{{ messages[0].missing ~ 'x' }}", "False|x");
    check("{{ messages[0].missing in ['a'] }}|{{ 'A' in messages[0].name }}", "False|True");
    check("{{ messages[0].name == 'Ann' and 1 < messages|length + 1 }}", "True");
    check("{{ [messages[0].name] + [2, 3] }}|{{ (1, messages|length)[1] }}", "['Ann', 2, 3]|1");
    check("{{ 2 * messages|length }}|{{ messages[0].name * 2 }}", "2|AnnAnn");
    check("{{ messages[0].name[::-1] }}|{{ {'a': messages[0].name}.a }}", "nnA|Ann");
    check("{{ messages|map(attribute='name')|join(', ') }}", "Ann");
    check("{{ messages|selectattr('name', 'equalto', 'Ann')|list|length }}", "1");
    check("{{ 'a-b'.replace('-', '+') }}|{{ '-'.join(['a', 'b']) }}", "a+b|a-b");
    check("a\n    {% if true %}\nb\n    {% endif %}\nc\n", "a\nb\nc");
}

#[test]
fn generation_tags_are_passed_over() {
    let check = |template: &str, want: &str| {
        assert_eq!(render(template, &json!([])).expect(template), want, "{template}");
    };
    check("a {% generation %}b{% endgeneration %} c", "a b c");
    check("a {%- generation -%} b {%- endgeneration -%} c", "abc");
    check("a\n{% generation %}\nb\n{% endgeneration %}\nc", "a\nb\nc");
    check("{{ 'generation' }}", "generation");
}

#[test]
fn broken_templates_are_refused_at_the_start() {
    let Err(error) = ChatTemplate::new("{% for %}", SpecialTokenTexts::default()) else {
        panic!("compiled")
    };
    assert!(matches!(error, Error::Template { .. }) && error.to_string().contains("chat:1"));
}

#[test]
fn hostile_templates_end_in_an_error() {
    let check = |template: &str, problem: &str| {
        let error = render(template, &json!([])).expect_err(template).to_string();
        assert!(error.contains(problem), "wanted {problem:?} in {error:?}");
    };
    let endless = "{% for a in range(99999) %}{% for b in range(99999) %}{{ b }}{% endfor %}\
                   {% endfor %}";
    check(endless, "fuel");
    check("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion limit");
    check("{% for x in range(10 ** 15) %}{% endfor %}", "too many elements");
    check("{{ x.y.z }}", "undefined");
    check("{% include 'other' %}", "other");
    let nested = format!("{{{{ {}1{} }}}}", "(".repeat(99_999), ")".repeat(99_999));
    assert!(ChatTemplate::new(&nested, SpecialTokenTexts::default()).is_err());
}

#[test]
fn templates_cannot_take_time_or_memory_without_end() {
    let check = |template: &str, problem: &str| {
        let error = render(template, &json!([])).expect_err(template).to_string();
        assert!(error.contains(problem), "wanted {problem:?} in {error:?}");
    };
    let repeated = |inside: &str| {
        let namespace = "{% set ns = namespace(x=['ab']) %}";
        format!("{namespace}{{% for i in range(99999) %}}{inside}{{% endfor %}}")
    };
    let work = "more than 67108864 bytes";
    check("{% for a in range(9999) %}{{ 'x' * 99999 }}{% endfor %}", work);
    check(&repeated("{% set ns.x = ns.x ~ ns.x %}"), work);
    check(&repeated("{% set ns.x = ns.x|string + ns.x|string %}"), work);
    check(&repeated("{% set ns.x = ns.x + ns.x %}"), work);
    check(&repeated("{% set ns.x = ns.x * 2 %}"), work);
    check(&repeated("{% set ns.x = (ns.x|string).replace('', 'abc') %}"), work);
    check(&repeated("{% set ns.x = ns.x|join(ns.x|string) %}"), work);
    check(&repeated("{% set ns.x = [ns.x|string]|map('replace', '', 'abc')|first %}"), work);
    check(&repeated("{% set x %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = x %}"), work);
    check(&repeated("{% set ns.x = [ns.x, ns.x] %}"), work);
    check(&repeated("{% set ns.x = {'a': ns.x, 'b': ns.x} %}"), work);
    check(&repeated("{% set ns.x = [ns.x] %}"), "nested more than 100 deep");
    check(&repeated("{% set ns.x = namespace(x=ns.x) %}"), "nested more than 100 deep");
    check(&repeated("{% set ns.x = dict(x=ns.x) %}"), "nested more than 100 deep");
    check("{{ 'x' * 10 ** 12 }}", work);
    check("{{ 'a'|indent(999999999) }}", work);
    check("{{ '%999999999d'|format(1) }}", "widths");
    check("{{ '{:>999999999}'.format(1) }}", "widths");
    check("{{ [1]|slice(999999999)|list }}", work);
    check("{{ 1 < 2 < 3 }}{{ messages < 2 < 3 }}", "chains of comparisons");
    let constant = format!("{{{{ {} }}}}", "'a' * 99999999 ~ ".repeat(40) + "1");
    check(&constant, "40 multiplications");
    let plain = format!("{{% set x %}}{}{{% endset %}}", repeated(&"y".repeat(60_000)));
    check(&plain, "fuel");
}

fn render(template: &str, messages: &Value) -> Result<String, Error> {
    let messages: Vec<Message> = serde_json::from_value(messages.clone()).expect("messages");
    let special = SpecialTokenTexts { bos: Some("<s>".into()), eos: Some("</s>".into()) };
    let extra = Map::from_iter([("enable_thinking".to_owned(), json!(false))]);
    let options = RenderOptions { extra, ..RenderOptions::next_message() };
    ChatTemplate::new(template, special)?.render(&messages, &options)
}
