// 1. What came out, and what to be careful about.

function metricList(title, metrics) {
  const names = Object.keys(metrics);
  if (!names.length) return null;
  return html("div", { class: "figure" },
    html("dt", {}, title),
    html("dd", {}, names.map((name) => html("span", { class: "metric" },
      html("b", {}, numberText(metrics[name])), ` ${name}`))));
}

function figure(title, ...content) {
  return html("div", { class: "figure" }, html("dt", {}, title), html("dd", {}, content));
}

function bestFigure(study) {
  const { best } = study.verdict;
  if (!best) return figure("Best", sentence(study.verdict.why_no_best));
  return figure("Best",
    html("span", { class: "big" }, numberText(best.value)), ` ${study.metric}`,
    html("div", { class: "dim" }, trialLink(best.trial - 1), `, step ${best.step}`,
      study.horizon ? ` of ${study.horizon}` : ""),
    html("code", {}, best.point));
}

function spentFigure(study) {
  const limit = (value, text) => value === null ? "" : ` of ${text(value)}`;
  const { budget } = study;
  return figure("Spent",
    html("div", {}, plural(study.spent.trials, "trial"), limit(budget.trials, countText)),
    html("div", {}, plural(study.spent.steps, "step"), limit(budget.steps, countText)),
    html("div", {}, secondsText(study.seconds), limit(budget.seconds, secondsText), " of searching"));
}

function expectationList(study) {
  const { expected } = study.verdict;
  if (!expected.length) return null;
  return html("ul", { class: "expected" }, expected.map((one) =>
    html("li", { class: one.outcome }, html("b", {}, one.outcome), ` ${one.text}`)));
}

function problemList(study) {
  const { problems } = study.verdict;
  if (!problems.length) {
    return html("p", { class: "fine" }, "Nothing stands out that would put the result in doubt.");
  }
  return html("ul", { class: "problems" }, problems.map((problem) =>
    html("li", {}, problem.what, problem.remedy ? html("span", { class: "dim" }, ` ${problem.remedy}`) : null)));
}

function commandList(study) {
  return html("dl", { class: "commands" }, study.verdict.next.map((next) => [
    html("dt", {}, next.what),
    html("dd", {}, html("code", {}, next.command), copyButton(next.command))]));
}

function copyButton(text) {
  const button = html("button", { class: "small", type: "button", "aria-label": "Copy the command" }, "copy");
  button.addEventListener("click", () => {
    const done = () => { button.textContent = "copied"; };
    navigator.clipboard?.writeText(text).then(done, () => {});
  });
  return button;
}

function drawVerdict(body, study) {
  const { verdict } = study;
  body.append(
    html("dl", { class: "figures" }, bestFigure(study),
      metricList("Model on test data", verdict.test),
      metricList("Model on validation data", verdict.validation), spentFigure(study)));
  const expected = expectationList(study);
  if (expected) body.append(expected);
  body.append(html("p", {}, `${verdict.states}.`,
    verdict.why ? ` The search ended because ${verdict.why}.` : "",
    verdict.chosen ? ` ${sentence(verdict.chosen)}` : ""));
  if (study.leader >= 0 || study.verdict.problems.length) {
    body.append(html("h3", {}, "Be careful about"), problemList(study));
  }
  if (verdict.tuner.length) {
    body.append(html("p", { class: "dim" }, `Tuner: ${verdict.tuner.join("; ")}.`));
  }
  body.append(html("h3", {}, "Next"), commandList(study));
}

function sentence(text) {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
