//! The schemas of answers, which only the feature `openapi` has.

#[cfg(feature = "openapi")]
use utoipa::ToSchema;

/// A type with a schema, where there are schemas.
#[cfg(feature = "openapi")]
pub(crate) trait Schema: ToSchema {}
#[cfg(feature = "openapi")]
impl<T: ToSchema> Schema for T {}

/// A type with a schema, where there are schemas.
#[cfg(not(feature = "openapi"))]
pub(crate) trait Schema {}
#[cfg(not(feature = "openapi"))]
impl<T> Schema for T {}

/// Schemas by the names of their types.
#[cfg(feature = "openapi")]
pub(crate) type Schemas = Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>;

/// A function that adds the schema of a type.
#[cfg(feature = "openapi")]
pub(crate) type AddSchema = fn(&mut Schemas);

/// Adds the schema of a type, and those of the types that it is made of.
#[cfg(feature = "openapi")]
pub(crate) fn add<T: ToSchema>(all: &mut Schemas) {
    T::schemas(all);
    all.push((T::name().into_owned(), T::schema()));
}
