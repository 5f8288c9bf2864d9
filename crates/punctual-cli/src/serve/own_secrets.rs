//! The server's own secrets: its token and the password of its database. Jobs may print them, on
//! purpose or by printing an environment; they are masked wherever the secrets of jobs are.

use punctual_secrets::Secrets;

use super::http;
use super::settings::Settings;
use crate::database::DatabaseAccess;
use crate::exit::Failure;
use crate::target::Target;

/// These secrets with a mask that also covers the server's own, for a server that was given this token.
/// A token that a file replaces is one as well. The password file is read again for each mask, as for
/// each connection.
pub(super) fn masking_own(
    secrets: &Secrets,
    settings: &Settings,
    given: Option<&str>,
) -> Result<Secrets, Failure> {
    let own = own_values(settings, given)?;
    Ok(secrets.masking(own).masking_files(settings.database_access()?.password_file))
}

fn own_values(settings: &Settings, given: Option<&str>) -> Result<Vec<String>, Failure> {
    let token = settings.token_text(given)?;
    let tokens = token.into_iter().chain(given.map(str::to_owned));
    let mut all: Vec<String> = tokens.map(|token| token.trim().to_owned()).collect();
    all.extend(passwords(&settings.database.url)?);
    Ok(all)
}

/// The same for a client, which gets both by its options or its environment.
pub(crate) fn masking_those_of_client(
    secrets: &Secrets,
    target: &Target,
) -> Result<Secrets, Failure> {
    let mut all: Vec<String> = target.token().map(str::to_owned).into_iter().collect();
    if let Some(url) = target.database() {
        all.extend(passwords(url)?);
    }
    // The variable may be set although the command asks a server.
    let file = DatabaseAccess::from_environment("")?.password_file;
    Ok(secrets.masking(all).masking_files(file))
}

/// The password in the URL of a database, as it is and as it is written there.
fn passwords(url: &str) -> Result<Vec<String>, Failure> {
    let Some(config) = http::postgres(url)? else { return Ok(Vec::new()) };
    let Some(password) = config.get_password() else { return Ok(Vec::new()) };
    let decoded = String::from_utf8_lossy(password).into_owned();
    // User and password end at the first `@`; a URL with another one before its parameters is refused.
    let user = url.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
    let written = user.and_then(|(user, _)| user.split_once(':')).map(|(_, password)| password);
    let parameters = url.split(['?', '&']).skip(1);
    let named = parameters.filter_map(|setting| setting.strip_prefix("password="));
    let written = written.into_iter().chain(named).map(str::to_owned);
    Ok(std::iter::once(decoded).chain(written).collect())
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
        let url = "postgres://app:p?w%40rd@db/app?sslmode=verify-full";
        assert_eq!(found(url), ["p?w@rd", "p?w%40rd"]);
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
        let own = own_values(&settings, Some("token-of-the-environment"));
        assert_eq!(
            own.map_err(|_| ()).expect("the file can be read"),
            ["token-of-the-file", "token-of-the-environment", "hunter22", "hunter22"]
        );
    }
}
