//! The server's own secrets: its token and the password of its database. Jobs may print them, on
//! purpose or by printing an environment; they are masked wherever the secrets of jobs are.

use super::http;
use super::settings::Settings;
use crate::exit::Failure;
use crate::target::Target;

/// All of them, for a server that was given this token. A token that a file replaces is one as well.
pub(super) fn own_secrets(
    settings: &Settings,
    given: Option<&str>,
) -> Result<Vec<String>, Failure> {
    let token = settings.token_text(given)?;
    let tokens = token.into_iter().chain(given.map(str::to_owned));
    let mut all: Vec<String> = tokens.map(|token| token.trim().to_owned()).collect();
    all.extend(passwords(&settings.database.url)?);
    all.extend(settings.database_access()?.file_password());
    Ok(all)
}

/// The same for a client, which gets both by its options or its environment.
pub(crate) fn of_client(target: &Target) -> Result<Vec<String>, Failure> {
    let mut all: Vec<String> = target.token().map(str::to_owned).into_iter().collect();
    if let Some(url) = target.database() {
        all.extend(passwords(url)?);
    }
    Ok(all)
}

/// The password in the URL of a database, as it is and as it is written there.
fn passwords(url: &str) -> Result<Vec<String>, Failure> {
    let Some(config) = http::postgres(url)? else { return Ok(Vec::new()) };
    let decoded = config.get_password().map(|it| String::from_utf8_lossy(it).into_owned());
    let (place, settings) = url.split_once('?').unwrap_or((url, ""));
    let user = place.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    let written = user.and_then(|(user, _)| user.split_once(':')).map(|(_, password)| password);
    let named = settings.split('&').filter_map(|setting| setting.strip_prefix("password="));
    Ok(decoded.into_iter().chain(written.into_iter().chain(named).map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn passwords_are_found_wherever_a_url_has_them() {
        let found = |url: &str| passwords(url).map_err(|_| ()).expect("a url");
        assert_eq!(found("sqlite://a:b@c.db"), Vec::<String>::new());
        assert_eq!(found("postgres://app@db/app"), Vec::<String>::new());
        assert_eq!(found("postgres://app:p%40ss!@db/app"), ["p@ss!", "p%40ss!"]);
        let url = "postgres://app@db/app?sslmode=verify-full&password=hunter%202";
        assert_eq!(found(url), ["hunter 2", "hunter%202"]);
    }

    #[test]
    fn a_token_is_masked_although_a_file_replaces_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, "token-of-the-file\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut settings = Settings::default();
        settings.server.token_file = Some(file);
        settings.database.url = "postgres://app:hunter22@db/app".to_owned();
        let own = own_secrets(&settings, Some("token-of-the-environment"));
        assert_eq!(
            own.map_err(|_| ()).expect("the file can be read"),
            ["token-of-the-file", "token-of-the-environment", "hunter22", "hunter22"]
        );
    }
}
