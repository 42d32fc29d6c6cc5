"""Gets a page, as `curl -fsS` does. usage: fetch [-m SECONDS] [--ca FILE] [--name HOST] URL"""

import _socket  # `socket` would take as long to import as the rest
import sys


def connected(host, port, seconds, secure, ca, name):
    *_, address = _socket.getaddrinfo(host, port, _socket.AF_INET, _socket.SOCK_STREAM)[0]
    if secure:
        import socket
        import ssl

        plain = socket.create_connection(address, seconds)
        context = ssl.create_default_context(cafile=ca or None)
        return context.wrap_socket(plain, server_hostname=name or host)
    server = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    server.settimeout(seconds)
    server.connect(address)
    return server


def main(words):
    seconds, ca, name = 3.0, "", ""
    while words and words[0].startswith("-"):
        flag, value, *words = words
        if flag == "-m":
            seconds = float(value)
        elif flag == "--ca":
            ca = value
        else:
            name = value
    (url,) = words
    scheme, _, rest = url.partition("://")
    where, _, path = rest.partition("/")
    host, _, port = where.partition(":")
    server = connected(host, int(port or 80), seconds, scheme == "https", ca, name)
    server.sendall(f"GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
    data = b""
    while part := server.recv(65536):
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    words = head.split()
    status = int(words[1]) if len(words) > 1 else 0
    sys.stdout.write(body.decode("utf-8", "replace"))
    if status >= 400 or not status:
        sys.stderr.write(f"fetch: {url} answered {status or 'nothing'}\n")
        return 22
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OSError as error:
        sys.stderr.write(f"fetch: {error}\n")
        sys.exit(7)
