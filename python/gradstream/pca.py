"""Principal components of samples that stay on their devices, in scikit-learn's habit."""

from __future__ import annotations

from typing import Any

from gradstream.errors import OptionError
from gradstream.files import _numpy
from gradstream.simulation import simulate


class FederatedPCA:
    """fit(shards) trains one device for each shard, in this process, against a server of its own.

    n_components: columns of the model. rounds: versions of the run. floors: False for data that may be known
    (docs/trust.md); with floors each shard needs 32 samples or more. seconds: of the training at most. After fit():
    components_ (n_components x features, orthonormal rows that span the subspace; they are not sorted by variance),
    mean_ and scale_ (the units that the run has taken out), digest_, history_ (columns) and n_features_in_.
    """

    def __init__(self, n_components: int = 2, *, rounds: int = 100, floors: bool = True, seconds: float = 600) -> None:
        self.n_components, self.rounds, self.floors, self.seconds = n_components, rounds, floors, seconds

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as __init__() takes them."""
        del deep  # there is nothing below
        return {name: getattr(self, name) for name in ("n_components", "rounds", "floors", "seconds")}

    def set_params(self, **parameters: Any) -> FederatedPCA:
        """Sets some of them. Raises OptionError for one that is none."""
        for name, value in parameters.items():
            if name not in self.get_params():
                raise OptionError(f"FederatedPCA has no parameter {name}; it has {', '.join(self.get_params())}")
            setattr(self, name, value)
        return self

    def fit(self, shards: Any, y: Any = None) -> FederatedPCA:
        """shards: one array for each device, a sample a row, all with the same columns."""
        del y  # there are no labels
        numpy = _numpy()
        run = simulate(shards, loss="kpca", manifold="stiefel", cols=self.n_components, round_count=self.rounds,
                       floors=self.floors, seconds=self.seconds)
        self.digest_, self.history_, self.n_features_in_ = run["digest"], run["history"], run["model"].shape[0]
        self.components_ = run["model"].T
        self.mean_ = run.get("mean", numpy.zeros(self.n_features_in_, "f4"))
        self.scale_ = run.get("scale", numpy.ones(self.n_features_in_, "f4"))
        return self

    def transform(self, samples: Any) -> Any:
        """The samples' coordinates in the subspace, in the run's units."""
        return (_numpy().asarray(samples) - self.mean_) * self.scale_ @ self.components_.T

    def inverse_transform(self, coordinates: Any) -> Any:
        """Samples from coordinates, in their own units."""
        return coordinates @ self.components_ / self.scale_ + self.mean_
