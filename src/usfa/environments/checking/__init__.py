"""What is wrong with an environment, each thing in one sentence with its cure."""

from usfa.environments.checking.check import check_environment
from usfa.environments.checking.findings import Finding, Severity

__all__ = ["Finding", "Severity", "check_environment"]
