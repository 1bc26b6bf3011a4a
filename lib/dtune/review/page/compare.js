// 10. Several studies side by side.

function comparisonChart(holder, studies, axis) {
  const ends = studies.flatMap((study) => study.progress.map((entry) => entry[axis])
    .concat([axis === 0 ? study.spent.steps : study.seconds]));
  const values = studies.flatMap((study) => study.progress.map((entry) => entry[3]));
  if (!values.length) return;
  const [low, high] = studies[0].robustRange(values);
  const chart = new Chart(holder, {
    x: { low: 0, high: Math.max(1e-9, extent(ends)[1]), label: axis === 0 ? "steps of training" : "seconds of searching" },
    y: { low, high }, height: 260, text: "best so far of each study",
  });
  studies.forEach((study, k) => {
    const points = study.progress.map((entry) => [entry[axis], entry[3]]);
    if (!points.length) return;
    const end = axis === 0 ? study.spent.steps : study.seconds;
    points.push([Math.max(end, points[points.length - 1][0]), points[points.length - 1][1]]);
    chart.plot.append(svg("path", { class: `best series${k % 6}`, d: chart.stairs(points) }));
  });
}

// Steps after which a study was as good as the worst of all bests.
function stepsTo(study, target) {
  const reached = study.progress.find((entry) => entry[3] === target || study.better(entry[3], target));
  return reached ? reached[0] : null;
}

function differenceText(base, study) {
  const a = base.verdict.best?.value, b = study.verdict.best?.value;
  if (a === undefined || b === undefined) return "";
  const noise = Math.hypot(base.noise || 0, study.noise || 0);
  const difference = b - a, words = `${difference > 0 ? "+" : ""}${numberText(difference, 3) || "0"}`;
  if (!noise) return `${words} (noise not known)`;
  const larger = Math.abs(difference) > 2 * noise;
  return `${words}, ${larger ? "larger than" : "within"} the noise of steps (2 × ${numberText(noise, 2)})`;
}

function drawComparison(body, studies) {
  const base = studies[0];
  const same = studies.every((study) => study.metric === base.metric && study.goal === base.goal);
  if (!same) body.append(html("p", {}, "The studies have different objectives: their values are not comparable."));
  const bests = studies.map((study) => study.verdict.best?.value).filter((value) => value !== undefined);
  const target = bests.length ? (base.maximize ? Math.min(...bests) : Math.max(...bests)) : null;
  const rows = studies.map((study, k) => html("tr", {},
    html("th", { scope: "row" }, html("span", { class: `swatch series${k % 6}` }), study.database),
    html("td", { class: "number" }, numberText(study.verdict.best?.value)),
    html("td", {}, k === 0 ? "(base)" : same ? differenceText(base, study) : ""),
    html("td", { class: "number" }, countText(study.search.length)),
    html("td", { class: "number" }, countText(study.spent.steps)),
    html("td", { class: "number" }, target === null || !same ? "" : numberText(stepsTo(study, target))),
    html("td", { class: "number" }, secondsText(study.seconds)),
    html("td", { class: "wide" }, html("code", {}, study.verdict.best?.point || ""))));
  body.append(html("div", { class: "scroll" }, html("table", {}, html("thead", {}, html("tr", {},
    ["study", base.metric, "difference", "trials", "steps",
      target === null ? "" : `steps to ${numberText(target)}`, "time", "best point"].map((title) => html("th", { scope: "col" }, title)))),
    html("tbody", {}, rows))));
  if (!same) return;
  const left = html("div", { class: "holder" }), right = html("div", { class: "holder" });
  body.append(html("div", { class: "two" }, left, right));
  comparisonChart(left, studies, 0);
  comparisonChart(right, studies, 1);
}
