//! How to run the store in a SQL database.
