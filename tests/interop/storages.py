"""Studies that dtune exports, opened by Optuna, its dashboard and TensorBoard.

    storages.py DTUNE
"""

import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import wsgiref.util

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

RECIPE = """
study: interop
command:
  run: >-
    awk -v lr={lr} -v kind={kind} 'BEGIN {
      for (s = 1; s <= 4; ++s) {
        if (lr > 0.2 && s == 2) exit 3;
        print "step=" s " val_accuracy=" (lr < 0.01 ? 0.5 : 0.9) - 0.1 / s } }'
  steps: 4
space:
  lr: { log: [1.0e-4, 1.0] }
  kind: { choice: [plain, deep] }
  width: { int: [8, 64] }
sampler: sobol
scheduler: asha
budget: { trials: 12 }
slots: 1
"""


def run(dtune, folder, *words):
    done = subprocess.run([dtune, *words], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"dtune {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check_optuna(storage, rows):
    study = optuna.load_study(study_name="interop", storage=storage)
    assert len(study.trials) == len(rows)
    best = max(float(row["val_accuracy"]) for row in rows if row["state"] == "complete")
    assert abs(study.best_value - best) < 1e-9, (study.best_value, best)
    states = {"complete": "COMPLETE", "paused": "PRUNED", "cut": "PRUNED", "failed": "FAIL"}
    for trial, row in zip(study.trials, rows):
        assert trial.state.name == states[row["state"]], (trial.state, row)
        assert abs(trial.params["lr"] - float(row["param.lr"])) < 1e-12
        assert trial.params["kind"] == row["param.kind"]
        assert trial.user_attrs["dtune:state"] == row["state"]
    assert "dtune:best_trial" in study.user_attrs
    asked = study.ask(study.trials[0].distributions)  # a sampler goes on with it
    study.tell(asked, 0.5)
    print(f"optuna {optuna.__version__}: {len(rows)} trials, best {study.best_value}")


def check_dashboard(storage, rows):
    """The dashboard's own answers for its list of studies and a study's page, without a socket."""
    try:
        import optuna_dashboard
    except ImportError:
        print("not compared: the dashboard of Optuna")
        return
    app = optuna_dashboard.wsgi(storage)

    def get(path):
        status = []
        environ = {"wsgi.input": io.BytesIO()}
        wsgiref.util.setup_testing_defaults(environ)
        environ["PATH_INFO"] = path
        body = b"".join(app(environ, lambda line, headers, *_: status.append(line)))
        assert status[0].startswith("200"), (path, status, body)
        return json.loads(body)

    [summary] = get("/api/studies")["study_summaries"]
    assert summary["study_name"] == "interop", summary
    page = get(f"/api/studies/{summary['study_id']}")
    shown = page["trials"][:len(rows)]
    assert [trial["number"] + 1 for trial in shown] == [int(row["trial"]) for row in rows], shown
    for trial, row in zip(shown, rows):
        params = {one["name"]: one["param_external_value"] for one in trial["params"]}
        assert params["kind"] == row["param.kind"], (params, row)
        if row["state"] == "complete":
            assert abs(float(trial["values"][0]) - float(row["val_accuracy"])) < 1e-9, (trial, row)
    assert any(trial["intermediate_values"] for trial in shown)
    print(f"optuna-dashboard {optuna_dashboard.__version__}: {len(shown)} trials")


def check_tensorboard(folder, curves):
    scalars = {}
    for run_folder in sorted(folder.glob("trial-*")):
        events = EventAccumulator(str(run_folder)).Reload()
        if "val_accuracy" in events.Tags()["scalars"]:
            for event in events.Scalars("val_accuracy"):
                scalars[int(run_folder.name[6:]), event.step] = event.value
    ours = {(int(row["trial"]), int(row["step"])): float(row["val_accuracy"]) for row in curves}
    assert scalars.keys() == ours.keys()
    assert all(abs(scalars[key] - ours[key]) < 1e-6 for key in ours)
    print(f"tensorboard: {len(ours)} values")


def main():
    dtune = str(pathlib.Path(sys.argv[1]).resolve())
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "r.yaml").write_text(RECIPE)
        run(dtune, folder, "run", "r.yaml", "--quiet")
        rows = list(csv.DictReader(run(dtune, folder, "export", "r.db", "--csv").splitlines()))
        curves = list(csv.DictReader(run(dtune, folder, "export", "r.db", "--curves").splitlines()))
        for output in ("optuna.db", "optuna.log"):
            run(dtune, folder, "export", "r.db", "--optuna", output)
        check_optuna(f"sqlite:///{folder}/optuna.db", rows)
        check_dashboard(f"sqlite:///{folder}/optuna.db", rows)
        check_optuna(JournalStorage(JournalFileBackend(str(folder / "optuna.log"))), rows)
        run(dtune, folder, "export", "r.db", "--tensorboard", "tb")
        check_tensorboard(folder / "tb", curves)


main()
