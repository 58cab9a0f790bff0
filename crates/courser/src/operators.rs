//! What `courser server` serves operators: where, and what it says of it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use courser_admin::{
    ADMIN_SOCKET, Admin, AdminConfig, AdminError, BindError, CurrentToken, Reloader,
};
use courser_broker::Control;
use courser_settings::{Keep, Settings};
use serde_json::json;

use crate::server::Said;
use crate::version::COMMIT;

/// Served, or why not.
#[derive(Debug)]
pub(crate) struct Operators {
    admin: Admin,
    /// The usual addresses, which another process has.
    taken: Option<BindError>,
}

/// Begins to serve operators. The usual addresses may be taken, by a second broker on this machine: then there is only the socket.
/// Addresses that were asked for must be free.
///
/// # Errors
/// What [`Admin::start`] says.
pub(crate) fn start(
    settings: &Settings,
    control: &Control,
    reloader: Reloader,
) -> Result<Operators, AdminError> {
    let folder = match settings.data.store {
        Keep::Disk => Some(&settings.data.path),
        Keep::Memory => None,
    };
    let token_file = if settings.http.token_file.is_empty() {
        folder.map(|folder| folder.join("admin.token"))
    } else {
        Some(PathBuf::from(&settings.http.token_file))
    };
    let mut config = AdminConfig {
        listen: settings.http.listen.clone(),
        socket: folder.map(|folder| folder.join(ADMIN_SOCKET)),
        token_file,
        reloader: Some(reloader),
        commit: COMMIT,
    };
    let usual = Settings::default().http.listen == config.listen;
    match Admin::start(&config, control.clone()) {
        Err(AdminError::Bind(taken @ BindError::InUse { .. })) if usual => {
            config.listen.clear();
            Ok(Operators {
                admin: Admin::start(&config, control.clone())?,
                taken: Some(taken),
            })
        }
        started => Ok(Operators {
            admin: started?,
            taken: None,
        }),
    }
}

impl Operators {
    /// Where it is served over HTTP.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        self.admin.addresses()
    }

    /// The token that counts.
    pub(crate) fn token(&self) -> Option<Arc<CurrentToken>> {
        self.admin.token()
    }

    /// Lines of the greeting.
    pub(crate) fn greeting(&self) -> Vec<Said> {
        let on = |address: &SocketAddr| {
            let text = format!("API, metrics and health on http://{address}");
            Said::new("operators", text).with(json!({"address": address.to_string()}))
        };
        let mut lines: Vec<Said> = self.addresses().iter().map(on).collect();
        lines.extend(self.taken.as_ref().map(|taken| {
            let text = format!("no API, metrics or health over HTTP: {taken}");
            Said::new("no_operators", text).with(json!({"error": taken.to_string()}))
        }));
        lines
    }
}
