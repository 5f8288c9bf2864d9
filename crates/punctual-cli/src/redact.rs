//! Shows URLs without what may be secret in them.

/// The settings of the form `key=value key=value` that are shown.
const SHOWN_KEYS: [&str; 5] = ["host", "hostaddr", "port", "dbname", "user"];

/// The URL of a database or a server without its password and without parameters, which may contain
/// one. Of a URL that cannot be read, rather too little is shown than a part of a password.
pub(crate) fn redacted(url: &str) -> String {
    match url.split_once("://") {
        Some(("sqlite", _)) => url.to_owned(),
        Some((scheme, rest)) => format!("{scheme}://{}", place(rest)),
        None if url.contains('=') => settings(url),
        None => place(url),
    }
}

/// User, hosts, ports and path.
fn place(rest: &str) -> String {
    // A password can contain `/`, `?` and `@`, so it ends at the last `@`.
    let (user, place) = match rest.rsplit_once('@') {
        Some((credentials, place)) => {
            let user = credentials.split([':', '/', '?']).next().unwrap_or("");
            (format!("{user}@"), place)
        }
        None => (String::new(), rest),
    };
    let place = place.split('?').next().unwrap_or("");
    let (hosts, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let hosts: Vec<&str> = hosts.split(',').map(host_and_port).collect();
    format!("{user}{}{path}", hosts.join(","))
}

/// What follows a host is shown only if it is a port: `user:password` without a host looks the same.
fn host_and_port(text: &str) -> &str {
    match text.rsplit_once(':') {
        Some((host, port))
            if !text.starts_with('[') && !port.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            host.split(':').next().unwrap_or("")
        }
        _ => text,
    }
}

/// Settings as `key=value`, those that are known not to be secret.
fn settings(text: &str) -> String {
    // A quoted value can contain what looks like another setting.
    if text.contains(['\'', '\\']) {
        return "(connection settings)".to_owned();
    }
    let is_shown =
        |word: &&str| word.split_once('=').is_some_and(|(key, _)| SHOWN_KEYS.contains(&key));
    text.split_whitespace().filter(is_shown).collect::<Vec<_>>().join(" ")
}

/// Does the URL of a database contain a password?
pub(crate) fn has_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://").filter(|(scheme, _)| *scheme != "sqlite") else {
        return false;
    };
    let has_credentials =
        rest.rsplit_once('@').is_some_and(|(credentials, _)| credentials.contains(':'));
    let mut parameters = rest.split(['?', '&']).skip(1);
    has_credentials || parameters.any(|it| key(it).contains("password"))
}

/// The key of a parameter, without percent encoding.
fn key(parameter: &str) -> String {
    let key = parameter.split('=').next().unwrap_or("");
    percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_a_url_shows_its_password() {
        for (url, shown) in [
            ("sqlite://x.db", "sqlite://x.db"),
            ("postgres://h:5432/d", "postgres://h:5432/d"),
            ("postgres://[::1]:5432/d", "postgres://[::1]:5432/d"),
            ("postgres://u:hunter2@h/d", "postgres://u@h/d"),
            ("postgres://u:p@hunter2@h/d", "postgres://u@h/d"),
            ("postgres://u:p/hunter2@h/d", "postgres://u@h/d"),
            ("postgres://u:p?hunter2@h/d", "postgres://u@h/d"),
            ("postgres://h1:1,h2:2/d?password=hunter2", "postgres://h1:1,h2:2/d"),
            ("postgres://h/d?pass%77ord=hunter2", "postgres://h/d"),
            ("postgres://h/d?password=hunter2@x", "postgres://h@x"),
            ("postgres://u:hunter2/d", "postgres://u/d"),
            ("host=h user=u password=hunter2 port=5432", "host=h user=u port=5432"),
            ("host=h password = hunter2", "host=h"),
            ("password='x host=hunter2'", "(connection settings)"),
            ("u:hunter2@h", "u@h"),
            ("127.0.0.1:7420", "127.0.0.1:7420"),
            ("http://u:hunter2@server:7347", "http://u@server:7347"),
        ] {
            assert_eq!(redacted(url), shown, "{url}");
        }
    }

    #[test]
    fn a_password_is_found_wherever_it_stands() {
        for url in [
            "postgres://u:hunter2@h/d",
            "postgres://u:p?x@h/d",
            "postgres://h/d?password=hunter2",
            "postgres://h/d?sslmode=require&pass%77ord=hunter2",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in ["sqlite://a:b@c", "postgres://u@h:5432/d?sslmode=require", "postgres://h/d"] {
            assert!(!has_password(url), "{url}");
        }
    }
}
