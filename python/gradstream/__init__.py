"""Federated learning that fits on a microcontroller: a server, devices in this process, and their files.

    import gradstream
    with gradstream.Client("a.identity", "127.0.0.1:7433", data=rows) as client:
        gradstream.train([client])
        print(client.model())

Client, train      devices in this process, with a state folder where they are to go on after an end
Loss               a loss of your own, in Python
Certificate, Claim other credentials than an identity; claim_identity() makes an identity of a claim
Server             a server as a child of this process
simulate           a whole fleet on this machine
FederatedPCA       principal components, in scikit-learn's habit
read_model, save_model, history, to_gsd    files
errors             an exception class a cause; all are gradstream.Error

The devices log to logging.getLogger("gradstream"), which is silent until you ask it for lines.
"""

from gradstream.credentials import Certificate, Claim, claim_identity
from gradstream.device import PROBLEMS, Client, Status, train
from gradstream.errors import (ClaimRefused, DataError, Error, FileUnusable, IdentityError, NotReplayable, OptionError,
                               OutOfMemory, ProcessUnfit, ProgramFailed, ServerNotProven, ServerUnreachable,
                               TrainingTimeout)
from gradstream.files import history, read_model, save_model, to_gsd
from gradstream.library import LIBRARY
from gradstream.loss import Loss
from gradstream.pca import FederatedPCA
from gradstream.programs import program
from gradstream.server import Server
from gradstream.simulation import simulate
from gradstream.virtual import Update

__version__: str = LIBRARY.gs_py_version().decode()
__all__ = ["PROBLEMS", "Certificate", "Claim", "ClaimRefused", "Client", "DataError", "Error", "FederatedPCA",
           "FileUnusable", "IdentityError", "Loss", "NotReplayable", "OptionError", "OutOfMemory", "ProcessUnfit",
           "ProgramFailed", "Server", "ServerNotProven", "ServerUnreachable", "Status", "TrainingTimeout", "Update",
           "claim_identity", "history", "program", "read_model", "save_model", "simulate", "to_gsd", "train"]
