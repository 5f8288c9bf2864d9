//! The texts in a Rust file that users read: string literals, and the documentation comments that
//! clap turns into help and utoipa into the API description. Code of tests is left out.

use proc_macro2::{Delimiter, Group, LexError, TokenStream, TokenTree};

/// Derives whose documentation comments are shown to users.
const SHOWN_DERIVES: [&str; 6] =
    ["Parser", "Args", "Subcommand", "ValueEnum", "ToSchema", "IntoParams"];

/// Attributes whose strings are for the compiler and for readers of the code.
const INTERNAL_ATTRIBUTES: [&str; 5] = ["allow", "expect", "cfg", "cfg_attr", "path"];

/// A text and the line on which it starts.
#[derive(Debug, PartialEq)]
pub(super) struct Text {
    pub(super) line: usize,
    pub(super) text: String,
}

/// The visible texts of a source file.
///
/// # Errors
///
/// Returns the lexer's error if the file is not Rust.
pub(super) fn texts(source: &str) -> Result<Vec<Text>, LexError> {
    let mut texts = Vec::new();
    walk(source.parse()?, false, &mut texts);
    Ok(texts)
}

/// What is known about the item, field or statement that is being read.
#[derive(Default)]
struct Item {
    docs: Vec<Text>,
    is_test: bool,
    shows_docs: bool,
    /// Whether a keyword was read after which a comma does not end the item.
    has_keyword: bool,
}

impl Item {
    /// Takes over what an attribute says about the item, and the texts in the attribute.
    fn read_attribute(&mut self, attribute: &Group, texts: &mut Vec<Text>) {
        let words = idents(attribute.stream());
        let Some(first) = words.first() else { return };
        if first == "doc" {
            literals(attribute.stream(), &mut self.docs);
            return;
        }
        let is_test_function = first == "test" || words.get(1).is_some_and(|word| word == "test");
        let is_test_build = first == "cfg" && words.iter().any(|word| word == "test");
        self.is_test |= is_test_function || is_test_build;
        self.shows_docs |= first == "utoipa"
            || (first == "derive" && words.iter().any(|word| SHOWN_DERIVES.contains(&&**word)));
        if !INTERNAL_ATTRIBUTES.contains(&&**first) {
            literals(attribute.stream(), texts);
        }
    }

    /// Keeps the documentation read so far if users see it. Lines are joined: a phrase may span two.
    fn end_attributes(&mut self, is_shown: bool, texts: &mut Vec<Text>) {
        let docs = std::mem::take(&mut self.docs);
        let Some(first) = docs.first() else { return };
        if !self.is_test && (is_shown || self.shows_docs) {
            let lines: Vec<&str> = docs.iter().map(|doc| doc.text.trim_matches('"')).collect();
            texts.push(Text { line: first.line, text: lines.join("\n") });
        }
    }
}

fn walk(stream: TokenStream, shows_docs: bool, texts: &mut Vec<Text>) {
    let mut item = Item::default();
    let mut tokens = stream.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if is_punct(&token, '#') {
            tokens.next_if(|next| is_punct(next, '!'));
            if let Some(TokenTree::Group(attribute)) = tokens.peek() {
                item.read_attribute(attribute, texts);
                tokens.next();
            }
            continue;
        }
        item.end_attributes(shows_docs, texts);
        let is_end = match &token {
            TokenTree::Group(group) => {
                if !item.is_test {
                    walk(group.stream(), shows_docs || item.shows_docs, texts);
                }
                group.delimiter() == Delimiter::Brace
            }
            TokenTree::Literal(_) if !item.is_test => {
                texts.extend(string(&token));
                false
            }
            TokenTree::Ident(word) => {
                let keywords = ["fn", "impl", "mod", "struct", "enum", "trait"];
                item.has_keyword |= keywords.iter().any(|keyword| word == keyword);
                false
            }
            other => is_punct(other, ';') || (is_punct(other, ',') && !item.has_keyword),
        };
        if is_end {
            item = Item::default();
        }
    }
}

fn is_punct(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// The words of an attribute, in order, with those in its brackets.
fn idents(stream: TokenStream) -> Vec<String> {
    let mut words = Vec::new();
    for token in stream {
        match token {
            TokenTree::Ident(word) => words.push(word.to_string()),
            TokenTree::Group(group) => words.extend(idents(group.stream())),
            _ => {}
        }
    }
    words
}

fn literals(stream: TokenStream, texts: &mut Vec<Text>) {
    for token in stream {
        match &token {
            TokenTree::Group(group) => literals(group.stream(), texts),
            token => texts.extend(string(token)),
        }
    }
}

/// A string literal as it is written, with the lines of a wrapped one joined and escaped white space
/// replaced, so that a word after it is found.
fn string(token: &TokenTree) -> Option<Text> {
    let TokenTree::Literal(literal) = token else { return None };
    let written = literal.to_string();
    if !written.contains('"') {
        return None;
    }
    let mut parts = written.split("\\\n");
    let mut text = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| text.push_str(part.trim_start()));
    let text = ["\\n", "\\t", "\\r"].iter().fold(text, |text, escape| text.replace(escape, " "));
    Some(Text { line: literal.span().start().line, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &[(usize, &str)]) {
        let texts = texts(source).unwrap();
        let found: Vec<(usize, &str)> =
            texts.iter().map(|text| (text.line, text.text.trim_matches('"'))).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn string_literals_are_visible_and_comments_are_not() {
        check("// a\n/// b\nfn f() {\n    print(\"c\", 'd', 1);\n}", &[(4, "c")]);
        check("const A: &str = r#\"raw\"#;", &[(1, "r#\"raw\"#")]);
        check("f(\"one \\\n     two\");", &[(1, "one two")]);
        check(r#"f("one\ntwo");"#, &[(1, "one two")]);
    }

    #[test]
    fn code_of_tests_is_left_out() {
        check(
            "#[cfg(test)]\nmod tests { const A: &str = \"a\"; }\nconst B: &str = \"b\";",
            &[(3, "b")],
        );
        check("#[tokio::test(start_paused = true)]\nasync fn f<A, B>() { g(\"a\"); }", &[]);
        check("#[cfg(any(test, feature = \"x\"))]\nuse a::b;\nf(\"b\");", &[(3, "b")]);
    }

    #[test]
    fn help_and_api_descriptions_are_visible() {
        check(
            "/// A\n#[derive(Args)]\nstruct B { /// b1\n/// b2\nb: u8, /// c\nc: Vec<u8> }",
            &[(1, " A"), (3, " b1\n b2"), (5, " c")],
        );
        check("/// A\n#[utoipa::path(get, tag = \"t\")]\nfn a() {}", &[(2, "t"), (1, " A")]);
        check("/// A\n#[derive(Debug)]\nstruct B { /// b\nb: u8 }", &[]);
    }

    #[test]
    fn strings_of_attributes_count_unless_they_are_internal() {
        check("#[error(\"a\")]\n#[expect(lint, reason = \"b\")]\nstruct A;", &[(1, "a")]);
    }
}
