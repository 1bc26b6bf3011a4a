// 2. Learning curves, a path for each trial, coloured by what became of it.

function drawForecast(chart, points, kind) {
  chart.plot.append(
    svg("path", { class: `band ${kind}`, d: chart.band(points.map(([s, , l, h]) => [s, l, h])) }),
    svg("path", { class: `forecast ${kind}`, d: chart.line(points.map(([s, m]) => [s, m])) }));
}

// What of a forecast lies ahead of the trial's curve.
function ahead(study, i) {
  const points = study.forecast(i);
  return points && points.filter(([step]) => step >= study.trials.steps[i]);
}

function curveChart(holder, study, trials, whole) {
  const values = trials.flatMap((i) => study.curve(i).map(([, value]) => value));
  const range = extent(values) || [0, 1];
  const [low, high] = whole || trials.length < 5 ? range : study.robustRange(values);
  return new Chart(holder, {
    x: { low: 0, high: study.lastStep, label: "step" },
    y: { low, high: high > low ? high : low + 1, label: study.metric },
    height: 340,
    text: `${study.metric} over steps of ${plural(trials.length, "trial")}`,
  });
}

function nearestCurve(chart, study, points, shown) {
  return (x, y) => {
    const at = cheapest(points.length, (k) => {
      if (!shown[points[k][0]]) return Infinity;
      return Math.hypot(chart.px(points[k][1]) - x, chart.py(points[k][2]) - y);
    });
    if (at < 0) return null;
    const [i, step, value] = points[at];
    if (Math.hypot(chart.px(step) - x, chart.py(value) - y) > 30) return null;
    return {
      open: i,
      text: `trial ${i + 1}, ${study.stateText(i)}\nstep ${step}: ${study.metric} ${numberText(value)}\n${study.point(i)}`,
    };
  };
}

function drawCurves(body, study) {
  const trials = study.search.filter((i) => study.curves[i].length);
  if (!trials.length) return void body.append(html("p", {}, "No trial has reported a step yet."));
  const whole = html("input", { type: "checkbox" });
  const bands = html("input", { type: "checkbox", checked: true });
  const holder = html("div", { class: "holder" });
  body.append(
    legend(FATES.map((fate) => [fate, fate]).concat([["leader", "best"]])),
    html("p", { class: "choices" },
      html("label", {}, bands, " forecasts with 90% bands"),
      html("label", {}, whole, " whole range")),
    html("p", { class: "dim unit" }, study.metric), holder);
  let update = () => {};
  const draw = () => {
    holder.replaceChildren();
    update = drawCurvePaths(holder, study, trials, { whole: whole.checked, bands: bands.checked });
  };
  whole.addEventListener("change", draw);
  bands.addEventListener("change", draw);
  draw();
  return () => update();
}

function drawCurvePaths(holder, study, trials, { whole, bands }) {
  const chart = curveChart(holder, study, trials, whole);
  const paths = [], points = [], shown = [];
  const many = trials.length > 300 ? " many" : "";
  const front = svg("g", {});  // the leader's, over all others
  for (const fate of FATES) {
    const group = svg("g", { class: `curves ${fate}${many}` });
    for (const i of trials) {
      if (study.fate(i) !== fate) continue;
      const curve = study.curve(i);
      for (const [step, value] of curve) points.push([i, step, value]);
      const path = svg("path", {
        class: i === study.leader ? "curve leader" : "curve", d: chart.line(curve), "data-trial": i + 1,
      });
      paths.push([i, path]);
      if (i === study.leader) front.setAttribute("class", `curves ${fate}`);
      (i === study.leader ? front : group).append(path);
    }
    chart.plot.append(group);
  }
  chart.plot.append(front);
  const forecasts = svg("g", {});
  chart.plot.prepend(forecasts);
  const update = () => {
    for (const [i, path] of paths) {
      shown[i] = passes(study, i);
      path.classList.toggle("off", !shown[i]);
    }
    forecasts.replaceChildren();
    if (!bands) return;
    const holder = { ...chart, plot: forecasts };
    Object.setPrototypeOf(holder, Chart.prototype);
    for (const { trial } of study.predicted) {
      const path = ahead(study, trial - 1);
      if (path && path.length > 1 && shown[trial - 1]) {
        drawForecast(holder, path, trial - 1 === study.leader ? "leader" : "paused");
      }
    }
  };
  chart.onNear(nearestCurve(chart, study, points, shown));
  update();
  return update;
}
