// 7. Slots over time: which trial trained when, and how each turn ended.

function turnKind(study, turn) {
  const [, , , , state, resumed] = turn;
  const fate = FATE_OF[study.words.states[state]];
  if (fate === "failed" || fate === "cut" || fate === "complete") return fate;
  if (study.words.states[state] === "running") return "running";
  return resumed ? "resumed" : "paused";
}

const TURN_WORDS = {
  paused: "first steps, then paused", resumed: "resumed, then paused", complete: "to the end",
  cut: "then cut", failed: "then failed or lost", running: "going on",
};

function drawSlots(body, study) {
  const { turns } = study;
  if (!turns.length) return void body.append(html("p", {}, "No trial has been in a slot yet."));
  const lanes = 1 + Math.max(...extent(turns.map((turn) => turn[1])));
  const [start] = extent(turns.map((turn) => turn[2])), [, end] = extent(turns.map((turn) => turn[3]));
  const lane = Math.max(6, Math.min(22, 400 / lanes));
  const holder = html("div", { class: "holder" });
  body.append(legend(Object.entries(TURN_WORDS).map(([kind, words]) => [kind, words])), holder);
  const scale = end - start < 120e3 ? [1e3, "seconds"] : end - start < 7200e3 ? [60e3, "minutes"] : [3600e3, "hours"];
  const chart = new Chart(holder, {
    x: { low: 0, high: (end - start) / scale[0] || 1, label: `${scale[1]} since the first trial began` },
    y: { low: 0, high: lanes, ticks: [] }, height: lanes * lane + 56, left: 14,
    text: `${plural(lanes, "slot")} over time`,
  });
  const draw = () => {
    chart.plot.replaceChildren();
    const paths = {};
    for (const turn of turns) {
      const [trial, at, from, to] = turn;
      if (!passes(study, trial - 1)) continue;
      const kind = turnKind(study, turn);
      const x = chart.px((from - start) / scale[0]), width = Math.max(0.7, chart.px((to - start) / scale[0]) - x - 0.4);
      const y = chart.py(lanes - at) + 1;
      paths[kind] = (paths[kind] || "") + `M${x.toFixed(1)},${y.toFixed(1)}h${width.toFixed(1)}v${(lane - 2).toFixed(1)}h${(-width).toFixed(1)}z`;
    }
    for (const [kind, path] of Object.entries(paths)) chart.plot.append(svg("path", { class: `turn ${kind}`, d: path }));
  };
  draw();
  chart.onNear((x, y) => {
    const time = start + (x - chart.left) / chart.innerWidth() * (end - start);
    const at = Math.floor((y - chart.top) / chart.innerHeight() * lanes);
    const found = turns.find((turn) => turn[1] === at && turn[2] <= time && turn[3] >= time);
    if (!found) return null;
    const i = found[0] - 1;
    return { open: i, text: `trial ${i + 1}: ${TURN_WORDS[turnKind(study, found)]}\n${secondsText((found[3] - found[2]) / 1000)} ${study.lanes[at]}` };
  });
  let busy = 0;
  for (const [, , from, to] of turns) busy += to - from;
  const share = Math.round(100 * busy / Math.max(1, lanes * (end - start)));
  body.append(html("p", {}, `${plural(lanes, "slot")} trained for ${share}% of the time from the first trial's beginning to the last one's end.`));
  return draw;
}
