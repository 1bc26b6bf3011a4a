"""Studies that Optuna wrote, imported by dtune.

    imports.py DTUNE
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

STEPS = 5


def run(dtune, folder, *words):
    done = subprocess.run([dtune, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"dtune {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def objective(trial):
    rate = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    kind = trial.suggest_categorical("kind", ["plain", None, 3, True])
    width = trial.suggest_int("width", 8, 64, step=8)
    drop = trial.suggest_float("drop", 0.0, 0.5, step=0.1)
    flag = trial.suggest_categorical("flag", [True, False])
    if flag:
        trial.suggest_float("beta", 0.1, 1.0)
    if trial.number == 3:
        raise RuntimeError("broke")
    for step in range(STEPS):
        loss = abs(rate - 0.01) + width / 100 + drop + 1 / (step + 1) + (kind is None)
        trial.report(float("nan") if trial.number == 4 and step == 1 else loss, step)
        if trial.should_prune() or (trial.number == 5 and step == 2):
            raise optuna.TrialPruned()
    return loss - 0.01


def make(storage):
    study = optuna.create_study(study_name="theirs", storage=storage, sampler=optuna.samplers.TPESampler(seed=1),
                                pruner=optuna.pruners.MedianPruner(n_startup_trials=6))
    study.enqueue_trial({"lr": 0.02, "kind": None, "width": 16, "drop": 0.2})
    study.optimize(objective, n_trials=15, catch=(RuntimeError,))
    own = {name: one for name, one in study.trials[0].distributions.items() if name != "beta"}
    study.add_trial(optuna.trial.create_trial(
        params={"lr": 0.01, "kind": "plain", "width": 8, "drop": 0.1, "flag": False},
        distributions=own, intermediate_values={0: 2.0, 1: 1.5}, value=0.125))
    study.ask()  # goes on running
    return study


def cell(name, value):
    if name == "flag":
        return str(value).lower()
    return str(value) if isinstance(value, (str, bool, type(None))) else f"{value:.12g}"


def check(dtune, folder, file, study):
    run(dtune, folder, "import", "--optuna", file, "--output", f"{file}.yaml")
    rows = list(csv.DictReader((folder / f"{file}.csv").read_text().splitlines()))
    expected = []
    for trial in study.trials:
        if trial.state.name not in ("COMPLETE", "PRUNED"):
            continue
        curve = dict(trial.intermediate_values)
        if trial.state.name == "COMPLETE":
            curve[max(curve)] = trial.value
        expected += [(trial.number, step + 1, value, trial.params)
                     for step, value in sorted(curve.items()) if value == value]
    assert len(rows) == len(expected), (len(rows), len(expected))
    for row, (number, step, value, params) in zip(rows, expected):
        assert (int(row["trial"]), int(row["step"])) == (number, step), row
        assert abs(float(row["value"]) - value) < 1e-12, row
        for name, theirs in params.items():
            ours = row[f"param.{name}"]
            assert ours == cell(name, theirs) or abs(float(ours) - float(theirs)) < 1e-12, (ours, theirs)
    plan = json.loads(run(dtune, folder, "plan", f"{file}.yaml", "--json"))
    results = len({number for number, *_ in expected})
    assert plan["warm_start"] == [f"{file}.csv: {results} trials"], plan["warm_start"]
    asked = json.loads(run(dtune, folder, "ask", f"{file}.yaml"))
    names = ["lr", "kind", "width", "drop", "flag"] + ["beta"] * asked["params"]["flag"]
    assert asked["params"].keys() == set(names), asked
    print(f"optuna {optuna.__version__}: {results} of {len(study.trials)} trials of {file} imported")


def main():
    dtune = str(pathlib.Path(sys.argv[1]).resolve())
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check(dtune, folder, "theirs.db", make(f"sqlite:///{folder}/theirs.db"))
        check(dtune, folder, "theirs.log", make(JournalStorage(JournalFileBackend(str(folder / "theirs.log")))))


main()
