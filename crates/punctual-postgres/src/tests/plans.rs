//! How PostgreSQL carries out the statements: by which index.
