"""Principal components of samples that stay on their devices, in scikit-learn's habit."""

from gradstream.device import Client, train
from gradstream.files import _numpy, read_model
from gradstream.server import Server


class FederatedPCA:
    """fit(shards) trains one device for each shard, in this process, against a server of its own.

    n_components: columns of the model. rounds: versions of the run. floors: False for data that may be known
    (docs/trust.md); with floors each shard needs 32 samples or more. seconds: of the training at most. After fit():
    components_ (n_components x features, orthonormal rows that span the subspace; they are not sorted by variance),
    mean_ and scale_ (the units that the run has taken out), digest_, history_ (columns) and n_features_in_.
    """

    def __init__(self, n_components=2, *, rounds=100, floors=True, seconds=600):
        self.n_components, self.rounds, self.floors, self.seconds = n_components, rounds, floors, seconds

    def get_params(self, deep=True):
        del deep  # there is nothing below
        return {name: getattr(self, name) for name in ("n_components", "rounds", "floors", "seconds")}

    def set_params(self, **parameters):
        for name, value in parameters.items():
            if name not in self.get_params():
                raise ValueError(f"FederatedPCA has no parameter {name}")
            setattr(self, name, value)
        return self

    def fit(self, shards, y=None):
        """shards: one array for each device, a sample a row, all with the same columns."""
        del y  # there are no labels
        numpy = _numpy()
        shards = [numpy.asarray(shard, dtype="f4") for shard in shards]
        if not shards or any(shard.ndim != 2 or shard.shape[1] != shards[0].shape[1] for shard in shards):
            raise ValueError("shards are arrays of two dimensions with the same columns, one for each device")
        self.n_features_in_ = shards[0].shape[1]
        clients = []
        with Server(problem="kpca", manifold="stiefel", rows=self.n_features_in_, cols=self.n_components,
                    device_count=len(shards), round_count=self.rounds) as server:
            try:
                for index, shard in enumerate(shards):
                    clients.append(Client(server.enrol(f"shard-{index}"), server.address, shard, floors=self.floors))
                train(clients, seconds=self.seconds)
                self.digest_ = clients[0].status().digest
            finally:
                for client in clients:
                    client.close()
            run = read_model(server.config)
            self.history_ = server.history()
        self.components_ = run["model"].T
        self.mean_ = run.get("mean", numpy.zeros(self.n_features_in_, "f4"))
        self.scale_ = run.get("scale", numpy.ones(self.n_features_in_, "f4"))
        return self

    def transform(self, samples):
        """The samples' coordinates in the subspace, in the run's units."""
        return (_numpy().asarray(samples) - self.mean_) * self.scale_ @ self.components_.T

    def inverse_transform(self, coordinates):
        """Samples from coordinates, in their own units."""
        return coordinates @ self.components_ / self.scale_ + self.mean_
