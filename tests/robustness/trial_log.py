"""The log of a series of trials: an interrupted series continues after its last whole line."""

import json


class TrialLog:
    """Results of trials, numbered from 0; kept in a file if a path is given."""

    def __init__(self, path=None):
        self.path, self.trials = path, []
        if path is not None and path.exists():
            whole = path.read_text().rpartition("\n")[0]
            path.write_text(whole + "\n" if whole else "")  # without a line that an interruption tore
            self.trials = [json.loads(line) for line in whole.splitlines()]

    def __len__(self):
        return len(self.trials)

    def append(self, **found):
        self.trials.append(found)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(found) + "\n")
