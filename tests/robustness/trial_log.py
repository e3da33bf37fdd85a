"""The log of a series of trials: an interrupted series continues after its last trial."""

import json


class TrialLog:
    """Results of trials, numbered from 0; kept in a file if a path is given."""

    def __init__(self, path=None):
        self.path, self.trials = path, []
        if path is not None and path.exists():
            whole = path.read_text().rpartition("\n")[0]
            path.write_text(whole + "\n" if whole else "")  # without a line that an interruption tore
            for line in whole.splitlines():
                self._keep(json.loads(line))

    def __len__(self):
        return len(self.trials)

    def put(self, number, **found):
        """Add the next trial, or another try of an earlier one."""
        self._keep({"number": number, **found})
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(self.trials[number]) + "\n")

    def _keep(self, trial):
        self.trials[trial["number"] : trial["number"] + 1] = [trial]
