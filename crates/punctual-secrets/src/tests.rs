//! What holds of references and masks.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::{Mask, Secrets, Source};

fn file(directory: &Path, name: &str, value: &str) -> Source {
    let path = directory.join(name);
    std::fs::write(&path, value).expect("a file is written");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, private).expect("it is ours");
    Source::file(path)
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = file(directory.path(), "pw", "hunter22");
    let path = directory.path().join("pw");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    let secrets = Secrets::from_config([("pw", source)]).expect("the name is fine");
    let error = secrets.resolve("secret://pw").expect_err("it is refused").to_string();
    let error = error.replace(&path.display().to_string(), "PATH");
    assert!(
        error.starts_with(
            "secret `pw`: refusing to use PATH: other users can read or change it (mode 0644"
        ) && error.ends_with("run `chmod 600 PATH`"),
        "{error}"
    );
}

#[test]
fn references_are_replaced_wherever_they_stand() {
    let directory = tempfile::tempdir().expect("a directory");
    let secrets = Secrets::from_config([
        ("pw", file(directory.path(), "pw", "hunter22\n")),
        ("user-2", file(directory.path(), "user", "alice")),
    ])
    .expect("both names are fine");
    let resolved = secrets.resolve("x://secret://user-2:secret://pw@host").expect("both are there");
    assert_eq!(resolved.expose(), "x://alice:hunter22@host");
    assert_eq!(format!("{resolved:?}"), "Resolved(•••)");
    let plain = secrets.resolve("nothing here").expect("nothing to resolve");
    assert!(!plain.has_secret() && resolved.has_secret());
}

#[test]
fn what_cannot_be_resolved_says_why_and_the_way_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let gone = Source::file("/there/is/no/such/file");
    let secrets = Secrets::from_config([
        ("short", file(directory.path(), "short", "abc\n")),
        ("gone", gone),
        ("unset", Source::env("PUNCTUAL_TEST_OF_NOTHING")),
    ])
    .expect("the names are fine");
    let message =
        |text: &str| secrets.resolve(text).expect_err("it cannot be resolved").to_string();
    insta::assert_snapshot!(message("secret://shrt"), @"unknown secret `shrt`; define it in `[secrets]` of the worker's configuration (`punctual config show` lists the secrets)");
    insta::assert_snapshot!(message("secret://short"), @"secret `short`: the value is shorter than 4 bytes, which is too short to mask; use a longer value");
    insta::assert_snapshot!(message("secret://gone"), @"secret `gone`: cannot read /there/is/no/such/file: No such file or directory (os error 2); check the path, and the permissions of the process that runs the job");
    insta::assert_snapshot!(message("secret://unset"), @"secret `unset`: environment variable `PUNCTUAL_TEST_OF_NOTHING` is not set; set it for the process that runs the job");
    let bad = Secrets::from_config([("a b", Source::env("X"))]).expect_err("a bad name");
    insta::assert_snapshot!(bad, @"invalid secret name `a b`; use letters, digits, `_` and `-`");
}

#[test]
fn a_value_that_was_changed_is_masked_beside_the_new_one() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = file(directory.path(), "pw", "old-value");
    let secrets = Secrets::from_config([("pw", source)]).expect("the name is fine");
    assert_eq!(secrets.resolve("secret://pw").expect("it is there").expose(), "old-value");
    file(directory.path(), "pw", "new-value");
    assert_eq!(secrets.mask().text("old-value new-value"), "••• •••");
    assert_eq!(secrets.resolve("secret://pw").expect("it is there").expose(), "new-value");
}

#[test]
fn values_without_a_name_are_masked_and_cannot_be_referred_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = file(directory.path(), "pw", "hunter22");
    let secrets = Secrets::from_config([("pw", source)]).expect("the name is fine");
    let secrets = secrets.masking(["server-token".to_owned(), "abc".to_owned()]);
    assert_eq!(secrets.mask().text("abc server-token hunter22"), "abc ••• •••");
    let more = secrets.masking(["database-password".to_owned()]);
    assert_eq!(more.mask().text("server-token database-password"), "••• •••");
    assert!(more.resolve("secret://server-token").is_err());
}

#[test]
fn a_file_without_a_name_is_masked_as_it_was_and_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = file(directory.path(), "pw", "hunter22");
    let secrets = Secrets::from_config([("pw", source)]).expect("the name is fine");
    let path = directory.path().join("database");
    let secrets = secrets.masking_files([path.clone()]).masking(["server-token".to_owned()]);
    assert_eq!(secrets.mask().text("old-password hunter22"), "old-password •••");
    file(directory.path(), "database", "old-password\n");
    assert_eq!(secrets.mask().text("old-password server-token"), "••• •••");
    file(directory.path(), "database", "new-password\n");
    assert_eq!(secrets.mask().text("old-password new-password hunter22"), "••• ••• •••");
    assert!(secrets.resolve(&format!("secret://file:{}", path.display())).is_err());
}

