"""One adapter for each client library; all offer `base.Client`."""
