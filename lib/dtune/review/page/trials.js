// 4. All trials in a table, and a page for each with every decision about it.

function trialLink(i) {
  return html("a", { href: `#trial-${i + 1}` }, `trial ${i + 1}`);
}

function stateChip(study, i) {
  return html("span", { class: `chip ${study.fate(i)}` }, study.stateText(i));
}

function tableColumns(study) {
  const { trials } = study;
  const columns = [
    { title: "trial", number: true, of: (i) => i + 1, cell: (i) => html("a", { href: `#trial-${i + 1}` }, String(i + 1)) },
    { title: "state", of: (i) => study.stateText(i), cell: (i) => stateChip(study, i) },
    { title: study.metric, number: true, of: (i) => trials.best[i] },
    { title: "step", number: true, of: (i) => trials.steps[i] },
  ];
  study.parameters.forEach((parameter, k) => columns.push({
    title: parameter.name, number: parameter.kind !== "choice", of: (i) => trials.values[k][i], digits: 3,
  }));
  columns.push(
    { title: "training", number: true, of: (i) => trials.seconds[i], text: secondsText },
    { title: "why it ended", of: (i) => [study.reason(i), trials.detail[i]].filter(Boolean).join(": "), wide: true });
  return columns;
}

// Those without a value come last in either direction.
function compareCells(a, b, direction) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === typeof b) return (a < b ? -1 : a > b ? 1 : 0) * direction;
  return String(a) < String(b) ? -direction : direction;
}

function tableRow(study, columns, i) {
  const row = html("tr", { class: i === study.leader ? "leader" : null });
  for (const column of columns) {
    const value = column.of(i);
    row.append(html("td", { class: column.wide ? "wide" : column.number ? "number" : null },
      column.cell ? column.cell(i) : column.text ? column.text(value) : numberText(value, column.digits)));
  }
  row.addEventListener("click", (event) => {
    if (event.target.tagName !== "A" && getSelection().isCollapsed) openTrial(i);
  });
  return row;
}

function drawTrials(body, study) {
  const columns = tableColumns(study);
  const order = { column: 2, direction: study.maximize ? -1 : 1, most: 50 };
  const head = html("tr"), rows = html("tbody"), count = html("p", { class: "dim" });
  const more = html("button", { type: "button" }, "show more");
  const update = () => {
    const sorted = study.search.filter((i) => passes(study, i))
      .sort((a, b) => compareCells(columns[order.column].of(a), columns[order.column].of(b), order.direction) || a - b);
    rows.replaceChildren(...sorted.slice(0, order.most).map((i) => tableRow(study, columns, i)));
    const shown = Math.min(order.most, sorted.length);
    count.textContent = `${countText(shown)} of ${plural(sorted.length, "trial")}` +
      (sorted.length < study.search.length ? ` that pass the filter, of ${countText(study.search.length)}` : "");
    more.hidden = shown === sorted.length;
    columns.forEach((column, k) => head.children[k].setAttribute("aria-sort",
      k !== order.column ? "none" : order.direction > 0 ? "ascending" : "descending"));
  };
  columns.forEach((column, k) => head.append(html("th", { scope: "col", class: column.number ? "number" : null },
    html("button", {
      type: "button", onclick: () => {
        order.direction = order.column === k ? -order.direction : 1;
        order.column = k;
        update();
      },
    }, column.title))));
  more.addEventListener("click", () => {
    order.most *= 4;
    update();
  });
  body.append(html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of trials" },
    html("table", {}, html("thead", {}, head), rows)), count, more);
  update();
  return update;
}

const dialog = html("dialog", { "aria-label": "A trial" });
let opened = -1;

function openTrial(i) {
  const hash = `#trial-${i + 1}`;
  if (location.hash === hash) showTrial(i);
  else location.hash = hash;
}

function closeTrial() {
  opened = -1;
  history.replaceState(null, "", location.pathname + location.search);
}

function pointTable(study, i) {
  return html("dl", { class: "point" }, study.parameters.map((parameter, k) =>
    study.trials.values[k][i] === null ? null
      : html("div", {}, html("dt", {}, parameter.name), html("dd", {}, numberText(study.trials.values[k][i])))));
}

function decisionRows(study, i) {
  const all = study.decisions, rows = [];
  all.trial.forEach((trial, k) => {
    if (trial !== i + 1) return;
    rows.push(html("tr", {},
      html("td", { class: "number" }, String(k + 1)), html("td", { class: "number" }, secondsText(all.seconds[k])),
      html("td", {}, all.action[k], all.target[k] > all.step[k] ? ` to step ${all.target[k]}` : ""),
      html("td", { class: "number" }, String(all.step[k])),
      html("td", { class: "wide" }, all.why[k],
        all.best[k] ? html("span", { class: "dim" }, ` (best then: ${numberText(all.best_value[k])} of trial ${all.best[k]})`) : null)));
  });
  return rows;
}

function eventRows(study, i) {
  const all = study.events, rows = [];
  all.trial.forEach((trial, k) => {
    if (trial !== i + 1) return;
    rows.push(html("tr", {}, html("td", { class: "number" }, secondsText(all.at[k] / 1000)),
      html("td", {}, study.words.states[all.state[k]].replace("_", " ")),
      html("td", { class: "wide" }, study.words.reasons[all.reason[k]].replaceAll("_", " "),
        all.detail[k] ? `: ${all.detail[k]}` : "")));
  });
  return rows;
}

function smallTable(titles, rows) {
  return html("div", { class: "scroll" }, html("table", {},
    html("thead", {}, html("tr", {}, titles.map((title) => html("th", { scope: "col" }, title)))),
    html("tbody", {}, rows)));
}

function showTrial(i) {
  const study = current();
  if (i < 0 || i >= study.count) return;
  opened = i;
  const go = (to) => html("button", { type: "button", disabled: to < 0 || to >= study.count, onclick: () => openTrial(to) },
    to < i ? "← previous" : "next →");
  const holder = html("div", { class: "holder" });
  dialog.replaceChildren(
    html("header", {}, html("h2", {}, `Trial ${i + 1} `, stateChip(study, i)), go(i - 1), go(i + 1),
      html("button", { type: "button", onclick: () => dialog.close() }, "close")),
    html("p", {}, [study.reason(i), study.trials.detail[i]].filter(Boolean).join(": ")),
    pointTable(study, i), holder,
    html("h3", {}, "Why was it trained and left as it was?"),
    smallTable(["decision", "at", "what", "step", "why"], decisionRows(study, i)),
    html("h3", {}, "What happened to it?"), smallTable(["at", "state", "why"], eventRows(study, i)));
  if (!dialog.open) dialog.showModal();
  if (study.curves[i].length) {
    const forecast = study.forecast(i);
    const chart = curveChart(holder, study, [i], true);
    if (forecast) drawForecast(chart, forecast, study.fate(i));
    chart.plot.append(svg("g", { class: `curves ${study.fate(i)}` },
      svg("path", { class: "curve single", d: chart.line(study.curve(i)) })));
  }
}

dialog.addEventListener("close", closeTrial);
dialog.addEventListener("keydown", (event) => {
  if (event.key === "ArrowLeft") openTrial(Math.max(0, opened - 1));
  if (event.key === "ArrowRight") openTrial(Math.min(current().count - 1, opened + 1));
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
