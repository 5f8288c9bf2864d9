//! Canaries: values that must be nowhere but in the process that needs them.

use std::fs::File;

use serde_json::json;

use super::{Place, ended, enqueue};
use crate::process::{Serving, punctual, text};

/// One comes from a file, one from the environment.
const IN_FILE: &str = "canary-from-a-file-7391";
const IN_ENV: &str = "canary \"from\" the environment-8204";

#[test]
fn no_secret_is_stored_logged_or_told() {
    let place = Place::new("");
    let file = place.file("secret", 0o600, &format!("{IN_FILE}\n"));
    let settings = format!(
        r#"
[command]
allow_api_argv = true

[secrets]
file = {{ file = "{}" }}
env = {{ env = "CANARY" }}

[commands.named]
argv = ["sh", "-c", "echo $0 $TOLD; exit 4", "secret://file"]
env = {{ TOLD = "secret://env" }}

[commands.missing]
argv = ["/no/such/secret://file"]
"#,
        file.display()
    );
    std::fs::write(place.path().join("punctual.toml"), settings).unwrap();
    let log = place.path().join("stderr");
    let mut command = punctual(place.path(), &["serve"]);
    command.env("CANARY", IN_ENV).env("RUST_LOG", "trace").stderr(File::create(&log).unwrap());
    let server = Serving::of(command);

    // As an argument, a variable and input; in one piece, in two, with colours between, in an error,
    // in a result.
    let script = "echo \"$1\"; printf '%s' canary-from-; sleep 0.2; echo a-file-7391; \
        printf 'canary-\\033[31mfrom-a-file\\033[0m-7391\\n'; echo \"$VALUE\" >&2; cat; exit $CODE";
    let told = |code: &str| {
        json!({
            "argv": ["sh", "-c", script, "sh", "with secret://file in it"],
            "env": { "VALUE": "secret://env", "CODE": code }, "stdin": "secret://env",
        })
    };
    let payloads = [told("0"), told("5"), json!({ "name": "named" }), json!({ "name": "missing" })];
    let mut heard = String::new();
    for payload in payloads {
        let id = enqueue(&server, &payload, &[]);
        heard.push_str(&ended(&server, &id).to_string());
        for args in [&["job", "logs", &id, "--follow"][..], &["why", "job", &id]] {
            heard.push_str(&text(&server.run(args).stdout));
        }
    }
    heard.push_str(&server.ask(&["job", "list"]).to_string());
    // It has run: what was masked is there.
    assert!(heard.contains("with ••• in it") && heard.matches("•••").count() > 20, "{heard}");
    assert!(heard.contains("program `/no/such/•••` not found"), "{heard}");

    let in_json = IN_ENV.replace('"', "\\\"");
    let canaries = [IN_FILE, IN_ENV, &in_json];
    let hits =
        |bytes: &[u8]| canaries.iter().filter(|canary| find(bytes, canary.as_bytes())).count();
    assert_eq!(hits(heard.as_bytes()), 0, "{heard}");
    // Before the file is tidied up, and after.
    let files = ["punctual.db", "punctual.db-wal", "stderr"];
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap_or_default();
    for name in files {
        assert_eq!(hits(&read(name)), 0, "{name}");
    }
    let is_stored = files[..2].iter().any(|name| find(&read(name), "•••".as_bytes()));
    assert!(is_stored, "what is masked is stored");
    assert_eq!(server.stop(), Some(0));
    for name in files {
        assert_eq!(hits(&read(name)), 0, "{name}");
    }
}

fn find(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
