"""Federated learning that fits on a microcontroller: a server, devices in this process, and their files.

    import gradstream
    with gradstream.Client("a.identity", "127.0.0.1:7433", data=rows) as client:
        gradstream.train([client])
        print(client.model())
"""

from gradstream.device import PROBLEMS, Client, Loss, Status, train
from gradstream.files import history, read_model, to_gsd
from gradstream.pca import FederatedPCA
from gradstream.programs import ProgramFailed, program
from gradstream.server import Server
from gradstream.simulation import simulate

__all__ = ["PROBLEMS", "Client", "FederatedPCA", "Loss", "ProgramFailed", "Server", "Status", "history", "program",
           "read_model", "simulate", "to_gsd", "train"]
