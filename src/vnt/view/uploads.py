"""A limit on what a visitor may send."""

from typing import Any

import viser
from viser import _messages

MOST_UPLOADED = 64 * 2**20
"""Bytes of a file that a visitor may open: a cloud of some millions of points."""


def limit_uploads(server: viser.ViserServer, most: int) -> None:
    """Refuse files of more bytes when they are announced, and parts beyond what was announced: none is kept.

    viser takes whatever comes and tells us when all of it is in memory, so this looks at its messages first.
    """
    gui, connection = server.gui, server.gui._websock_interface
    states = gui._current_file_upload_states

    def announced(client_id: int, message: Any) -> None:
        if message.size_bytes > most:
            states.pop(message.transfer_uuid, None)  # its parts then belong to nothing, and are dropped
            done = {"transferred_bytes": message.size_bytes, "total_bytes": message.size_bytes}
            source = message.source_component_uuid
            ack = _messages.FileTransferPartAck(
                source_component_uuid=source, transfer_uuid=message.transfer_uuid, **done
            )
            connection.queue_message(ack)  # or else it would be shown as on its way for ever
            words = f"{message.filename}: {message.size_bytes / 2**20:.0f} MiB, and files may have {most >> 20} MiB"
            client = server.get_clients().get(client_id)
            if client is not None:
                client.add_notification("Too large", words, color="red", auto_close_seconds=10)

    def arrived(client_id: int, message: Any) -> None:
        state = states.get(message.transfer_uuid)
        if state is not None and state["transferred_bytes"] > most:
            states.pop(message.transfer_uuid, None)

    connection.register_handler(_messages.FileTransferStartUpload, announced)
    connection.register_handler(_messages.FileTransferPart, arrived)
