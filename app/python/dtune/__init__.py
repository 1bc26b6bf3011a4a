"""dtune in a notebook: studies as data frames, runs as iterators.

    import dtune

    for event in dtune.run("digits.yaml", trials=20):   # tunes and trains
        print(event)
    study = dtune.open("digits.db")
    study.best()["params"]                              # a dict
    study.trials(), study.curves()                      # pandas.DataFrame

    study = dtune.open("mine.yaml")                     # trials of one's own
    while (trial := study.ask()) is not None:
        study.tell(trial, val_loss=train(**trial.params))

Everything is done by the program of the same version; a study is its database.
Nothing is kept in memory: several processes may look at, and ask, one study.
"""

import dataclasses
import io
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

__all__ = ["DtuneError", "Run", "Study", "Trial", "open", "program", "run", "version"]

FINISHED, EXPECTATION_FAILED, TRY_LATER = 0, 1, 75


class DtuneError(RuntimeError):
    """What the program said on its standard error; exit_code is its own."""

    def __init__(self, message, exit_code):
        super().__init__(message)
        self.exit_code = exit_code


@dataclasses.dataclass(frozen=True)
class Trial:
    """A point to try, as Study.ask gives it."""

    number: int
    params: dict
    attempt: int
    seed: str
    from_step: int  # where it goes on; 0: from the beginning
    to_step: "int | None"  # where to stop and tell; None: when it is done
    why: str


def program():
    """The path of the program: the wheel's own, else the first of PATH."""
    own = pathlib.Path(__file__).parent / "_bin" / "dtune"
    found = str(own) if own.exists() else shutil.which("dtune")
    if found is None:
        raise DtuneError("the program dtune is not on PATH (install dtune)", 127)
    return found


def version():
    """Version, commit, compiler, LibTorch and schema, as a dict."""
    return json.loads(_call("--version", "--json").stdout)


def open(study):
    """The study of a database or recipe; that of a recipe may not exist yet."""
    return Study(study)


def run(recipe, **options):
    """Tunes and trains: an iterator over events, each a dict.

    Options are those of `dtune run`: trials=20, time="5m", fresh=True,
    set=["train.epochs=4"]. Leaving the loop early stops the run cleanly; run it
    again to go on.
    """
    return Run(recipe, options)


class Study:
    """One study. Each call reads what its database has by then."""

    def __init__(self, path):
        self.path = os.fspath(path)

    def __repr__(self):
        return f"dtune.open({self.path!r})"

    def status(self):
        """How far it is, as a dict."""
        return self._json("status")

    def best(self):
        """The best point, its metrics and its model, as a dict."""
        return self._json("best")

    def trials(self):
        """A DataFrame with a row for each trial; parameters are param.NAME."""
        return self._frame("--csv")

    def curves(self):
        """A DataFrame with a row for each step of every trial."""
        return self._frame("--curves")

    def report(self, output):
        """Writes the study as one HTML page."""
        _call("report", self.path, "--output", os.fspath(output))

    def ask(self, patience=0.0):
        """The next Trial, marked as being tried; None: the search is over.

        Where others have to be told of first, it tries again for `patience`
        seconds, then raises DtuneError (exit_code 75).
        """
        until = time.monotonic() + patience
        while True:
            done = _call("ask", self.path, accept=(FINISHED, EXPECTATION_FAILED, TRY_LATER))
            if done.returncode == EXPECTATION_FAILED:
                return None
            if done.returncode == FINISHED:
                break
            if time.monotonic() >= until:
                raise DtuneError(_why(done), TRY_LATER)
            time.sleep(0.2)
        answer = json.loads(done.stdout)
        return Trial(
            number=answer["trial"],
            **{key: answer[key] for key in ("params", "attempt", "seed", "from_step", "to_step", "why")},
        )

    def tell(self, trial, step=None, last=False, failed=None, invalid=None, lost=None, **metrics):
        """Reports the outcome of a trial; the dict that comes back has "go_on": train on.

        failed, invalid and lost say why, as a text or an exception.
        """
        report = {"trial": trial.number, "attempt": trial.attempt, "last": last, "metrics": metrics}
        reasons = {"failed": failed, "invalid": invalid, "lost": lost}
        report.update({key: _reason(why) for key, why in reasons.items() if why is not None})
        if step is not None:
            report["step"] = step
        text = json.dumps(report | {"metrics": _finite(metrics)}, default=float)
        return json.loads(_call("tell", self._database(), "-", text=text).stdout)

    def _database(self):
        path = pathlib.Path(self.path)
        return str(path.with_suffix(".db") if path.suffix in (".yaml", ".yml") else path)

    def _json(self, command):
        return json.loads(_call(command, self.path, "--json").stdout)

    def _frame(self, option):
        import pandas  # only what returns frames needs it

        # Only an empty cell is missing: a choice may be called None or null.
        text = io.StringIO(_call("export", self.path, option).stdout)
        return pandas.read_csv(text, keep_default_na=False, na_values=[""])


class Run:
    """A study that runs in a process of its own; see run."""

    def __init__(self, recipe, options):
        self.recipe = os.fspath(recipe)
        self.study = None  # a Study once the loop is over
        self.passed = None  # whether all of `expect:` held
        self._words = ["run", self.recipe, "--quiet", "--json", *_options(options)]

    def __iter__(self):
        with tempfile.TemporaryDirectory(prefix="dtune-") as folder:
            files = {name: pathlib.Path(folder, name) for name in ("events", "out", "err")}
            files["events"].touch()
            with files["out"].open("w") as out, files["err"].open("w") as err:
                process = subprocess.Popen(
                    [program(), *self._words, "--events", str(files["events"])], stdout=out, stderr=err)
                try:
                    yield from _events_of(process, files["events"])
                finally:
                    _stop(process)
            self._finish(process.returncode, files)

    def _finish(self, code, files):
        if code not in (FINISHED, EXPECTATION_FAILED):
            raise DtuneError(files["err"].read_text().strip(), code)
        result = json.loads(files["out"].read_text())
        self.passed = result["passed"]
        self.study = Study(result["database"])


def _events_of(process, path):
    """Lines of a file that a process appends to, until it ends."""
    with path.open() as file:
        rest = ""
        while True:
            ended = process.poll() is not None
            rest += file.read()
            *lines, rest = rest.split("\n")
            yield from map(json.loads, lines)
            if ended:
                return
            time.sleep(0.1)


def _stop(process):
    """As Ctrl-C: the study can go on later."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    process.wait()


def _options(options):
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not False and value is not None:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words += [option, str(one)]
    return words


def _finite(metrics):
    """JSON has no NaN and no infinity: null says that a metric is no number."""
    bad = {name for name, value in metrics.items() if value is None or not math.isfinite(value)}
    return {name: None if name in bad else float(value) for name, value in metrics.items()}


def _reason(why):
    """An exception may have no text, but a name."""
    return repr(why) if isinstance(why, BaseException) else str(why)


def _why(done):
    return done.stderr.strip() or done.stdout.strip()


def _call(*words, text=None, accept=(FINISHED,)):
    done = subprocess.run([program(), *words], input=text, capture_output=True, text=True)
    if done.returncode not in accept:
        raise DtuneError(_why(done), done.returncode)
    return done
