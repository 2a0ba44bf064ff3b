"""A link that can be cut in every way a network cuts one, between a client and a server on loopback."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress

PASS, HOLE, HALF, SLOW, LATE = "pass", "black hole", "half open", "1 kB/s", "late"
SLOW_BYTES_S = 1000
CHUNK = 65536


class TcpProxy:
    """Forwards to `target` from a port of its own; `mode` applies to connections that are open and to new ones.

    Attributes:
        mode: PASS; HOLE takes and swallows; HALF lets out and nothing back; SLOW in both directions; LATE keeps what
            clients send until the mode is another.
        cut_after: Bytes towards the client after which the connection is reset, once; None never.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self.mode = PASS
        self.cut_after: int | None = None
        self._open: set[socket.socket] = set()
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def reset(self) -> None:
        """RST on every open connection."""
        for end in list(self._open):
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.close()
        self._open.clear()

    def close(self) -> None:
        """No connection any more."""
        self._over.set()
        self._thread.join(2.0)
        self._listener.close()
        self.reset()

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            if self.mode == HOLE:
                self._open.add(client)  # taken, and never answered
                continue
            try:
                server = socket.create_connection(self._target, 2.0)
            except OSError:
                client.close()
                continue
            self._open |= {client, server}
            for source, sink, back in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pump, args=(source, sink, back), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, back: bool) -> None:
        with suppress(OSError, ValueError):
            while not self._over.is_set():
                try:
                    data = source.recv(SLOW_BYTES_S // 10 if self.mode == SLOW else CHUNK)
                except TimeoutError:
                    if self.mode != LATE:
                        raise
                    continue  # a server says little to clients that it does not hear
                if not data:
                    break
                if self.mode == HOLE or (self.mode == HALF and back):
                    continue
                while self.mode == LATE and not back and not self._over.is_set():
                    time.sleep(0.01)
                if self.mode == SLOW:
                    time.sleep(len(data) / SLOW_BYTES_S)
                if back and self.cut_after is not None:
                    self.cut_after -= len(data)
                    if self.cut_after < 0:
                        self.cut_after = None
                        sink.sendall(data[: len(data) // 2])
                        self.reset()
                        return
                sink.sendall(data)
        for end in (source, sink):
            self._open.discard(end)
            with suppress(OSError):
                end.close()
