// 9. What the ranks of a trial did: a row for each rank, a column for each
// recorded round.

const RANK_MEASURES = [
  ["speed", "speed (samples a second)", (v) => `${numberText(v, 3)} samples/s`],
  ["share", "share of the batch", (v) => `${Math.round(100 * v)}% of the batch`],
  ["wait", "time spent waiting", (v) => `${Math.round(100 * v)}% waiting`],
  ["late", "rounds that went on without it", (v) => `late in ${plural(v, "round")}`],
];

function rankMap(holder, history, [key, , text]) {
  const rows = history.nodes.length, columns = history.rounds.length;
  const chart = new Chart(holder, {
    x: { low: 0, high: columns, label: "recorded rounds", ticks: roundTicks(history.rounds, holder.clientWidth / 90) },
    y: { low: 0, high: rows, ticks: history.nodes.map((node, rank) => [rows - rank - 0.5, `rank ${rank}`]) },
    height: rows * 26 + 56, text: `${key} of ${plural(rows, "rank")}`,
  });
  const [low, high] = extent(history[key].flat()) || [0, 1];
  history[key].forEach((row, rank) => row.forEach((value, column) => {
    const cell = svg("rect", {
      class: value === null ? "cell absent" : "cell", x: chart.px(column) + 0.5, y: chart.py(rows - rank) + 1,
      width: chart.innerWidth() / columns - 1, height: chart.innerHeight() / rows - 2,
    });
    if (value !== null) cell.style.setProperty("--part", `${Math.round(100 * (value - low) / (high - low || 1))}%`);
    chart.plot.append(cell);
  }));
  chart.onNear((x, y) => {
    const column = Math.floor((x - chart.left) / chart.innerWidth() * columns);
    const rank = Math.floor((y - chart.top) / chart.innerHeight() * rows);
    if (column < 0 || column >= columns || rank < 0 || rank >= rows) return null;
    const value = history[key][rank][column];
    return { text: `rank ${rank} on ${history.nodes[rank] || "this machine"}, up to round ${countText(history.rounds[column])}\n` +
      `${value === null ? "not there" : text(value)}` };
  });
}

function roundTicks(rounds, wanted) {
  const stride = Math.max(1, Math.ceil(rounds.length / Math.max(2, wanted)));
  return rounds.map((round, k) => [k + 0.5, countText(round)]).filter((_, k) => k % stride === 0);
}

function drawRanks(body, study) {
  if (!study.ranks.length) {
    return void body.append(html("p", {}, "Each trial of this study was trained by one process, or nothing was recorded of its ranks."));
  }
  const which = html("select", { "aria-label": "Trial" }, study.ranks.map((history, k) =>
    html("option", { value: k }, `trial ${history.trial}, attempt ${history.attempt}`)));
  const what = html("select", { "aria-label": "Measure" }, RANK_MEASURES.map(([, words], k) => html("option", { value: k }, words)));
  const holder = html("div", { class: "holder" });
  body.append(html("p", { class: "choices" }, which, what), holder,
    html("p", { class: "dim" }, "The stronger the colour, the larger the value; a gap: the rank was not there."));
  const draw = () => {
    holder.replaceChildren();
    rankMap(holder, study.ranks[Number(which.value)], RANK_MEASURES[Number(what.value)]);
  };
  which.addEventListener("change", draw);
  what.addEventListener("change", draw);
  draw();
}
