#!/usr/bin/env python3
"""What load_bench does with dtune, done with Optuna: trials of ten reports, a
random sampler, no pruner. One process, and eight at once, on each storage.

Prints a JSON object a line. Optuna has no server: each process asks and tells
through the storage itself, so there are no agents to simulate.
"""
import json
import multiprocessing
import os
import sys
import tempfile
import time

STEPS = 10
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 15.0  # of each way


def storage_of(kind, folder):
    import optuna

    if kind == "sqlite":
        url = "sqlite:///" + os.path.join(folder, "study.db")
        return optuna.storages.RDBStorage(
            url, engine_kwargs={"connect_args": {"timeout": 120}}
        )
    from optuna.storages.journal import JournalFileBackend

    return optuna.storages.JournalStorage(
        JournalFileBackend(os.path.join(folder, "journal.log"))
    )


def work(kind, folder, seed, results):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(
        study_name="load",
        storage=storage_of(kind, folder),
        sampler=optuna.samplers.RandomSampler(seed=seed),
        pruner=optuna.pruners.NopPruner(),
    )
    space = {"lr": optuna.distributions.FloatDistribution(1e-4, 1, log=True)}
    asks, reports = [], []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        began = time.monotonic()
        trial = study.ask(space)
        asks.append(time.monotonic() - began)
        for step in range(STEPS):
            began = time.monotonic()
            trial.report(0.5, step)
            reports.append(time.monotonic() - began)
        study.tell(trial, 0.5)
    results.put((asks, reports))


def quantile_ms(values, share):
    values = sorted(values)
    return round(1e3 * values[int(share * (len(values) - 1))], 2)


def measure(kind, processes):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        optuna.create_study(study_name="load", storage=storage_of(kind, folder))
        results = multiprocessing.Queue()
        began = time.monotonic()
        workers = [
            multiprocessing.Process(target=work, args=(kind, folder, i, results))
            for i in range(processes)
        ]
        for worker in workers:
            worker.start()
        asks, reports = [], []
        for _ in workers:
            some_asks, some_reports = results.get()
            asks += some_asks
            reports += some_reports
        for worker in workers:
            worker.join()
        seconds = time.monotonic() - began
    print(
        json.dumps(
            {
                "optuna": optuna.__version__,
                "storage": kind,
                "processes": processes,
                "reports": len(reports),
                "reports_per_second": round(len(reports) / seconds, 1),
                "ask_p50_ms": quantile_ms(asks, 0.5),
                "ask_p99_ms": quantile_ms(asks, 0.99),
                "report_p50_ms": quantile_ms(reports, 0.5),
                "report_p99_ms": quantile_ms(reports, 0.99),
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    try:
        import optuna  # noqa: F401
    except ImportError:
        print("Optuna is not there (pip install optuna==5.0.0)", file=sys.stderr)
        sys.exit(0)
    multiprocessing.set_start_method("spawn")
    for name in ("sqlite", "journal"):
        for number in (1, 8):
            measure(name, number)
