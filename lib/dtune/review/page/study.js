// A study as the page's data has it, and which of its trials are shown.

// What became of a trial; the order is that in which curves are drawn.
const FATES = ["cut", "failed", "paused", "complete", "running"];

const FATE_OF = {
  waiting: "running", running: "running", paused: "paused",
  complete: "complete", cut: "cut", failed: "failed", lost: "failed",
  timed_out: "failed", invalid: "failed",
};

class Study {
  constructor(data) {
    Object.assign(this, data);
    this.count = data.trials.state.length;
    this.maximize = data.goal === "maximize";
    this.search = [];
    for (let i = 0; i < this.count; ++i) {
      if (!this.trials.final[i]) this.search.push(i);
    }
    this.leader = data.verdict.best ? data.verdict.best.trial - 1 : -1;
    this.lastStep = this.horizon || Math.max(1, ...extent(this.trials.steps) || [1]);
    this.haystacks = [];
  }

  stateText(i) { return this.words.states[this.trials.state[i]].replace("_", " "); }
  reason(i) { return this.words.reasons[this.trials.reason[i]].replaceAll("_", " "); }
  fate(i) { return FATE_OF[this.words.states[this.trials.state[i]]] || "failed"; }
  better(a, b) { return this.maximize ? a > b : a < b; }

  // "lr=0.0312 dropout=0.3"
  point(i) {
    return this.parameters
      .map((p, k) => [p.name, this.trials.values[k][i]])
      .filter(([, value]) => value !== null)
      .map(([name, value]) => `${name}=${numberText(value, 3)}`)
      .join(" ");
  }

  // [[step, value], ...] of the finite values.
  curve(i) {
    const flat = this.curves[i], points = [];
    for (let k = 0; k < flat.length; k += 2) {
      if (flat[k + 1] !== null) points.push([flat[k], flat[k + 1]]);
    }
    return points;
  }

  forecast(i) {
    const found = this.predicted.find((p) => p.trial === i + 1);
    return found && found.points.length ? found.points : null;
  }

  // What the search box looks through.
  haystack(i) {
    return this.haystacks[i] ??= [i + 1, this.stateText(i), this.reason(i),
      this.trials.detail[i], this.point(i), this.trials.node[i]]
      .join(" ").toLowerCase();
  }

  // Trials of the search from the best to the worst, those without a value last.
  ranked() {
    return this.ranking ??= [...this.search].sort((a, b) => {
      const x = this.trials.best[a], y = this.trials.best[b];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      return (this.maximize ? y - x : x - y) || a - b;
    });
  }

  // A range of the metric that shows the good ones well: one diverged trial
  // must not flatten all others.
  robustRange(values) {
    const sorted = values.filter((v) => v !== null).sort((a, b) => a - b);
    if (!sorted.length) return [0, 1];
    let low = sorted[0], high = sorted[sorted.length - 1];
    if (this.maximize) low = Math.max(low, quantile(sorted, 0.05));
    else high = Math.min(high, quantile(sorted, 0.95));
    const room = (high - low || Math.abs(high) || 1) * 0.05;
    return [low - room, high + room];
  }
}

// What is filtered; every view draws the trials that pass.
const filter = {
  hidden: new Set(),   // fates
  text: "",
  brushes: new Map(),  // index of a parameter, or "metric" -> [low, high] in 0..1
};

function passes(study, i) {
  if (filter.hidden.has(study.fate(i))) return false;
  for (const [axis, [low, high]] of filter.brushes) {
    const at = axis === "metric" ? study.metricUnit(i) : study.trials.units[axis]?.[i];
    if (at === null || at === undefined || at < low || at > high) return false;
  }
  return filter.text === "" || study.haystack(i).includes(filter.text);
}

// The metric's place on its axis: 0 worst, 1 best of those that are shown well.
Study.prototype.metricRange = function () {
  return this.metricEnds ??= this.robustRange(this.search.map((i) => this.trials.best[i]));
};
Study.prototype.metricUnit = function (i) {
  const value = this.trials.best[i];
  if (value === null) return null;
  const [low, high] = this.metricRange();
  return Math.min(1, Math.max(0, (value - low) / (high - low)));
};
