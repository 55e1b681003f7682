//! Response schemas.

use utoipa::ToSchema;

/// Schemas by type name.
pub(crate) type Schemas = Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>;

/// Adds the schema of a type.
pub(crate) type AddSchema = fn(&mut Schemas);

/// Adds the schema of a type, including nested types.
pub(crate) fn add<T: ToSchema>(all: &mut Schemas) {
    T::schemas(all);
    all.push((T::name().into_owned(), T::schema()));
}
