#!/usr/bin/env python3
"""How long Optuna takes to propose a point in the studies of decision_bench:
20 parameters, 30% of the trials failed. One thread; samplers with their
defaults.

Prints a JSON object a line. Arguments: trials of each study.
"""
import json
import random
import sys
import time

PARAMETERS = 20
MOST_SECONDS = 60.0  # of each sampler and size
MOST_ASKS = 200


def space(optuna):
    real = optuna.distributions.FloatDistribution
    found = {f"p{i}": real(0.0, 1.0) for i in range(PARAMETERS)}
    found["p0"] = real(1e-4, 0.5, log=True)
    found["p1"] = real(1e-6, 1e-2, log=True)
    found["p2"] = real(0.0, 0.6)
    return found


def study_of(optuna, sampler, trials):
    rng = random.Random(7)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    distributions = space(optuna)
    state = optuna.trial.TrialState
    for i in range(trials):
        point = {
            name: (d.low * (d.high / d.low) ** rng.random())
            if d.log
            else rng.uniform(d.low, d.high)
            for name, d in distributions.items()
        }
        failed = i >= 8 and rng.random() < 0.3
        study.add_trial(
            optuna.trial.create_trial(
                params=point,
                distributions=distributions,
                state=state.FAIL if failed else state.COMPLETE,
                value=None if failed else 0.9 - 0.4 * (point["p2"] - 0.3) ** 2,
            )
        )
    return study, distributions


def measure(optuna, sampler, trials):
    study, distributions = study_of(optuna, sampler, trials)
    asks = []
    end = time.monotonic() + MOST_SECONDS
    while len(asks) < MOST_ASKS and (not asks or time.monotonic() < end):
        began = time.process_time()
        trial = study.ask(distributions)
        asks.append(1e3 * (time.process_time() - began))
        study.tell(trial, 0.5)
    asks.sort()
    return asks


def main():
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {"TPE": lambda: optuna.samplers.TPESampler(seed=1)}
    try:
        import scipy  # noqa: F401
        import torch

        torch.set_num_threads(1)
        samplers["GP"] = lambda: optuna.samplers.GPSampler(seed=1)
    except ImportError:
        print("GPSampler is left out: no torch or scipy", file=sys.stderr)
    for trials in [int(word) for word in sys.argv[1:]]:
        for name, make in samplers.items():
            asks = measure(optuna, make(), trials)
            row = {
                "sampler": name,
                "trials": trials,
                "asks": len(asks),
                "p50_ms": asks[len(asks) // 2],
                "p99_ms": asks[int(0.99 * (len(asks) - 1))],
                "optuna": optuna.__version__,
            }
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    try:
        main()
    except ImportError as missing:
        sys.exit(f"left out: {missing}")
