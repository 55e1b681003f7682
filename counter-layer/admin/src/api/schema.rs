//! The schemas of responses.

use utoipa::ToSchema;

/// Schemas by the names of their types.
pub(crate) type Schemas = Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>;

/// A function that adds the schema of a type.
pub(crate) type AddSchema = fn(&mut Schemas);

/// Adds the schema of a type, and those of the types that it is made of.
pub(crate) fn add<T: ToSchema>(all: &mut Schemas) {
    T::schemas(all);
    all.push((T::name().into_owned(), T::schema()));
}
