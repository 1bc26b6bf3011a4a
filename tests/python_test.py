"""The module of the wheel, with the program of this build.

    python_test.py ROOT BUILD
"""

import math
import os
import pathlib
import sys
import tempfile

root, build = map(pathlib.Path, sys.argv[1:])
sys.path.insert(0, str(root / "app/python"))
os.environ["PATH"] = f"{build / 'bin'}:{os.environ['PATH']}"

import dtune  # noqa: E402  # from the sources

RECIPE = """
study: shell
command: sh -c "for s in 1 2 3; do echo step=$s score=$s; sleep 0.02; done"
space: { x: { linear: [0, 1] }, kind: { choice: [a, b] } }
objective: score
scheduler: fifo
slots: 1
budget: { trials: 4 }
"""

OWN = """
study: own
command: { run: none, steps: 4 }
space: { x: { linear: [0, 1] } }
objective: score
sampler: sobol
budget: { trials: 5 }
"""

BROKEN = """
command: { run: none }
space: { x: { linear: [0, 1] }, kind: { choice: ["None", "null", NA] } }
objective: score
sampler: sobol
budget: { trials: 5 }
"""


def test_run():
    run = dtune.run("shell.yaml", trials=3)
    events = list(run)
    assert events[0]["event"] == "started" and events[-1]["event"] == "finished", events
    assert run.passed and run.study.status()["trials"]["total"] == 3
    assert run.study.best()["value"] == 3.0


def test_leaving_a_run_stops_it_cleanly():
    for event in dtune.run("shell.yaml", fresh=True):
        if event["event"] == "report":
            break
    study = dtune.open("shell.yaml")
    assert study.status()["state"] == "interrupted", study.status()["state"]
    assert len(list(dtune.run("shell.yaml"))) > 0  # goes on
    assert study.status()["trials"]["complete"] == 4


def test_report_and_frames():
    study = dtune.open("shell.db")
    study.report("page.html")
    assert pathlib.Path("page.html").stat().st_size > 10_000
    try:
        import pandas  # noqa: F401
    except ImportError:
        print("python: frames were not looked at: there is no pandas")
        return
    assert list(study.trials()["score"]) == [3.0] * 4
    assert len(study.curves()) == 12


def test_ask_and_tell():
    study = dtune.open("own.yaml")
    best = -1
    while (trial := study.ask()) is not None:
        told, step = {"go_on": True}, trial.from_step
        while told["go_on"]:
            step += 1
            value = math.nan if trial.number == 2 else trial.params["x"] * step
            told = study.tell(trial, step=step, score=value)
            best = max(best, value) if value == value else best
    assert dtune.open("own.db").best()["value"] == best
    assert study.status()["trials"]["failed"] == 1


def test_a_trial_that_breaks_is_told_of():
    study = dtune.open("broken.yaml")
    for value in (math.inf, -math.inf, math.nan):
        assert study.tell(study.ask(), score=value)["state"] == "failed", value
    told = study.tell(study.ask(), failed=RuntimeError("no memory"))
    assert told["state"] == "failed" and told["why"] == "RuntimeError('no memory')", told
    assert study.tell(study.ask(), score=1.0, acc=math.inf)["state"] == "complete"


def test_choices_with_names_of_nothing_stay_words():
    try:
        import pandas  # noqa: F401
    except ImportError:
        return
    trials = dtune.open("broken.db").trials()
    assert set(trials["param.kind"]) <= {"None", "null", "NA"}, trials["param.kind"]
    assert trials["score"].isna().sum() == 4, trials["score"]


def test_what_the_program_refuses_is_an_exception():
    try:
        dtune.open("none.db").best()
    except dtune.DtuneError as error:
        assert error.exit_code == 2 and "none.db" in str(error), error
    else:
        raise AssertionError("no exception")
    assert dtune.version()["version"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        pathlib.Path("shell.yaml").write_text(RECIPE)
        pathlib.Path("own.yaml").write_text(OWN)
        pathlib.Path("broken.yaml").write_text(BROKEN)
        for name, test in list(globals().items()):
            if name.startswith("test_"):
                test()
                print(name)
        os.chdir("/")


main()