#[test]
fn a_mask_finds_values_as_they_are_and_as_they_are_written_elsewhere() {
    let mask = Mask::new(["pa\"ss word", "pa\"ss", "-----BEGIN KEY\nAAAABBBB\n}"]);
    assert_eq!(mask.text("say pa\"ss word and pa\"ss"), "say ••• and •••");
    assert_eq!(mask.text(r#"{"a":"pa\"ss word"}"#), r#"{"a":"•••"}"#);
    assert_eq!(mask.text("?q=pa%22ss%20word"), "?q=•••");
    assert_eq!(mask.text("1: AAAABBBB {}"), "1: ••• {}");
    assert!(matches!(mask.text("pa ss"), std::borrow::Cow::Borrowed("pa ss")));
}

#[test]
fn a_stream_masks_across_every_border() {
    let mask = Mask::new(["canary-7", "canary-77-long", "ééé-secret"]);
    let text = "a canary-7 b canary-77-lon c canary-77-long ccanary-7canary-7 ééé-secret canar";
    let whole = mask.text(text).into_owned();
    assert_eq!(whole, "a ••• b •••7-lon c ••• c•••••• ••• canar");
    for first in 0..=text.len() {
        for second in first..=text.len() {
            let mut stream = mask.stream();
            let bytes = text.as_bytes();
            let mut masked = stream.push(&bytes[..first]);
            masked.extend(stream.push(&bytes[first..second]));
            masked.extend(stream.push(&bytes[second..]));
            masked.extend(stream.finish());
            assert_eq!(String::from_utf8_lossy(&masked), whole, "borders at {first}, {second}");
        }
    }
}

#[test]
fn a_source_is_written_as_a_variable_or_a_file() {
    let read = |text: &str| serde_json::from_str::<Source>(text);
    assert_eq!(read(r#"{"env":"A"}"#).expect("a variable"), Source::env("A"));
    assert_eq!(read(r#"{"file":"/a"}"#).expect("a file"), Source::file("/a"));
    assert!(read(r#"{"value":"x"}"#).is_err());
    assert!(read(r#"{"env":"A","file":"/a"}"#).is_err());
    let named = read(r#"{"env":"A","http":["HTTPS://Api.Example:443/"]}"#).expect("an origin");
    let written = serde_json::to_string(&named).expect("it is written");
    assert_eq!(written, r#"{"env":"A","http":["https://api.example"]}"#);
    for wrong in ["api.example", "https://a.example/x", "https://u@a.example", "ftp://a.example"] {
        let error = Source::env("A").for_http(&[wrong.to_owned()]).expect_err("it is no origin");
        assert!(error.contains(wrong) && error.contains("use a scheme"), "{error}");
    }
}

#[test]
fn a_secret_goes_only_to_the_origins_that_it_names() {
    let directory = tempfile::tempdir().expect("a directory");
    let named = file(directory.path(), "named", "hunter22");
    let named = named.for_http(&["https://a.example".to_owned()]).expect("an origin");
    let secrets = Secrets::from_config([
        ("named", named),
        ("kept", file(directory.path(), "kept", "hunter23")),
    ])
    .expect("the names are fine");
    let sent = secrets.resolve_for("https://a.example", "=secret://named").expect("it is named");
    assert_eq!(sent.expose(), "=hunter22");
    for (origin, name) in [
        ("https://a.example", "kept"),
        ("http://a.example", "named"),
        ("https://a.example:8443", "named"),
        ("https://b.a.example", "named"),
    ] {
        let error =
            secrets.resolve_for(origin, &format!("secret://{name}")).expect_err("not named");
        let told = format!(
            "secret `{name}` must not be sent to `{origin}`; to allow it, add the origin to `http` in `[secrets.{name}]` of the worker's configuration"
        );
        assert_eq!(error.to_string(), told);
    }
}

#[test]
fn a_document_is_masked_wherever_a_value_stands() {
    let mask = Mask::new(["hunter22", "20260411", "{\"key\":\"a b\"}"]);
    let masked = |text: &str| {
        let document = serde_json::from_str(text).expect("it is JSON");
        mask.json(document).to_string()
    };
    assert_eq!(masked(r#"{"a":["x hunter22",{"hunter22":1}]}"#), r#"{"a":["x •••",{"•••":1}]}"#);
    assert_eq!(
        masked(r#"[20260411,-20260411,2026,true,null]"#),
        r#"["•••","-•••",2026,true,null]"#
    );
    assert_eq!(masked(r#"{"told":{ "key": "a b" }}"#), r#""•••""#, "the secret is a document");
    assert_eq!(masked(r#"{"key":"a"}"#), r#"{"key":"a"}"#);
    assert_eq!(Mask::default().json(7.into()), 7);
}

#[test]
fn a_value_is_known_in_every_form_that_json_and_urls_have() {
    let mask = Mask::new(["tür \"a\"/🔑"]);
    for form in [
        r#"tür "a"/🔑"#,
        r#"tür \"a\"/🔑"#,
        r#"t\u00fcr \"a\"/\ud83d\udd11"#,
        "t%C3%BCr%20%22a%22%2F%F0%9F%94%91",
        "t%c3%bcr%20%22a%22%2f%f0%9f%94%91",
        "t%C3%BCr+%22a%22%2F%F0%9F%94%91",
    ] {
        assert_eq!(mask.text(&format!("<{form}>")), "<•••>");
    }
}
