"""Container logs: the files, and the HTTPS server that `kubectl logs` reads them from."""
