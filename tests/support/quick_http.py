"""An HTTP server in threads that makes nobody wait."""

from http.server import ThreadingHTTPServer


class QuickHTTPServer(ThreadingHTTPServer):
    request_queue_size = 128
    """By default five: whoever else connects at the same moment waits a second."""

    def serve_forever(self, poll_interval: float = 0.02) -> None:
        """By default half a second, for which `shutdown` waits."""
        super().serve_forever(poll_interval)
