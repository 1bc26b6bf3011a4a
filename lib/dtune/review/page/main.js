// The page: its head, the filter, the views, and when they are drawn.

let studies = JSON.parse(document.getElementById("data").textContent).map((data) => new Study(data));
let chosen = 0;

function current() {
  return studies[chosen];
}

const VIEWS = [
  ["verdict", "What came out, and can it be trusted?", drawVerdict],
  ["curves", "Who learns how?", drawCurves],
  ["progress", "Is it still improving?", drawProgress],
  ["trials", "What was tried, and why did it end?", drawTrials],
  ["parallel", "What do the good ones share?", drawParallel],
  ["importance", "Which parameters matter, and where are they best?", drawImportance],
  ["slots", "Were the slots busy?", drawSlots],
  ["trust", "Which predictor was relied on, and were the forecasts right?", drawTrust],
  ["ranks", "Which rank was slow?", drawRanks],
];

let updates = [];

function refresh() {
  for (const update of updates) update();
  drawFilter();
}

function setBrush(key, range) {
  if (range) filter.brushes.set(key, range);
  else filter.brushes.delete(key);
  refresh();
}

function clearFilter() {
  filter.hidden.clear();
  filter.brushes.clear();
  filter.text = search.value = "";
  refresh();
}

const chips = html("div", { class: "chips", role: "group", "aria-label": "Show trials that are" });
const search = html("input", { type: "search", placeholder: "filter: trial, state, words (key /)", "aria-label": "Filter trials" });
search.addEventListener("input", () => {
  filter.text = search.value.trim().toLowerCase();
  refresh();
});

function fateButton(study, fate, count) {
  return html("button", {
    type: "button", class: `chip ${fate}`, "aria-pressed": String(!filter.hidden.has(fate)),
    onclick: () => {
      if (!filter.hidden.delete(fate)) filter.hidden.add(fate);
      refresh();
      chips.querySelector(`.${fate}`)?.focus();
    },
  }, `${countText(count)} ${fate}`);
}

function drawFilter() {
  const study = current(), counts = {};
  for (const i of study.search) counts[study.fate(i)] = (counts[study.fate(i)] || 0) + 1;
  chips.replaceChildren(...[...FATES].reverse().filter((fate) => counts[fate]).map((fate) => fateButton(study, fate, counts[fate])));
  for (const [key, range] of filter.brushes) {
    chips.append(html("button", { type: "button", class: "chip brushed", title: "Remove", onclick: () => setBrush(key, null) },
      `${brushText(study, key, range)} ×`));
  }
  if (filter.hidden.size || filter.brushes.size || filter.text) {
    chips.append(html("button", { type: "button", class: "chip", onclick: clearFilter }, "show all"));
  }
}

function themeButton() {
  const themes = ["auto", "light", "dark"];
  const button = html("button", { type: "button", class: "small theme" }, "theme: auto");
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(document.documentElement.dataset.theme || "auto") + 1) % themes.length];
    document.documentElement.dataset.theme = next;
    button.textContent = `theme: ${next}`;
  });
  return button;
}

function studyTabs() {
  if (studies.length < 2) return null;
  return html("div", { class: "tabs", role: "group", "aria-label": "Study" }, studies.map((study, k) =>
    html("button", {
      type: "button", "aria-pressed": String(k === chosen), onclick: () => {
        chosen = k;
        filter.brushes.clear();
        draw();
      },
    }, study.database)));
}

function head() {
  const study = current();
  const read = new Date(study.now_ms).toISOString().slice(0, 16).replace("T", " ");
  return html("header", { class: "head" },
    html("h1", {}, study.name),
    html("p", { class: "dim" }, `${study.state} · ${study.goal} ${study.metric} · ${study.database} · read ${read} UTC`),
    themeButton());
}

// A view that fails must not take the others with it; the console says why.
function drawView(body, question, make) {
  try {
    return make();
  } catch (error) {
    console.error(question, error);
    body.append(html("p", {}, `This view could not be drawn: ${error.message}`));
    return undefined;
  }
}

function addView(main, id, question, make) {
  const body = html("div");
  main.append(html("section", { id }, html("h2", {}, question), body));
  const update = drawView(body, question, () => make(body));
  if (update) updates.push(update);
}

// The first views are drawn at once, the others one by one: a page of many
// trials is there before it is complete.
let drawing = 0;

function draw(then = followHash) {
  const study = current(), turn = ++drawing;
  updates = [];
  const main = html("main");
  document.body.replaceChildren(head(), studyTabs() || "",
    html("nav", { class: "filter", "aria-label": "Filter" }, chips, search), main, dialog, tip);
  drawFilter();
  const views = VIEWS.map(([id, question, make]) => () => addView(main, id, question, (body) => make(body, study)));
  if (studies.length > 1) {
    views.push(() => addView(main, "comparison", "Which study is better, and by more than noise?",
      (body) => drawComparison(body, studies)));
  }
  const next = (k) => {
    if (turn !== drawing) return;
    if (k === views.length) {
      document.documentElement.dataset.drawn = "yes";
      return then();
    }
    views[k]();
    setTimeout(next, 0, k + 1);
  };
  next(0);
}

function followHash() {
  const found = /^#trial-(\d+)$/.exec(location.hash);
  if (found) showTrial(Number(found[1]) - 1);
  else if (dialog.open) dialog.close();
}

// A page of `dtune serve` follows its study: the server says when it changed.
// While a trial's page is open it waits.
function follow() {
  if (!location.protocol.startsWith("http")) return;
  const base = location.pathname.replace(/\/$/, "");
  let due = false;
  const reload = async () => {
    if (dialog.open || !due) return;
    due = false;
    const answer = await fetch(`${base}/data`);
    if (!answer.ok) return;
    studies = (await answer.json()).map((data) => new Study(data));
    const { scrollY } = window;
    draw(() => window.scrollTo(0, scrollY));
  };
  new EventSource(`${base}/events`).addEventListener("message", () => {
    due = true;
    reload();
  });
  dialog.addEventListener("close", reload);
}

document.addEventListener("keydown", (event) => {
  if (event.target.tagName === "INPUT" || dialog.open) return;
  if (event.key === "/") {
    search.focus();
    event.preventDefault();
  } else if (event.key === "Escape") clearFilter();
});
window.addEventListener("hashchange", followHash);
let width = window.innerWidth, resized = 0;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  clearTimeout(resized);
  resized = setTimeout(() => {
    width = window.innerWidth;
    draw();
  }, 200);
});
draw();
follow();
