//! Servers that do not know `dry_run` of a route do not look at it, and do what they were only to tell. So they are asked before for what routes they
//! have, which changes nothing.

use hyper::Method;
use serde_json::Value;

use super::{Client, ClientError};

const DOCUMENT: &str = "/api/v1/openapi.json";
const PARAMETER: &str = "dry_run";

/// Whether a question is to change nothing although its method would.
pub(super) fn is_asked(method: &Method, path: &str) -> bool {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let mut parameters = query.split('&');
    *method != Method::GET && parameters.any(|it| it == "dry_run=true")
}

/// Whether a server with these routes, in the form of OpenAPI, knows `dry_run` of one.
fn is_known(document: &Value, method: &Method, path: &str) -> bool {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let Some(routes) = document["paths"].as_object() else {
        return false;
    };
    let mut fitting = routes.iter().filter(|(route, _)| fits(route, path));
    fitting.any(|(_, operations)| {
        let operation = &operations[method.as_str().to_ascii_lowercase()];
        let mut parameters = operation["parameters"].as_array().into_iter().flatten();
        parameters.any(|it| it["name"] == PARAMETER)
    })
}

/// Whether a path is one of a route, in which `{NAME}` stands for one part.
fn fits(route: &str, path: &str) -> bool {
    let (mut route, mut path) = (route.split('/'), path.split('/'));
    loop {
        match (route.next(), path.next()) {
            (None, None) => return true,
            (Some(wanted), Some(part)) if wanted == part || wanted.starts_with('{') => {}
            (Some(_), Some(_)) | (Some(_), None) | (None, Some(_)) => return false,
        }
    }
}

impl Client {
    /// Whether the server only looks where it is asked to.
    pub(super) async fn need_dry_run(
        &self,
        method: &Method,
        path: &str,
    ) -> Result<(), ClientError> {
        let document = self.routes.get_or_try_init(async || {
            let bytes = self.ask_in_time(Method::GET, DOCUMENT, None).await?;
            serde_json::from_slice(&bytes).map_err(|error| self.strange(&error.to_string()))
        });
        match is_known(document.await?, method, path) {
            true => Ok(()),
            false => Err(ClientError::NoDryRun {
                server: self.server.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::client::{Server, Verb};

    /// A server that knows `dry_run` of one route, and what it is asked.
    fn older() -> (Client, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let document = r#"{"paths":{"/api/v1/access":{"put":{"parameters":[{"name":"dry_run"}]}},"/api/v1/users/{name}":{"delete":{},"patch":{}}}}"#;
        let (sender, asked) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                sender.send(lines.next().unwrap().unwrap()).unwrap();
                while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n",
                    document.len()
                );
                stream
                    .write_all(format!("{head}{document}").as_bytes())
                    .unwrap();
            }
        });
        let server = Server::parse(&address).unwrap();
        (Client::new(server, None, Duration::from_secs(20)), asked)
    }

    fn run<T>(asked: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(asked)
    }

    #[test]
    fn a_dry_run_is_not_sent_to_a_server_that_would_do_it() {
        let (client, asked) = older();
        let tried = [
            run(client.delete("/api/v1/users/anna?dry_run=true")),
            run(client.delete_with("/api/v1/users/anna", &[("a", "b"), ("dry_run", "true")])),
            run(client.send(Verb::Patch, "/api/v1/roles/r?dry_run=true", &Value::Null)),
        ];
        for refused in tried {
            assert!(
                matches!(refused, Err(ClientError::NoDryRun { .. })),
                "{refused:?}"
            );
        }
        assert_eq!(
            asked.try_iter().collect::<Vec<_>>(),
            ["GET /api/v1/openapi.json HTTP/1.1"]
        );
    }

    #[test]
    fn a_server_is_asked_once_for_what_it_knows() {
        let (client, asked) = older();
        let path = "/api/v1/access?dry_run=true";
        for _ in 0..2 {
            run(client.send(Verb::Put, path, &Value::Null)).expect("it knows it");
        }
        // What is to be done needs no look.
        run(client.delete("/api/v1/users/anna?dry_run=false")).expect("it is done");
        let put = format!("PUT {path} HTTP/1.1");
        let asked: Vec<String> = asked.try_iter().collect();
        assert_eq!(
            asked,
            [
                "GET /api/v1/openapi.json HTTP/1.1",
                put.as_str(),
                put.as_str(),
                "DELETE /api/v1/users/anna?dry_run=false HTTP/1.1"
            ]
        );
    }

    #[test]
    fn a_path_is_of_a_route_part_by_part() {
        assert!(fits("/a/{b}/c", "/a/x%2Fy/c"));
        for other in ["/a/x", "/a/x/d", "/a/x/c/e", "/b/x/c"] {
            assert!(!fits("/a/{b}/c", other), "{other}");
        }
    }
}
