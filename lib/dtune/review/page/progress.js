// 3. The best so far, over steps and over time, and what more would bring.

function progressChart(holder, study, axis) {
  const total = axis === 0 ? study.spent.steps : study.seconds;
  const pace = study.spent.steps ? study.seconds / study.spent.steps : 0;
  const scale = axis === 0 ? 1 : pace;
  const outlook = study.outlook.map(([steps, mean, low, high]) => [total + steps * scale, mean, low, high]);
  const points = study.progress.map((entry) => [entry[axis], entry[3]]);
  if (!points.length) return;
  const last = points[points.length - 1];
  const values = points.map(([, value]) => value);
  const [low, high] = study.robustRange(values.concat(outlook.flatMap(([, , l, h]) => [l, h])));
  const end = outlook.length ? outlook[outlook.length - 1][0] : total;
  const chart = new Chart(holder, {
    x: { low: 0, high: Math.max(end, last[0], 1e-9), label: axis === 0 ? "steps of training" : "seconds of searching" },
    y: { low, high }, height: 240,
    text: `best ${study.metric} so far, ending at ${numberText(last[1])}`,
  });
  if (outlook.length > 1) {
    chart.plot.append(
      svg("path", { class: "band leader", d: chart.band(outlook.map(([x, , l, h]) => [x, l, h])) }),
      svg("path", { class: "forecast leader", d: chart.line(outlook.map(([x, m]) => [x, m])) }));
  }
  chart.plot.append(
    svg("path", { class: "best", d: chart.stairs(points.concat([[Math.max(total, last[0]), last[1]]])) }),
    svg("path", { class: "dots best", d: chart.dots(points) }));
  chart.onNear((x, y) => {
    const at = cheapest(points.length, (k) => Math.hypot(chart.px(points[k][0]) - x, chart.py(points[k][1]) - y));
    if (at < 0 || Math.abs(chart.px(points[at][0]) - x) > 30) return null;
    const [steps, seconds, trial, value] = study.progress[at];
    return {
      open: trial - 1,
      text: `trial ${trial}: ${study.metric} ${numberText(value)}\nafter ${plural(steps, "step")}, ${secondsText(seconds)}`,
    };
  });
}

function drawProgress(body, study) {
  if (!study.progress.length) return void body.append(html("p", {}, "There is no best yet."));
  const left = html("div", { class: "holder" }), right = html("div", { class: "holder" });
  body.append(html("p", { class: "dim unit" }, `best ${study.metric}`),
    html("div", { class: "two" }, left, right));
  progressChart(left, study, 0);
  progressChart(right, study, 1);
  body.append(html("p", {}, outlookText(study)));
}

function outlookText(study) {
  const { outlook } = study;
  const since = study.spent.steps - study.progress[study.progress.length - 1][0];
  const still = since > 0
    ? `The last ${plural(since, "step")} of ${countText(study.spent.steps)} brought nothing better.`
    : "The very last step brought the best.";
  if (outlook.length < 2) return still;
  const [steps, mean, low, high] = outlook[outlook.length - 1];
  return `${still} Training the ${plural(outlook.length - 1, "open trial")} to the end would take ` +
    `${plural(steps, "step")} and is expected to bring the best to ${numberText(mean)} ` +
    `(80%: ${numberText(low)} to ${numberText(high)}), by the tuner's forecasts taken as independent; new points are not counted.`;
}
