// 8. Which predictors the tuner went by, and whether its forecasts were right.

function drawTrust(body, study) {
  const { names, points } = study.trust;
  if (!points.length && !study.forecasts.length) {
    return void body.append(html("p", {}, "This tuner predicts nothing, or the study was run by a dtune that did not record what it went by."));
  }
  const left = html("div", { class: "holder" }), right = html("div", { class: "holder" });
  body.append(html("div", { class: "two" }, left, right));
  if (points.length) trustChart(left, study, names, points);
  return study.forecasts.length ? calibrationChart(right, study) : undefined;
}

function trustChart(holder, study, names, points) {
  holder.append(html("p", { class: "dim unit" }, "weight of each predictor"),
    legend(names.map((name, k) => [`series${k % 6}`, name])));
  const end = Math.max(points[points.length - 1][0], study.decisions.trial.length, 1);
  const chart = new Chart(holder, {
    x: { low: 0, high: end, label: "decisions" }, y: { low: 0, high: 1 }, height: 240,
    text: `weights of ${names.join(", ")} over decisions`,
  });
  names.forEach((name, k) => {
    const line = points.map((point) => [point[0], point[k + 2]]);
    line.push([end, line[line.length - 1][1]]);
    chart.plot.append(svg("path", { class: `best series${k % 6}`, d: chart.stairs(line) }));
  });
  chart.onNear((x) => {
    const at = cheapest(points.length, (n) => Math.abs(chart.px(points[n][0]) - x));
    const point = points[at];
    return { text: `decision ${point[0]}, ${secondsText(point[1])}\n${names.map((name, k) => `${name} ${Math.round(100 * point[k + 2])}%`).join("\n")}` };
  });
}

function calibrationChart(holder, study) {
  const all = study.forecasts;
  const [low, high] = study.robustRange(all.flatMap((f) => [f[3], f[6]]));
  const inside = all.filter((f) => f[6] >= f[4] && f[6] <= f[5]).length;
  let error = 0;
  for (const f of all) error += (f[6] - f[3]) / all.length;
  holder.append(html("p", { class: "dim unit" }, `${study.metric} as it was seen, against its forecast when the training was decided`));
  const chart = new Chart(holder, {
    x: { low, high, label: "forecast" }, y: { low, high }, height: 264, text: "observed against predicted values",
  });
  chart.plot.append(svg("path", { class: "forecast", d: chart.line([[low, low], [high, high]]) }));
  const path = svg("path", { class: `dots inside${all.length > 300 ? " many" : ""}` });
  const missed = svg("path", { class: `dots failed${all.length > 300 ? " many" : ""}` });
  chart.plot.append(path, missed);
  holder.append(
    legend([["inside", "within its 90% band"], ["failed", "outside"]]),
    html("p", {}, `${countText(inside)} of ${plural(all.length, "forecast")} (${Math.round(100 * inside / all.length)}%) held what was then seen; ` +
      `a calibrated tuner has 90%. What was seen is ${numberText(Math.abs(error), 2)} ${error < 0 ? "below" : "above"} the forecast on average.`));
  let shown = [];
  chart.onNear((x, y) => {
    const at = cheapest(shown.length, (n) => Math.hypot(chart.px(shown[n][3]) - x, chart.py(shown[n][6]) - y));
    if (at < 0) return null;
    const [trial, step, steps, mean, from, to, seen] = shown[at];
    return { open: trial - 1, text: `trial ${trial}, step ${step} (${plural(steps, "step")} ahead)\n` +
      `forecast ${numberText(mean)} (${numberText(from)} to ${numberText(to)})\nseen ${numberText(seen)}` };
  });
  const update = () => {
    shown = all.filter((f) => passes(study, f[0] - 1));
    const held = (f) => f[6] >= f[4] && f[6] <= f[5];
    path.setAttribute("d", chart.dots(shown.filter(held).map((f) => [f[3], f[6]])));
    missed.setAttribute("d", chart.dots(shown.filter((f) => !held(f)).map((f) => [f[3], f[6]])));
  };
  update();
  return update;
}
