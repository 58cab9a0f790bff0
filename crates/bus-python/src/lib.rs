//! Python module of courser-router: any object as a message, any callable as a handler.
#![forbid(unsafe_code)]

use ::courser_router::{
    Handler, Key, Overflow, Ring, RingOptions, Router, Subscription, SubscriptionId,
    SubscriptionRef,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Mutex;
use std::time::Duration;

/// A message: a reference to a Python object.
struct Message(Py<PyAny>);

impl Clone for Message {
    fn clone(&self) -> Self {
        Python::attach(|py| Message(self.0.clone_ref(py)))
    }
}

/// A handler written in Python.
struct Callable(Py<PyAny>);

impl Handler<Message> for Callable {
    fn handle(&self, subscription: SubscriptionRef<'_, Message>, route: &Key, message: &Message) {
        Python::attach(|py| {
            let arguments = (
                subscription.id().get(),
                route.as_str(),
                message.0.clone_ref(py),
            );
            if let Err(error) = self.0.call1(py, arguments) {
                // As for errors in destructors: reported by `sys.unraisablehook`, and the others are still called.
                error.write_unraisable(py, Some(self.0.bind(py)));
            }
        });
    }
}

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// A key: where messages are posted to. Make it once with `Router.key`, use it often.
#[pyclass(name = "Key", module = "courser_router", frozen)]
struct PyKey(Key);

#[pymethods]
impl PyKey {
    fn __str__(&self) -> &str {
        self.0.as_str()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// A subscription with a handler. Ends when it is collected, at `unsubscribe`, or at the end of a `with` block.
#[pyclass(name = "Subscription", module = "courser_router", frozen)]
struct PySubscription {
    id: u64,
    held: Mutex<Option<Subscription>>,
}

impl PySubscription {
    fn take(&self) -> Option<Subscription> {
        self.held.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

#[pymethods]
impl PySubscription {
    /// The number that its handler is called with.
    #[getter]
    fn id(&self) -> u64 {
        self.id
    }

    /// Whether it has not ended.
    #[getter]
    fn live(&self) -> bool {
        let held = self.held.lock().unwrap_or_else(|e| e.into_inner());
        held.as_ref().is_some_and(Subscription::is_live)
    }

    /// Ends it. Once this returns no new call starts; running ones may end later. `False` if it had ended.
    fn unsubscribe(&self, py: Python<'_>) -> bool {
        let live = self.live();
        let held = self.take();
        py.detach(|| drop(held));
        live
    }

    /// Ends it and waits until no call runs any more. `RuntimeError` from within a handler of the same router.
    fn unsubscribe_wait(&self, py: Python<'_>) -> PyResult<()> {
        let held = self.take();
        let ended = py.detach(|| held.map_or(Ok(()), Subscription::unsubscribe_wait));
        ended.map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) {
        self.unsubscribe(py);
    }
}

/// A bounded ring of messages. Ends when it is collected, or at `close`.
#[pyclass(name = "Ring", module = "courser_router", frozen)]
struct PyRing(Mutex<Option<std::sync::Arc<Ring<Message>>>>);

impl PyRing {
    fn ring(&self) -> PyResult<std::sync::Arc<Ring<Message>>> {
        let held = self.0.lock().unwrap_or_else(|e| e.into_inner());
        held.clone()
            .ok_or_else(|| PyValueError::new_err("the ring is closed"))
    }
}

type Taken = Option<(String, Py<PyAny>)>;

#[pymethods]
impl PyRing {
    /// The (route, message) that waits longest, or `None` if none comes within `timeout` seconds.
    #[pyo3(signature = (timeout = 0.0))]
    fn recv(&self, py: Python<'_>, timeout: f64) -> PyResult<Taken> {
        let timeout = Duration::try_from_secs_f64(timeout).map_err(value_error)?;
        let ring = self.ring()?;
        let taken = py.detach(|| ring.recv_timeout(timeout));
        Ok(taken.map(|(key, message)| (key.as_str().to_owned(), message.0)))
    }

    /// Messages that were dropped because the ring was full.
    #[getter]
    fn dropped(&self) -> PyResult<u64> {
        Ok(self.ring()?.dropped())
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.ring()?.len())
    }

    /// Ends the subscription. A `recv` that is under way on another thread ends first.
    fn close(&self, py: Python<'_>) {
        let held = self.0.lock().unwrap_or_else(|e| e.into_inner()).take();
        py.detach(|| drop(held));
    }
}

/// An in-process message router.
#[pyclass(name = "Router", module = "courser_router", frozen)]
struct PyRouter(Router<Message>);

#[pymethods]
impl PyRouter {
    #[new]
    fn new() -> Self {
        PyRouter(Router::new())
    }

    /// The key of a text. `ValueError` if it has a wildcard or is empty.
    fn key(&self, text: &str) -> PyResult<PyKey> {
        self.0.key(text).map(PyKey).map_err(value_error)
    }

    /// Calls `handler(subscription_id, route, message)` for each message whose key `filter` matches: `+` for any
    /// one token, `#` at the end for everything below. Keep the result: the subscription ends with it.
    fn subscribe(
        &self,
        py: Python<'_>,
        filter: &str,
        handler: Py<PyAny>,
    ) -> PyResult<PySubscription> {
        if !handler.bind(py).is_callable() {
            return Err(PyValueError::new_err("the handler must be callable"));
        }
        let made = py
            .detach(|| self.0.subscribe_handler(filter, Callable(handler)))
            .map_err(value_error)?;
        Ok(PySubscription {
            id: made.id().get(),
            held: Mutex::new(Some(made)),
        })
    }

    /// Puts matching messages into a ring for `capacity` of them. `overflow` is "block", "drop_oldest",
    /// "drop_newest" or "coalesce".
    #[pyo3(signature = (filter, capacity, overflow = "drop_oldest"))]
    fn subscribe_ring(
        &self,
        py: Python<'_>,
        filter: &str,
        capacity: usize,
        overflow: &str,
    ) -> PyResult<PyRing> {
        let overflow = match overflow {
            "block" => Overflow::Block,
            "drop_oldest" => Overflow::DropOldest,
            "drop_newest" => Overflow::DropNewest,
            "coalesce" => Overflow::Coalesce,
            other => {
                return Err(PyValueError::new_err(format!(
                    "unknown overflow policy {other:?}"
                )));
            }
        };
        if capacity == 0 || capacity > 1 << 30 {
            return Err(PyValueError::new_err("capacity must be from 1 to 2**30"));
        }
        let options = RingOptions::new(capacity, overflow);
        let made = py
            .detach(|| self.0.subscribe_ring(filter, options))
            .map_err(value_error)?;
        Ok(PyRing(Mutex::new(Some(std::sync::Arc::new(made)))))
    }

    /// Ends a subscription by its number, for use within its handler. `False` if it has ended before.
    fn unsubscribe(&self, py: Python<'_>, id: u64) -> bool {
        py.detach(|| SubscriptionId::new(id).is_some_and(|id| self.0.unsubscribe(id)))
    }

    /// Calls every matching handler with `message`. The interpreter is free for other threads in between.
    fn post(&self, py: Python<'_>, key: &PyKey, message: Py<PyAny>) {
        py.detach(|| self.0.post(&key.0, &Message(message)));
    }

    /// Posts, handlers called, and live subscriptions.
    fn stats(&self, py: Python<'_>) -> (u64, u64, usize) {
        let stats = py.detach(|| self.0.stats());
        (stats.posts, stats.hits, stats.subscriptions)
    }
}

#[pymodule]
fn courser_router(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyRouter>()?;
    module.add_class::<PyKey>()?;
    module.add_class::<PySubscription>()?;
    module.add_class::<PyRing>()
}
