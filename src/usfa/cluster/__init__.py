"""Many actors, one learner: the paper's training scheme on Ray.

Ray is imported only when a cluster is used, by `usfa.cluster.ray.connected`, because it reads its settings on import.
"""

from usfa.cluster.config import ClusterConfig
from usfa.cluster.ledger import read_account

__all__ = ["ClusterConfig", "read_account"]
