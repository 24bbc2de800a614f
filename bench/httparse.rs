// httparse as a peer of bench/core.c: one request, fields recorded; the number of fields, or 0 when it is refused.
extern crate httparse;

#[no_mangle]
pub unsafe extern "C" fn httparse_request(p: *const u8, n: usize) -> usize {
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(std::slice::from_raw_parts(p, n)) {
        Ok(httparse::Status::Complete(_)) => request.headers.len(),
        _ => 0,
    }
}
