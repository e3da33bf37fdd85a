"""Many actors, one learner: the paper's training scheme on Ray.

What is here imports Ray only when a cluster is really used: in `connection` and `fleet`.
"""

from usfa.cluster.config import ClusterConfig
from usfa.cluster.ledger import Account, AccountError, Ledger, read_account

__all__ = ["Account", "AccountError", "ClusterConfig", "Ledger", "read_account"]
