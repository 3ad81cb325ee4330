//! A real JobManager, over HTTP.

mod options;

use std::error::Error;
use std::io;
use std::time::Duration;

use futures::future::BoxFuture;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Certificate, Client, ClientBuilder, Url};
use tokio::time::Instant;

pub use options::{Auth, HttpOptions, HttpOptionsError};

use crate::{CallError, FlinkApi, Method, Request, Response};

/// Redirects that are followed, within the host.
const MOST_REDIRECTS: u32 = 3;

/// Calls a JobManager over HTTP; connections are kept and shared between calls.
pub struct HttpApi {
    client: Client,
    base: Url,
    max_response_bytes: usize,
}

impl HttpApi {
    /// Prepares to call; nothing is sent yet.
    ///
    /// # Errors
    /// Refuses addresses, files and limits that cannot work; see [`HttpOptionsError`].
    pub fn new(options: &HttpOptions) -> Result<Self, HttpOptionsError> {
        let (base, auth) = options.parts()?;
        // Whoever comes first chooses for the process; both are the same here, so that a second choice may fail.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder()
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers(&auth)?)
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(Duration::from_millis(options.connect_timeout_ms))
            .read_timeout(Duration::from_millis(options.read_timeout_ms))
            .timeout(Duration::from_millis(options.call_timeout_ms))
            .pool_idle_timeout(Duration::from_secs(60))
            .tcp_keepalive(Duration::from_secs(30));
        let builder = trusting(builder, options, &base)?;
        let client = builder.build().map_err(|why| HttpOptionsError::Client { why: chain(&why) })?;
        Ok(Self { client, base, max_response_bytes: options.max_response_bytes })
    }

    /// The address, without user and password.
    #[must_use]
    pub fn address(&self) -> &str {
        self.base.as_str()
    }

    async fn follow(&self, request: Request) -> Result<Response, CallError> {
        let path = format!("{}{}", self.base.as_str().trim_end_matches('/'), request.path);
        let mut url = Url::parse(&path).map_err(|why| CallError::BadRequest(why.to_string()))?;
        for _ in 0..=MOST_REDIRECTS {
            let answer = self.send(&request, url.clone()).await?;
            let status = answer.status().as_u16();
            // Only these keep a request as it is; the others would turn a change into a question.
            let follow = matches!(status, 307 | 308) || (request.method == Method::Get && matches!(status, 301..=303));
            if !follow && !(300..400).contains(&status) {
                return self.read(answer).await;
            }
            let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
            let next = url.join(to).map_err(|_| CallError::Redirected(to.into()))?;
            if !follow || next.origin() != self.base.origin() {
                return Err(CallError::Redirected(next.into()));
            }
            url = next;
        }
        Err(CallError::Redirected(url.into()))
    }

    async fn send(&self, request: &Request, url: Url) -> Result<reqwest::Response, CallError> {
        let mut sent = self.client.request(method(request.method), url);
        if let Some(body) = &request.body {
            sent = sent.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        let began = Instant::now();
        sent.send().await.map_err(|why| failed(&why, began, CallError::Unreachable))
    }

    /// Reads a body as far as it may go.
    async fn read(&self, mut answer: reqwest::Response) -> Result<Response, CallError> {
        let status = answer.status().as_u16();
        let (mut body, began) = (Vec::new(), Instant::now());
        while let Some(chunk) = answer.chunk().await.map_err(|why| failed(&why, began, CallError::Truncated))? {
            if body.len() + chunk.len() > self.max_response_bytes {
                return Err(CallError::TooLarge(self.max_response_bytes));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Response { status, body })
    }
}

impl FlinkApi for HttpApi {
    fn call<'a>(&'a self, request: Request) -> BoxFuture<'a, Result<Response, CallError>> {
        Box::pin(self.follow(request))
    }
}

fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Put => reqwest::Method::PUT,
        Method::Patch => reqwest::Method::PATCH,
        Method::Delete => reqwest::Method::DELETE,
    }
}

