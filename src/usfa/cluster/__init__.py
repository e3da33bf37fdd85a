"""Many actors, one learner: the paper's training scheme on Ray.

Ray is imported only when a cluster is really used: by `connection.connected`, before everybody else.
"""

from usfa.cluster.config import ClusterConfig
from usfa.cluster.ledger import Account, AccountError, Ledger, read_account

__all__ = ["Account", "AccountError", "ClusterConfig", "Ledger", "read_account"]
