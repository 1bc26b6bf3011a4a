"""Runs that dtune exports, moved into a database by MLflow and read there.

    mlflow_store.py DTUNE
"""

import csv
import pathlib
import subprocess
import sys
import tempfile

import mlflow

RECIPE = """
study: interop
command:
  run: >-
    awk -v lr={lr} 'BEGIN { for (s = 1; s <= 3; ++s) print "step=" s " val_accuracy=" 0.9 - lr / s }'
  steps: 3
space:
  lr: { log: [1.0e-4, 1.0] }
  kind: { choice: [plain, deep] }
sampler: sobol
scheduler: asha
budget: { trials: 8 }
slots: 1
"""


def run(folder, *words):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    dtune = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "r.yaml").write_text(RECIPE)
        run(folder, dtune, "run", "r.yaml", "--quiet")
        run(folder, dtune, "export", "r.db", "--mlflow", "mlruns")
        trials = list(csv.DictReader(run(folder, dtune, "export", "r.db", "--csv").splitlines()))
        curves = list(csv.DictReader(run(folder, dtune, "export", "r.db", "--curves").splitlines()))
        run(folder, sys.executable, "-m", "mlflow", "migrate-filestore", "--source", "mlruns",
            "--target", f"sqlite:///{folder}/mlflow.db")
        client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
        [experiment] = client.search_experiments(filter_string="name = 'interop'")
        runs = {one.data.tags["mlflow.runName"]: one for one in client.search_runs([experiment.experiment_id])}
        assert len(runs) == len(trials), (len(runs), len(trials))
        ended = {"complete": "FINISHED", "paused": "KILLED", "cut": "KILLED"}
        values = 0
        for trial in trials:
            one = runs[f"trial {trial['trial']}"]
            assert one.info.status == ended[trial["state"]], (one.info.status, trial)
            assert one.data.params == {"lr": trial["param.lr"], "kind": trial["param.kind"]}, one.data.params
            theirs = {metric.step: metric.value for metric in client.get_metric_history(one.info.run_id, "val_accuracy")}
            ours = {int(row["step"]): float(row["val_accuracy"]) for row in curves if row["trial"] == trial["trial"]}
            assert theirs == ours, (theirs, ours)
            values += len(ours)
    print(f"mlflow {mlflow.__version__}: {len(runs)} runs, {values} values")


main()
