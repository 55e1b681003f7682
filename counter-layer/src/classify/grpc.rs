//! gRPC calls via HTTP/2 or gRPC-Web.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Response, StatusCode};

const STATUS: &str = "grpc-status";

/// Returns `true` for a call, i.e. a `POST` with `application/grpc`, `application/grpc+proto` or similar.
pub(crate) fn is_call(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::POST && is_grpc(headers)
}

/// Returns `true` if the response proves that the method exists: either messages follow, or it is a success.
///
/// For unimplemented methods the response is just a head with status 12. Other failures are not a proof,
/// because an interceptor can reject calls before the method is looked up.
pub(crate) fn is_served<B>(response: &Response<B>) -> bool {
    let status = response.headers().get(STATUS);
    response.status() == StatusCode::OK
        && is_grpc(response.headers())
        && status.is_none_or(|status| status.as_bytes() == b"0")
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).map_or(&[][..], |value| value.as_bytes());
    let rest = media_type.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b'-' | b';' | b' ')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_post_of_a_grpc_media_type() {
        for (method, media_type, call) in [
            (Method::POST, "application/grpc", true),
            (Method::POST, "application/grpc+proto", true),
            (Method::POST, "application/grpc;charset=utf-8", true),
            (Method::POST, "application/grpc-web-text+proto", true),
            (Method::GET, "application/grpc", false),
            (Method::POST, "application/grpcx", false),
            (Method::POST, "application/json", false),
            (Method::POST, "", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, media_type.parse().expect("a value"))]);
            assert_eq!(is_call(&method, &headers), call, "{method} {media_type}");
        }
        assert!(!is_call(&Method::POST, &HeaderMap::new()));
    }

    #[test]
    fn only_messages_or_success_prove_that_a_method_exists() {
        for (code, media_type, status, served) in [
            (200, "application/grpc", None, true),
            (200, "application/grpc+proto", Some("0"), true),
            (200, "application/grpc", Some("12"), false),
            (200, "application/grpc", Some("16"), false),
            (200, "text/html", None, false),
            (404, "application/grpc", None, false),
        ] {
            let mut response = Response::builder().status(code).header(CONTENT_TYPE, media_type);
            if let Some(status) = status {
                response = response.header(STATUS, status);
            }
            let response = response.body(()).expect("a response");
            assert_eq!(is_served(&response), served, "{code} {media_type} {status:?}");
        }
    }
}
