// 6. What each parameter does: importance, mean effects, pairs.

function importanceBars(study) {
  const { parameters, together, trials, failures } = study.importance;
  const bar = (name, share, deviation, best) => html("tr", {},
    html("th", { scope: "row" }, name),
    html("td", { class: "bar" }, svg("svg", { viewBox: "0 0 200 16", role: "img", "aria-label": `${Math.round(share * 100)}%` },
      svg("rect", { class: "bar", x: 0, y: 2, width: 200 * share, height: 12 }),
      deviation === null ? null : svg("path", {
        class: "whisker", d: `M${200 * Math.max(0, share - deviation)},8H${200 * Math.min(1, share + deviation)}`,
      }))),
    html("td", { class: "number" }, `${Math.round(share * 100)}%`,
      deviation === null ? "" : html("span", { class: "dim" }, ` ± ${Math.round(deviation * 100)}`)),
    html("td", {}, best));
  return html("div", {},
    html("table", { class: "importance" }, html("tbody", {},
      parameters.map((p) => bar(p.name, p.share, p.deviation, p.best === null ? "" : `best near ${numberText(p.best, 3)}`)),
      bar("several together", together, null, ""))),
    html("p", { class: "dim" }, `Shares of the variance of the results of ${plural(trials, "trial")} at the end of training, ` +
      `functional ANOVA over a random forest; ± is one standard deviation over its trees` +
      (failures ? `; ${plural(failures, "trial")} that broke count as the worst.` : ".")));
}

function sliceChart(holder, study, k) {
  const parameter = study.parameters[k];
  const effect = study.importance?.parameters.find((p) => p.name === parameter.name)?.effect;
  const [low, high] = study.metricRange();
  const chart = new Chart(holder, {
    x: { low: 0, high: 1, label: parameter.name, ticks: parameterTicks(parameter, Math.max(2, holder.clientWidth / 80)) },
    y: { low, high }, height: 200,
    text: `${study.metric} against ${parameter.name}`,
  });
  if (effect) {
    const at = effect.map(([mean, deviation], place) => [place / (effect.length - 1), mean - deviation, mean + deviation, mean]);
    chart.plot.append(
      svg("path", { class: "band effect", d: chart.band(at) }),
      svg("path", { class: "effect", d: chart.line(at.map(([x, , , mean]) => [x, mean])) }));
  }
  const groups = FATES.map((fate) => {
    const path = svg("path", { class: `dots ${fate}${study.search.length > 300 ? " many" : ""}` });
    chart.plot.append(path);
    return [fate, path];
  });
  let shown = [];
  const place = (i) => [study.trials.units[k][i], Math.min(high, Math.max(low, study.trials.best[i]))];
  chart.onNear((x, y) => {
    const at = cheapest(shown.length, (n) => Math.hypot(chart.px(place(shown[n])[0]) - x, chart.py(place(shown[n])[1]) - y));
    if (at < 0) return null;
    const i = shown[at];
    return { open: i, text: `trial ${i + 1}, ${study.stateText(i)}\n${study.metric} ${numberText(study.trials.best[i])}\n${study.point(i)}` };
  });
  return () => {
    shown = study.search.filter((i) => study.trials.units[k][i] !== null && study.trials.best[i] !== null && passes(study, i));
    for (const [fate, path] of groups) {
      path.setAttribute("d", chart.dots(shown.filter((i) => study.fate(i) === fate).map(place)));
    }
  };
}

function pairMap(holder, study, pair) {
  const places = Math.sqrt(pair.values.length);
  const find = (name) => study.parameters.find((p) => p.name === name);
  const first = find(pair.first), second = find(pair.second);
  const chart = new Chart(holder, {
    x: { low: 0, high: 1, label: second.name, ticks: parameterTicks(second, 3) },
    y: { low: 0, high: 1, ticks: parameterTicks(first, 4).map(([at, text]) => [at, shortened(text, 7)]) },
    height: 230, text: `mean ${study.metric} over ${first.name} and ${second.name}`,
  });
  const [low, high] = extent(pair.values) || [0, 1];
  const width = chart.innerWidth() / places + 0.5, height = chart.innerHeight() / places + 0.5;
  pair.values.forEach((value, n) => {
    const row = Math.floor(n / places), column = n % places;
    const part = (value - low) / (high - low || 1);
    const cell = svg("rect", {
      class: "cell", x: chart.px(column / places), y: chart.py((row + 1) / places), width, height,
    });
    cell.style.setProperty("--part", `${Math.round(100 * (study.maximize ? part : 1 - part))}%`);
    chart.plot.append(cell);
  });
  const i = study.leader, units = study.trials.units;
  if (i >= 0) {
    const x = units[study.parameters.indexOf(second)][i], y = units[study.parameters.indexOf(first)][i];
    if (x !== null && y !== null) chart.plot.append(svg("circle", { class: "mark", cx: chart.px(x), cy: chart.py(y), r: 5 }));
  }
  chart.onNear((x, y) => {
    const column = Math.floor((x - chart.left) / chart.innerWidth() * places);
    const row = Math.floor((chart.height - chart.bottom - y) / chart.innerHeight() * places);
    if (column < 0 || row < 0 || column >= places || row >= places) return null;
    const at = (n) => (n + 0.5) / places;
    return { text: `${first.name} ${valueText(first, at(row))}, ${second.name} ${valueText(second, at(column))}\n` +
      `mean ${study.metric} ${numberText(pair.values[row * places + column])}` };
  });
}

function drawImportance(body, study) {
  if (study.importance) body.append(importanceBars(study));
  else body.append(html("p", {}, "Too few trials with different results to tell (at least 8)."));
  if (!study.parameters.length) return;
  body.append(html("h3", {}, "Slices: each trial's best, and the mean effect with its deviation"),
    html("p", { class: "dim unit" }, study.metric));
  const slices = html("div", { class: "slices" });
  body.append(slices);
  const holders = study.parameters.map(() => html("div", { class: "holder" }));
  slices.append(...holders);
  const updates = holders.map((holder, k) => sliceChart(holder, study, k));
  const update = () => updates.forEach((one) => one());
  update();
  drawPairs(body, study);
  return update;
}

function drawPairs(body, study) {
  const pairs = study.importance?.pairs || [];
  if (!pairs.length) return;
  const maps = html("div", { class: "slices" });
  body.append(html("h3", {}, "Pairs: the mean of the forest over all other parameters"),
    html("p", { class: "dim" }, "The stronger the colour, the better; the ring is the best trial. " +
      "The first parameter of each is on the vertical axis."), maps);
  const holders = pairs.map((pair) => html("div", { class: "holder" },
    html("p", { class: "dim unit" }, pair.first)));
  maps.append(...holders);
  holders.forEach((holder, k) => pairMap(holder, study, pairs[k]));
}
