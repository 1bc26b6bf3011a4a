// 5. Parallel coordinates: an axis for each parameter and one for the metric;
// what is brushed on an axis filters all views.

const BUCKETS = 5;

// The axes: their name, a trial's place on it in 0..1, and ticks.
function parallelAxes(study) {
  const axes = study.parameters.map((parameter, k) => ({
    key: k, name: parameter.name, at: (i) => study.trials.units[k][i], ticks: parameterTicks(parameter, 5),
  }));
  const [low, high] = study.metricRange();
  axes.push({
    key: "metric", name: study.metric, at: (i) => study.metricUnit(i),
    ticks: linearTicks(low, high, 5).map((t) => [(t - low) / (high - low), numberText(t)]),
  });
  return axes;
}

class Parallel {
  constructor(holder, study) {
    this.study = study;
    this.axes = parallelAxes(study);
    this.height = 320;
    this.top = 34;
    this.floor = this.height - 16;
    this.width = Math.max(holder.clientWidth || 720, this.axes.length * 84);
    this.root = svg("svg", {
      viewBox: `0 0 ${this.width} ${this.height}`, class: "parallel", role: "group",
      "aria-label": "Parallel coordinates of the parameters and the metric",
    });
    this.root.style.minWidth = `${this.axes.length * 84}px`;
    this.lines = svg("g", { class: "lines" });
    this.root.append(this.lines);
    this.brushes = this.axes.map((axis, k) => this.drawAxis(axis, k));
    this.order = study.ranked().filter((i) => study.trials.best[i] !== null);
    this.bucket = new Map(this.order.map((i, rank) => [i, Math.floor(rank * BUCKETS / this.order.length)]));
    holder.append(this.root);
    this.update();
  }

  x(k) { return 44 + k * (this.width - 88) / Math.max(1, this.axes.length - 1); }
  y(unit) { return this.floor - unit * (this.floor - this.top); }
  unit(event) {
    const box = this.root.getBoundingClientRect();
    const y = (event.clientY - box.top) * this.height / box.height;
    return Math.min(1, Math.max(0, (this.floor - y) / (this.floor - this.top)));
  }

  drawAxis(axis, k) {
    const x = this.x(k);
    const brush = svg("rect", { class: "brush", x: x - 8, width: 16, visibility: "hidden" });
    const target = svg("rect", {
      class: "target", x: x - 20, width: 40, y: this.top, height: this.floor - this.top, tabindex: 0,
      role: "slider", "aria-orientation": "vertical", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 50,
      "aria-label": `Range of ${axis.name}: arrow keys move it, shift and arrow keys change its size, Delete removes it`,
    });
    this.root.append(
      svg("line", { class: "axis", x1: x, x2: x, y1: this.top, y2: this.floor }),
      svg("text", { class: "name", x, y: 16, "text-anchor": "middle" }, shortened(axis.name, 14)),
      ...axis.ticks.map(([unit, text]) => svg("text", { class: "tick", x: x + 5, y: this.y(unit) + 4 }, shortened(text, 10))),
      brush, target);
    this.listen(axis, target);
    return { axis, brush, target };
  }

  listen(axis, target) {
    let start = null;
    target.addEventListener("pointerdown", (event) => {
      start = this.unit(event);
      target.setPointerCapture(event.pointerId);
    });
    target.addEventListener("pointermove", (event) => {
      if (start === null) return;
      const now = this.unit(event);
      if (Math.abs(now - start) > 0.01) setBrush(axis.key, [Math.min(start, now), Math.max(start, now)]);
    });
    target.addEventListener("pointerup", (event) => {
      if (start !== null && Math.abs(this.unit(event) - start) <= 0.01) setBrush(axis.key, null);
      start = null;
    });
    target.addEventListener("keydown", (event) => this.key(axis, event));
  }

  key(axis, event) {
    const [low, high] = filter.brushes.get(axis.key) || [0.4, 0.6];
    const step = event.key === "ArrowUp" ? 0.05 : event.key === "ArrowDown" ? -0.05 : 0;
    if (event.key === "Delete" || event.key === "Backspace") setBrush(axis.key, null);
    else if (step && event.shiftKey) setBrush(axis.key, [low, Math.min(1, Math.max(low + 0.05, high + step))]);
    else if (step) {
      const move = Math.min(1 - high, Math.max(-low, step));
      setBrush(axis.key, [low + move, high + move]);
    } else return;
    event.preventDefault();
  }

  // A path through the axes; where a trial has no value, a gap.
  path(i) {
    let path = "", down = false;
    this.axes.forEach((axis, k) => {
      const at = axis.at(i);
      if (at === null) down = false;
      else {
        path += `${down ? "L" : "M"}${this.x(k).toFixed(1)},${this.y(at).toFixed(1)}`;
        down = true;
      }
    });
    return path;
  }

  update() {
    const paths = new Array(BUCKETS + 1).fill("");
    for (const i of [...this.order].reverse()) {
      paths[passes(this.study, i) ? this.bucket.get(i) : BUCKETS] += this.path(i);
    }
    const many = this.order.length > 300 ? " many" : "";
    this.lines.replaceChildren(svg("path", { class: `off${many}`, d: paths[BUCKETS] }));
    for (let k = BUCKETS - 1; k >= 0; --k) {
      this.lines.append(svg("path", { class: `rank${k}${many}`, d: paths[k] }));
    }
    for (const { axis, brush, target } of this.brushes) {
      const range = filter.brushes.get(axis.key);
      brush.setAttribute("visibility", range ? "visible" : "hidden");
      target.setAttribute("aria-valuetext", range ? brushText(this.study, axis.key, range) : "all");
      if (!range) continue;
      brush.setAttribute("y", this.y(range[1]));
      brush.setAttribute("height", this.y(range[0]) - this.y(range[1]));
    }
  }
}

// The value at a place of a parameter's range, as text.
function valueText(parameter, unit) {
  const { low, high } = parameter;
  if (parameter.kind === "choice") {
    const count = parameter.choices.length;
    return numberText(parameter.choices[Math.min(count - 1, Math.floor(unit * count))], 3);
  }
  const value = parameter.log ? low * (high / low) ** unit : low + unit * (high - low);
  return numberText(parameter.kind === "integer" ? Math.round(value) : value, 3);
}

function brushText(study, key, [low, high]) {
  if (key !== "metric") {
    const parameter = study.parameters[key];
    if (!parameter) return "";
    return `${parameter.name} ${valueText(parameter, low)} to ${valueText(parameter, high)}`;
  }
  const [worst, best] = study.metricRange();
  const at = (unit) => numberText(worst + unit * (best - worst), 3);
  return `${study.metric} ${at(low)} to ${at(high)}`;
}

function drawParallel(body, study) {
  if (!study.search.some((i) => study.trials.best[i] !== null)) {
    return void body.append(html("p", {}, sentence(study.verdict.why_no_best)));
  }
  const holder = html("div", { class: "scroll" });
  body.append(
    legend([["rank0", "best fifth of the trials"], ["rank1", ""], ["rank2", ""], ["rank3", ""], ["rank4", "worst fifth"]]),
    html("p", { class: "dim" }, "Drag along an axis to keep the trials in that range, in all views."), holder);
  const view = new Parallel(holder, study);
  return () => view.update();
}
