// Charts: a frame with two axes, and places in it.

function linearTicks(low, high, wanted) {
  const raw = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k) {
    ticks.push(Number((k * step).toPrecision(12)));
  }
  return ticks;
}

// Places of a parameter's ticks: [[unit, text], ...].
function parameterTicks(parameter, wanted) {
  if (parameter.kind === "choice") {
    const count = parameter.choices.length;
    return parameter.choices.map((choice, k) => [(k + 0.5) / count, numberText(choice, 3)]);
  }
  const { low, high } = parameter;
  if (!(high > low)) return [[0.5, numberText(low, 3)]];
  if (!parameter.log) {
    return linearTicks(low, high, wanted).map((t) => [(t - low) / (high - low), numberText(t, 3)]);
  }
  const from = Math.log10(low), to = Math.log10(high), ticks = [];
  const stride = Math.max(1, Math.ceil((to - from) / wanted));
  for (let k = Math.ceil(from - 1e-9); k <= to + 1e-9; k += stride) {
    ticks.push([(k - from) / (to - from), numberText(10 ** k, 3)]);
  }
  return ticks;
}

// The middle of a choice's cell lies where points of that choice are drawn.
class Chart {
  // x, y: {low, high, label, ticks: [[value, text]]}; text: what it shows, for
  // those who cannot see it.
  constructor(holder, { x, y, text, height = 280, left = 56, bottom = 40 }) {
    this.width = Math.max(240, Math.floor(holder.clientWidth || 720));
    this.height = height;
    this.left = left;
    this.bottom = bottom;
    this.right = 14;
    this.top = 12;
    this.x = x;
    this.y = y;
    this.root = svg("svg", {
      viewBox: `0 0 ${this.width} ${this.height}`, class: "chart", role: "img", "aria-label": text,
    });
    this.clip = `clip${++Chart.made}`;
    this.drawAxes();
    this.plot = svg("g", { "clip-path": `url(#${this.clip})` });
    this.root.append(
      svg("clipPath", { id: this.clip }, svg("rect", {
        x: this.left, y: this.top - 4, width: this.innerWidth() + 4,
        height: this.innerHeight() + 8,
      })), this.plot);
    holder.append(this.root);
  }

  innerWidth() { return this.width - this.left - this.right; }
  innerHeight() { return this.height - this.top - this.bottom; }
  px(value) {
    return this.left + (value - this.x.low) / (this.x.high - this.x.low || 1) * this.innerWidth();
  }
  py(value) {
    const part = (value - this.y.low) / (this.y.high - this.y.low || 1);
    return this.top + (1 - part) * this.innerHeight();
  }

  drawAxes() {
    const floor = this.height - this.bottom;
    const right = this.width - this.right;
    const ticksX = this.x.ticks || linearTicks(this.x.low, this.x.high, this.innerWidth() / 80)
      .map((t) => [t, numberText(t)]);
    const ticksY = this.y.ticks || linearTicks(this.y.low, this.y.high, this.innerHeight() / 34)
      .map((t) => [t, numberText(t)]);
    for (const [value, text] of ticksY) {
      const at = this.py(value);
      this.root.append(
        svg("line", { class: "grid", x1: this.left, x2: right, y1: at, y2: at }),
        svg("text", { class: "tick", x: this.left - 6, y: at + 4, "text-anchor": "end" }, text));
    }
    for (const [value, text] of ticksX) {
      const at = this.px(value);
      this.root.append(
        svg("line", { class: "grid", x1: at, x2: at, y1: floor, y2: floor + 4 }),
        svg("text", { class: "tick", x: at, y: floor + 16, "text-anchor": "middle" },
          shortened(text, 14)));
    }
    this.root.append(
      svg("line", { class: "axis", x1: this.left, x2: right, y1: floor, y2: floor }),
      svg("text", { class: "label", x: (this.left + right) / 2, y: this.height - 6, "text-anchor": "middle" },
        this.x.label || ""));
    if (this.y.label) this.root.setAttribute("aria-description", this.y.label);
  }

  // "M1,2L3,4" of points [x, y]; of one point a dot.
  line(points) {
    if (points.length === 1) {
      const [x, y] = points[0];
      return `M${this.px(x).toFixed(1)},${this.py(y).toFixed(1)}h0`;
    }
    let path = "";
    for (const [x, y] of points) {
      path += `${path ? "L" : "M"}${this.px(x).toFixed(1)},${this.py(y).toFixed(1)}`;
    }
    return path;
  }

  // A line that holds its value until the next point.
  stairs(points) {
    let path = "";
    for (const [x, y] of points) {
      const at = this.px(x).toFixed(1), to = this.py(y).toFixed(1);
      path += path ? `H${at}V${to}` : `M${at},${to}`;
    }
    return path;
  }

  // The area between low and high of points [x, low, high].
  band(points) {
    const up = points.map(([x, , high]) => [x, high]);
    const down = points.map(([x, low]) => [x, low]).reverse();
    return `${this.line(up.concat(down))}Z`;
  }

  // Points as one path of round dots.
  dots(points) {
    let path = "";
    for (const [x, y] of points) path += `M${this.px(x).toFixed(1)},${this.py(y).toFixed(1)}h0`;
    return path;
  }

  // Where a pointer is, in the chart's own units.
  place(event) {
    const box = this.root.getBoundingClientRect();
    const scale = this.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  }

  // Shows what is nearest to the pointer, and opens it on a click. near(x, y)
  // returns {text, open} or null.
  onNear(near) {
    this.root.addEventListener("pointermove", (event) => {
      const found = near(...this.place(event));
      if (found) showTip(event, found.text);
      else hideTip();
    });
    this.root.addEventListener("pointerleave", hideTip);
    this.root.addEventListener("click", (event) => {
      const found = near(...this.place(event));
      if (found && found.open !== undefined) openTrial(found.open);
    });
  }
}
Chart.made = 0;

function shortened(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}

const tip = html("div", { id: "tip", role: "status", hidden: true });

function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const right = event.clientX + tip.offsetWidth + 24 > window.innerWidth;
  tip.style.left = `${Math.max(4, right ? event.clientX - tip.offsetWidth - 12 : event.clientX + 12)}px`;
  tip.style.top = `${Math.max(4, event.clientY - tip.offsetHeight - 12)}px`;
}

function hideTip() {
  tip.hidden = true;
}

// [swatch word] ...
function legend(entries) {
  return html("ul", { class: "legend" }, entries.map(([kind, text]) =>
    html("li", {}, html("span", { class: `swatch ${kind}` }), text)));
}