/// Headers of every call.
fn headers(auth: &Auth) -> Result<HeaderMap, HttpOptionsError> {
    let mut headers = HeaderMap::new();
    let value = match auth {
        Auth::None => return Ok(headers),
        Auth::Basic { user, password } => format!("Basic {}", base64(format!("{user}:{password}").as_bytes())),
        Auth::Bearer { token } => format!("Bearer {token}"),
    };
    let mut value = HeaderValue::from_str(&value).map_err(|_| HttpOptionsError::Secret)?;
    value.set_sensitive(true);
    headers.insert(AUTHORIZATION, value);
    Ok(headers)
}

/// Base64 of RFC 4648 with padding, which basic authentication wants.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| usize::from(chunk.get(at).copied().unwrap_or(0));
        let group = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for digit in 0..4 {
            let padding = digit > chunk.len();
            text.push(if padding { '=' } else { char::from(DIGITS[(group >> (18 - 6 * digit)) & 63]) });
        }
    }
    text
}

/// Chooses whom to trust. The system's authorities are loaded only where they are needed.
fn trusting(builder: ClientBuilder, options: &HttpOptions, base: &Url) -> Result<ClientBuilder, HttpOptionsError> {
    let Some(path) = &options.ca_file else {
        return Ok(if base.scheme() == "https" { builder } else { builder.tls_certs_only([]) });
    };
    let refused = |why: String| HttpOptionsError::Authorities { path: path.clone(), why };
    let pem = std::fs::read(path).map_err(|why| refused(why.to_string()))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|why| refused(chain(&why)))?;
    if certificates.is_empty() {
        return Err(refused("it holds no certificate".into()));
    }
    Ok(builder.tls_certs_only(certificates))
}

/// What a failed call means; `otherwise` where nothing special happened.
fn failed(why: &reqwest::Error, began: Instant, otherwise: fn(String) -> CallError) -> CallError {
    if why.is_timeout() {
        return CallError::Timeout(i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX));
    }
    if is_about_trust(why) {
        return CallError::Untrusted(chain(why));
    }
    if why.is_builder() {
        return CallError::BadRequest(chain(why));
    }
    otherwise(chain(why))
}

/// Whether the failure is one of TLS.
fn is_about_trust(why: &(dyn Error + 'static)) -> bool {
    let mut next = Some(why);
    while let Some(error) = next {
        if error.is::<rustls::Error>() {
            return true;
        }
        // An I/O error passes over what it wraps when it is asked for its source.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = wrapped.map(|wrapped| wrapped as &(dyn Error + 'static)).or_else(|| error.source());
    }
    false
}

/// What an error says, and what it was caused by; without the address, which may hold a secret in its query.
fn chain(why: &(dyn Error + 'static)) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut next = Some(why);
    while let Some(error) = next {
        let text = if error.is::<reqwest::Error>() { String::new() } else { error.to_string() };
        if !text.is_empty() && !said.last().is_some_and(|last| last.contains(&text)) {
            said.push(text);
        }
        next = error.source();
    }
    if said.is_empty() { "no further detail".into() } else { said.join(": ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_follows_the_standard() {
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("Aladdin:open sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ];
        for (plain, encoded) in pairs {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn bad_authorities_and_secrets_are_refused_before_anything_is_sent() {
        let missing = HttpOptions { ca_file: Some("no/such.pem".into()), ..HttpOptions::default() };
        assert!(matches!(HttpApi::new(&missing), Err(HttpOptionsError::Authorities { .. })));
        let empty = HttpOptions { ca_file: Some("Cargo.toml".into()), ..HttpOptions::default() };
        assert!(matches!(HttpApi::new(&empty), Err(HttpOptionsError::Authorities { .. })));
        let auth = Auth::Bearer { token: "two\nlines".into() };
        assert!(matches!(HttpApi::new(&HttpOptions { auth, ..HttpOptions::default() }), Err(HttpOptionsError::Secret)));
    }
}
