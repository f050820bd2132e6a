"""An identity provider of our own: tokens for clients of a broker's OAUTHBEARER listener.

Tokens are not signed, which brokers accept where their validator is Kafka's unsecured one, so that
nobody needs a key that both know.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def unsigned(subject: str, seconds: float) -> str:
    """Return a token of a subject that is valid for so long, less than 0: has expired."""
    now = time.time()
    claims = {"sub": subject, "iat": now - 600, "exp": now + seconds, "scope": "kafka"}
    parts = [json.dumps(one).encode() for one in ({"alg": "none", "typ": "JWT"}, claims)]
    return ".".join([*(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts), ""])


@contextmanager
def token_endpoint(secret: str, seconds: float = 3600) -> Iterator[str]:
    """Serve tokens to whoever knows a client's secret, and give the address.

    Parameters
    ----------
    secret
        Of the client, whose id is the subject of its tokens.
    seconds
        How long tokens are valid.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            scheme, _, text = self.headers.get("Authorization", "").partition(" ")
            client, _, given = base64.b64decode(text).decode().partition(":")
            is_known = scheme == "Basic" and given == secret
            body = {"access_token": unsigned(client, seconds)} if is_known else {"error": "refused"}
            self.send_response(200 if is_known else 401)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            """Keep quiet: tests show what is asked."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
