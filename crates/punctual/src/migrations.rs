//! The statements that make the tables, for those who run them by themselves.

/// For a new SQLite file.
#[cfg(feature = "sqlite")]
pub fn sqlite() -> String {
    punctual_sqlite::migrations_sql()
}

/// For a new schema of a PostgreSQL database; an error if it cannot have that name.
#[cfg(feature = "postgres")]
pub fn postgres(schema: &str) -> crate::Result<String> {
    Ok(punctual_postgres::migrations_sql(schema)?)
}
